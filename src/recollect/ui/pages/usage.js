// The usage page: tokens, cost and recall times.

import { call } from "../api.js";
import { brief, count } from "../format.js";
import { h } from "../h.js";
import { empty, waiting } from "../parts/empty.js";
import { plot } from "../parts/plot.js";
import { problem } from "../parts/problem.js";
import { oneOf, replaceHash } from "../router.js";
import { listen, workspacePath } from "../state.js";

const SPANS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"]];

/** @type {import("../router.js").Show} */
export async function page(main, route, signal) {
  let span = oneOf(route, "days", ["30", ...SPANS.map(([value]) => value)]);
  const body = h("div", { class: "page-body" }, waiting());
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "Period" }, SPANS.map(([value, label]) =>
    h("button", { type: "button", "aria-pressed": String(value === span), "data-span": value, click: () => choose(value) }, label)));
  main.replaceChildren(h("div", { class: "page" }, h("header", { class: "page-head" }, h("h1", {}, "Usage"), tabs), body));

  /** @param {string} value */
  function choose(value) {
    span = value;
    for (const each of tabs.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.dataset.span === value));
    replaceHash(`#/usage?days=${value}`);
    load();
  }
  async function load() {
    try {
      const usage = await call(workspacePath("/usage"), { query: { days: span }, signal });
      body.replaceChildren(...render(usage, Number(span)));
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(problem(/** @type {Error} */ (error), load));
    }
  }
  listen("back", load, signal);
  await load();
}

/**
 * @param {import("../types").Usage} usage
 * @param {number} span
 */
function render(usage, span) {
  if (!usage.calls.length && !usage.recall.length) {
    return [empty("usage", "No usage yet", "This page shows model calls by day, with their tokens and cost, and how long recalls take.", h("a", { class: "button", href: "#/" }, "Start a chat"))];
  }
  const days = lastDays(span);
  const by = (/** @type {(each: import("../types").Usage["calls"][number]) => number} */ value) => days.map((each) => usage.calls.filter((one) => one.day.slice(0, 10) === each).reduce((sum, one) => sum + value(one), 0));
  const recall = new Map(usage.recall.map((each) => [each.day.slice(0, 10), each]));
  const [into, out, cost] = [by((each) => each.input_tokens), by((each) => each.output_tokens), by((each) => Number(each.cost) || 0)];
  const sum = (/** @type {number[]} */ values) => values.reduce((total, value) => total + value, 0);
  // Without prices the cost is unknown, not zero.
  const hasPrices = usage.calls.some((each) => each.cost !== null);
  const recalls = usage.recall.reduce((total, each) => total + each.count, 0);
  const failed = usage.calls.reduce((total, each) => total + (Number(each.failed) || 0), 0);
  return [
    h("div", { class: "cards" },
      card(brief(sum(into)), "tokens in"), card(brief(sum(out)), "tokens out"), hasPrices && card(money(sum(cost)), "cost"),
      card(count(recalls), "recalls"), card(count(failed), "failed calls")),
    plot("Tokens per day", days, [{ name: "in", values: into }, { name: "out", values: out }], { kind: "bars" }),
    usage.recall.length ? plot("Recall time", days, [
      { name: "median", values: days.map((each) => recall.get(each)?.p50 ?? null) },
      { name: "95th percentile", values: days.map((each) => recall.get(each)?.p95 ?? null) }], { kind: "lines", unit: " ms" }) : null,
    table(usage, hasPrices),
  ].filter((part) => part !== null);
}

/**
 * @param {string} number
 * @param {string} label
 */
function card(number, label) {
  return h("div", { class: "card" }, h("p", { class: "number" }, number), h("p", { class: "soft" }, label));
}

/** @param {number} value */
function money(value) {
  return value === 0 ? "0" : value < 0.01 ? "< 0.01" : value.toFixed(2);
}

/**
 * @param {import("../types").Usage} usage
 * @param {boolean} hasPrices
 */
function table(usage, hasPrices) {
  /** @type {Map<string, { model: string, purpose: string, in: number, out: number, cost: number }>} */
  const sums = new Map();
  for (const each of usage.calls) {
    const key = `${each.model}\n${each.purpose}`;
    const sum = sums.get(key) ?? { model: each.model, purpose: each.purpose, in: 0, out: 0, cost: 0 };
    sum.in += each.input_tokens;
    sum.out += each.output_tokens;
    sum.cost += Number(each.cost) || 0;
    sums.set(key, sum);
  }
  if (!sums.size) return null;
  return h("div", { class: "scroll-x" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, ["Model", "Purpose", "In", "Out", ...(hasPrices ? ["Cost"] : [])].map((name, index) => h("th", { class: index > 1 ? "number" : "", scope: "col" }, name)))),
    h("tbody", {}, [...sums.values()].map((sum) => h("tr", {}, h("td", {}, sum.model), h("td", {}, sum.purpose), h("td", { class: "number" }, count(sum.in)), h("td", { class: "number" }, count(sum.out)), hasPrices && h("td", { class: "number" }, money(sum.cost)))))));
}

/** @param {number} span */
function lastDays(span) {
  const now = Date.now();
  return Array.from({ length: span }, (_, index) => new Date(now - (span - 1 - index) * 86_400_000).toISOString().slice(0, 10));
}
