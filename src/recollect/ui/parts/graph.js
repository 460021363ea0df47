// What is tied to what: a picture one can move, enlarge, filter and open; with a mouse, a finger or keys.

import { call } from "../api.js";
import { cut, plural } from "../format.js";
import { h, svg } from "../h.js";
import { icon } from "../icons.js";
import { fitted, layout, readable, within } from "../layout.js";
import { hear, here } from "../state.js";
import { empty, waiting } from "./empty.js";
import { View } from "./graph-view.js";
import { openMemory } from "./memory-detail.js";
import { tool } from "./memory-row.js";
import { problem } from "./problem.js";

const MOST = 300;
// So many letters of a label, in a frame with and without much room.
const LABEL = { wide: 30, narrow: 18 };
const KINDS = ["memory", "document", "artifact", "decision", "milestone"];

/** @typedef {import("../types").Graph} Graph */

/**
 * @param {HTMLElement} frame
 * @param {AbortSignal} signal
 */
export async function showGraph(frame, signal) {
  const place = h("div", { class: "graph" }, waiting());
  const bar = h("div", { class: "row graph-bar" });
  frame.append(bar, place);
  const load = async () => {
    try {
      const graph = await call(here("/graph"), { query: { limit: MOST }, signal });
      draw(place, bar, graph, signal);
    } catch (error) {
      if (!signal.aborted) place.replaceChildren(problem(/** @type {Error} */ (error), load));
    }
  };
  hear("back", load, signal);
  hear("memories", (news) => news.removed && load(), signal);
  await load();
}

/**
 * @param {HTMLElement} place
 * @param {HTMLElement} bar
 * @param {Graph} graph
 * @param {AbortSignal} signal
 */
function draw(place, bar, graph, signal) {
  if (!graph.nodes.length) {
    place.replaceChildren(empty("graph", "No ties yet", "As memories gather, those that belong together are tied: by meaning, by where they came from, by what replaced what. They appear here."));
    return;
  }
  const at = new Map(graph.nodes.map((node, index) => [node.id, index]));
  const edges = graph.edges.filter((edge) => at.has(edge.source) && at.has(edge.target));
  const frame = { width: place.clientWidth, height: place.clientHeight };
  const inner = within(frame);
  const points = layout(graph.nodes.length, edges.map((edge) => [at.get(edge.source) ?? 0, at.get(edge.target) ?? 0, edge.weight || 0.5]), inner.width / inner.height);
  const near = neighbours(graph.nodes.length, edges.map((edge) => [at.get(edge.source) ?? 0, at.get(edge.target) ?? 0]));

  const note = h("p", { class: "graph-note", "aria-live": "polite" });
  const lines = edges.map((edge) => {
    const [from, to] = [points[at.get(edge.source) ?? 0], points[at.get(edge.target) ?? 0]];
    return svg("line", { class: `edge ${edge.kind}`, x1: from.x, y1: from.y, x2: to.x, y2: to.y, "stroke-width": (1 + (edge.weight || 0)).toFixed(2) },
      svg("title", {}, (edge.relation || edge.kind).replaceAll("_", " ")));
  });
  const names = graph.nodes.map((node) => cut(node.label, frame.width < 500 ? LABEL.narrow : LABEL.wide));
  const marks = graph.nodes.map((node, index) => mark(node, points[index], names[index]));
  const canvas = svg("svg", { class: "canvas", role: "group", "aria-label": `Graph: ${plural(graph.nodes.length, "node")}, ${plural(edges.length, "tie")}` }, svg("g", {}, lines), svg("g", {}, marks));
  const widths = measured(place, names);
  const mostTied = [...graph.nodes.keys()].sort((a, b) => near[b].size - near[a].size);
  const label = once(() => {
    const order = mostTied.filter((index) => marks[index].style.display !== "none");
    const seen = view.inFrame(points);
    const sides = readable(seen.points, widths, order, seen);
    marks.forEach((each, index) => each.setAttribute("data-label", sides.get(index) ?? ""));
  });
  const view = new View(canvas, fitted(points, frame), label, signal);

  /** @param {number} index */
  const look = (index) => {
    note.textContent = `${graph.nodes[index].kind}: ${graph.nodes[index].label}`;
    marks.forEach((each, other) => each.classList.toggle("is-dim", other !== index && !near[index].has(other)));
    lines.forEach((line, other) => line.classList.toggle("is-dim", at.get(edges[other].source) !== index && at.get(edges[other].target) !== index));
  };
  const lookAway = () => {
    note.textContent = "";
    for (const each of [...marks, ...lines]) each.classList.remove("is-dim");
  };
  marks.forEach((each, index) => {
    each.addEventListener("pointerenter", () => look(index));
    each.addEventListener("pointerleave", lookAway);
    each.addEventListener("focus", () => look(index));
    each.addEventListener("blur", lookAway);
    each.addEventListener("click", () => view.wasMoved || open(graph.nodes[index]));
    each.addEventListener("keydown", (event) => {
      const key = /** @type {KeyboardEvent} */ (event).key;
      // The dialog takes the focus at once: the rest of the key press must not land on its button.
      if (key === "Enter") (event.preventDefault(), open(graph.nodes[index]));
      const next = key.startsWith("Arrow") ? toward(points, marks, index, key) : -1;
      if (next < 0) return;
      event.preventDefault();
      event.stopPropagation();
      each.setAttribute("tabindex", "-1");
      marks[next].setAttribute("tabindex", "0");
      marks[next].focus();
      view.reveal(points[next]);
    });
  });
  marks[0].setAttribute("tabindex", "0");
  place.replaceChildren(canvas, h("div", { class: "graph-tools" }, tool("plus", "Zoom in", () => view.zoom(0.7)), tool("minus", "Zoom out", () => view.zoom(1.4)), tool("fit", "Show all", () => view.all())), legend(graph), note);
  bar.replaceChildren(...filters(graph, edges, marks, lines, label));
  view.begin();
}

/**
 * Do it once before the next picture, however often it is asked for.
 * @param {() => void} work
 */
function once(work) {
  let asked = 0;
  return () => (cancelAnimationFrame(asked), (asked = requestAnimationFrame(work)));
}

/**
 * How wide the labels are.
 * @param {HTMLElement} place
 * @param {string[]} names
 */
function measured(place, names) {
  const pen = document.createElement("canvas").getContext("2d");
  if (pen) pen.font = `12px ${getComputedStyle(place).fontFamily}`;
  return names.map((name) => pen?.measureText(name).width ?? name.length * 7);
}

/** What the shapes are, where there are several. @param {Graph} graph */
function legend(graph) {
  const kinds = KINDS.filter((name) => graph.nodes.some((node) => node.kind === name));
  if (kinds.length < 2) return "";
  return h("ul", { class: "graph-legend" }, kinds.map((name) => h("li", {}, svg("svg", { viewBox: "-9 -9 18 18", class: `sample is-${name}`, "aria-hidden": "true" }, shape(name, 6)), name)));
}

/**
 * @param {Graph} graph
 * @param {Graph["edges"]} edges
 * @param {SVGElement[]} marks
 * @param {SVGElement[]} lines
 * @param {() => void} changed
 */
function filters(graph, edges, marks, lines, changed) {
  const word = h("input", { type: "search", class: "search", placeholder: "Find in the graph", "aria-label": "Find in the graph", "data-search": "" });
  const kind = h("select", { "aria-label": "Kind", class: "filter" }, h("option", { value: "" }, "All kinds"),
    KINDS.filter((name) => graph.nodes.some((node) => node.kind === name)).map((name) => h("option", { value: name }, name)));
  const tie = h("select", { "aria-label": "Ties", class: "filter" }, h("option", { value: "" }, "All ties"),
    [...new Set(edges.map((edge) => edge.kind))].sort().map((name) => h("option", { value: name }, name)));
  const counted = (/** @type {number} */ number) => plural(number, "node") + (graph.nodes.length >= MOST ? ", the newest" : "");
  const apply = () => {
    const wanted = word.value.trim().toLowerCase();
    const hidden = new Set();
    graph.nodes.forEach((node, index) => {
      const isShown = (!kind.value || node.kind === kind.value) && node.label.toLowerCase().includes(wanted);
      if (!isShown) hidden.add(node.id);
      marks[index].toggleAttribute("hidden", !isShown);
      marks[index].style.display = isShown ? "" : "none";
    });
    edges.forEach((edge, index) => (lines[index].style.display = (tie.value && edge.kind !== tie.value) || hidden.has(edge.source) || hidden.has(edge.target) ? "none" : ""));
    sum.textContent = counted(graph.nodes.length - hidden.size);
    changed();
  };
  const sum = h("span", { class: "soft small", role: "status" }, counted(graph.nodes.length));
  word.addEventListener("input", apply);
  kind.addEventListener("change", apply);
  tie.addEventListener("change", apply);
  return [h("div", { class: "search-box" }, icon("search"), word), kind, tie, sum];
}

/**
 * @param {import("../types").Node_} node
 * @param {{ x: number, y: number }} point
 * @param {string} name
 */
function mark(node, point, name) {
  const size = 5 + 4 * Math.max(0, Math.min(1, node.importance ?? 0.5));
  return svg("g", { class: `node is-${node.kind}`, transform: `translate(${point.x.toFixed(1)} ${point.y.toFixed(1)})`, tabindex: "-1", role: "button", "aria-label": `${node.kind}: ${cut(node.label, 120)}` },
    svg("g", { class: "sized" }, svg("g", { class: "body" }, shape(node.kind, size)), svg("text", {}, name)));
}

/**
 * Round ones are memories; a decision stands on its corner.
 * @param {string} kind
 * @param {number} size
 */
function shape(kind, size) {
  if (kind === "memory") return svg("circle", { class: "shape", r: size });
  const turned = kind === "decision" || kind === "milestone";
  if (turned) size *= 0.85; // it reaches farther from corner to corner
  return svg("rect", { class: "shape", x: -size, y: -size, width: size * 2, height: size * 2, rx: 2, ...(turned && { transform: "rotate(45)" }) });
}

/** @param {import("../types").Node_} node */
function open(node) {
  if (node.kind === "document" || node.kind === "artifact") location.hash = `#/documents/${node.id}`;
  else openMemory(node.id);
}

/**
 * @param {number} count
 * @param {[number, number][]} pairs
 */
function neighbours(count, pairs) {
  const near = Array.from({ length: count }, () => /** @type {Set<number>} */ (new Set()));
  for (const [from, to] of pairs) (near[from].add(to), near[to].add(from));
  return near;
}

/**
 * The nearest shown node in the direction of an arrow.
 * @param {{ x: number, y: number }[]} points
 * @param {SVGElement[]} marks
 * @param {number} from
 * @param {string} key
 */
function toward(points, marks, from, key) {
  const [ax, ay] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key] ?? [0, 0];
  let best = -1;
  let least = Infinity;
  points.forEach((point, index) => {
    const [dx, dy] = [point.x - points[from].x, point.y - points[from].y];
    const along = dx * ax + dy * ay;
    if (index === from || along <= 0 || marks[index].style.display === "none") return;
    const cost = Math.hypot(dx, dy) + 2 * Math.abs(dx * ay - dy * ax);
    if (cost < least) [best, least] = [index, cost];
  });
  return best;
}
