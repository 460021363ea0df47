// SVG plots with a text summary for screen readers.

import { brief, day } from "../format.js";
import { h, svg } from "../h.js";

const HEIGHT = 200;
const LEFT = 44;
const BOTTOM = 22;

/** @typedef {{ name: string, values: (number | null)[] }} Series */

/**
 * @param {string} title
 * @param {string[]} days
 * @param {Series[]} series at most two
 * @param {{ kind: "bars" | "lines", unit?: string }} options
 */
export function plot(title, days, series, { kind, unit = "" }) {
  // Drawn at its displayed width, so that the text keeps its size.
  const wide = Math.min(830, Math.max(280, (document.getElementById("main")?.clientWidth ?? 800) - 66));
  const sums = days.map((_, index) => (kind === "bars" ? series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0) : Math.max(...series.map(({ values }) => values[index] ?? 0))));
  const top = ceiling(Math.max(...sums, 1));
  const y = (/** @type {number} */ value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - 8);
  const step = (wide - LEFT) / Math.max(1, days.length);
  const x = (/** @type {number} */ index) => LEFT + step * (index + 0.5);
  const drawn = kind === "bars" ? bars(days, series, x, y, step, unit) : lines(days, series, x, y, unit);
  return h("figure", { class: "plot" },
    h("figcaption", {}, h("h2", {}, title), series.map(({ name }, index) =>
      h("span", { class: "legend" }, h("span", { class: `swatch ${kind === "lines" ? (index ? "dashed" : "stroke") : index ? "second" : ""}` }), name))),
    svg("svg", { viewBox: `0 0 ${wide} ${HEIGHT}`, role: "img", "aria-label": summary(title, days, sums, unit) }, axis(top, y, unit, wide), marks(days, x, wide), drawn));
}

/**
 * @param {string[]} days
 * @param {Series[]} series
 * @param {(index: number) => number} x
 * @param {(value: number) => number} y
 * @param {number} step
 * @param {string} unit
 */
function bars(days, series, x, y, step, unit) {
  const width = Math.max(2, Math.min(28, step * 0.7));
  return days.flatMap((each, index) => {
    let under = 0;
    return series.map(({ name, values }, which) => {
      const value = values[index] ?? 0;
      const top = y(under + value);
      const bar = svg("rect", { class: which ? "bar second" : "bar", x: x(index) - width / 2, y: top, width, height: Math.max(0, y(under) - top) },
        svg("title", {}, `${day(each)}: ${name} ${brief(value)}${unit}`));
      under += value;
      return bar;
    });
  });
}

/**
 * @param {string[]} days
 * @param {Series[]} series
 * @param {(index: number) => number} x
 * @param {(value: number) => number} y
 * @param {string} unit
 */
function lines(days, series, x, y, unit) {
  return series.flatMap(({ name, values }, which) => {
    const known = values.flatMap((value, index) => (value === null ? [] : [{ value, index }]));
    const path = known.map(({ value, index }, order) => `${order ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    return [
      svg("path", { class: which ? "curve second" : "curve", d: path || "M0 0" }),
      ...known.map(({ value, index }) => svg("circle", { class: "point", cx: x(index), cy: y(value), r: 3 }, svg("title", {}, `${day(days[index])}: ${name} ${brief(value)}${unit}`))),
    ];
  });
}

/**
 * @param {number} top
 * @param {(value: number) => number} y
 * @param {string} unit
 * @param {number} width
 */
function axis(top, y, unit, width) {
  return [0, 0.5, 1].map((share) => svg("g", {},
    svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(top * share), y2: y(top * share) }),
    svg("text", { x: LEFT - 8, y: y(top * share) + 4, "text-anchor": "end" }, brief(top * share) + (share ? unit : ""))));
}

/**
 * @param {string[]} days
 * @param {(index: number) => number} x
 * @param {number} width
 */
function marks(days, x, width) {
  const every = Math.max(1, Math.ceil(days.length / Math.floor(width / 90)));
  return days.flatMap((each, index) => ((days.length - 1 - index) % every ? [] : [svg("text", index === days.length - 1 ? { x: width, y: HEIGHT - 4, "text-anchor": "end" } : { x: x(index), y: HEIGHT - 4, "text-anchor": "middle" }, day(each))]));
}

/**
 * @param {string} title
 * @param {string[]} days
 * @param {number[]} sums
 * @param {string} unit
 */
function summary(title, days, sums, unit) {
  const highest = sums.indexOf(Math.max(...sums));
  return days.length ? `${title}: from ${day(days[0])} to ${day(days[days.length - 1])}, highest on ${day(days[highest])} with ${brief(sums[highest])}${unit}` : title;
}

/** The next round number at or above a value. @param {number} value */
export function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((each) => each * power).find((each) => each >= value) ?? value;
}
