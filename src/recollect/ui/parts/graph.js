// The graph of linked memories: move, zoom, filter and open it with mouse, touch or keyboard.

import { call } from "../api.js";
import { plural, truncate } from "../format.js";
import { h, svg } from "../h.js";
import { icon } from "../icons.js";
import { fitBox, innerFrame, layout, placeLabels } from "../layout.js";
import { listen, workspacePath } from "../state.js";
import { empty, waiting } from "./empty.js";
import { View } from "./graph-view.js";
import { openMemory } from "./memory-detail.js";
import { iconButton } from "./memory-row.js";
import { problem } from "./problem.js";

const MAX_NODES = 300;
// The maximum length of a label in a wide and in a narrow frame.
const LABEL_LENGTH = { wide: 30, narrow: 18 };
const KINDS = ["memory", "document", "artifact", "decision", "milestone"];

/** @typedef {import("../types").Graph} Graph */

/**
 * @param {HTMLElement} frame
 * @param {AbortSignal} signal
 */
export async function showGraph(frame, signal) {
  const container = h("div", { class: "graph" }, waiting());
  const bar = h("div", { class: "row graph-bar" });
  frame.append(bar, container);
  const load = async () => {
    try {
      const graph = await call(workspacePath("/graph"), { query: { limit: MAX_NODES }, signal });
      draw(container, bar, graph, signal);
    } catch (error) {
      if (!signal.aborted) container.replaceChildren(problem(/** @type {Error} */ (error), load));
    }
  };
  listen("back", load, signal);
  listen("memories", (event) => event.removed && load(), signal);
  await load();
}

/**
 * @param {HTMLElement} container
 * @param {HTMLElement} bar
 * @param {Graph} graph
 * @param {AbortSignal} signal
 */
function draw(container, bar, graph, signal) {
  if (!graph.nodes.length) {
    container.replaceChildren(empty("graph", "No links yet", "Related memories are linked: by meaning, by source, or because one replaced another. They appear here."));
    return;
  }
  const at = new Map(graph.nodes.map((node, index) => [node.id, index]));
  const edges = graph.edges.filter((edge) => at.has(edge.source) && at.has(edge.target));
  const frame = { width: container.clientWidth, height: container.clientHeight };
  const inner = innerFrame(frame);
  const points = layout(graph.nodes.length, edges.map((edge) => [at.get(edge.source) ?? 0, at.get(edge.target) ?? 0, edge.weight || 0.5]), inner.width / inner.height);
  const linked = linkedNodes(graph.nodes.length, edges.map((edge) => [at.get(edge.source) ?? 0, at.get(edge.target) ?? 0]));

  const note = h("p", { class: "graph-note", "aria-live": "polite" });
  const lines = edges.map((edge) => {
    const [from, to] = [points[at.get(edge.source) ?? 0], points[at.get(edge.target) ?? 0]];
    return svg("line", { class: `edge ${edge.kind}`, x1: from.x, y1: from.y, x2: to.x, y2: to.y, "stroke-width": (1 + (edge.weight || 0)).toFixed(2) },
      svg("title", {}, (edge.relation || edge.kind).replaceAll("_", " ")));
  });
  const names = graph.nodes.map((node) => truncate(node.label, frame.width < 500 ? LABEL_LENGTH.narrow : LABEL_LENGTH.wide));
  const marks = graph.nodes.map((node, index) => mark(node, points[index], names[index]));
  const canvas = svg("svg", { class: "canvas", role: "group", "aria-label": `Graph: ${plural(graph.nodes.length, "node")}, ${plural(edges.length, "link")}` }, svg("g", {}, lines), svg("g", {}, marks));
  const widths = measureLabels(container, names);
  const byLinks = [...graph.nodes.keys()].sort((a, b) => linked[b].size - linked[a].size);
  const label = oncePerFrame(() => {
    const order = byLinks.filter((index) => marks[index].style.display !== "none");
    const seen = view.inFrame(points);
    const sides = placeLabels(seen.points, widths, order, seen);
    marks.forEach((each, index) => each.setAttribute("data-label", sides.get(index) ?? ""));
  });
  const view = new View(canvas, fitBox(points, frame), label, signal);

  /** @param {number} index */
  const highlight = (index) => {
    note.textContent = `${graph.nodes[index].kind}: ${graph.nodes[index].label}`;
    marks.forEach((each, other) => each.classList.toggle("is-dim", other !== index && !linked[index].has(other)));
    lines.forEach((line, other) => line.classList.toggle("is-dim", at.get(edges[other].source) !== index && at.get(edges[other].target) !== index));
  };
  const clearHighlight = () => {
    note.textContent = "";
    for (const each of [...marks, ...lines]) each.classList.remove("is-dim");
  };
  marks.forEach((each, index) => {
    each.addEventListener("pointerenter", () => highlight(index));
    each.addEventListener("pointerleave", clearHighlight);
    each.addEventListener("focus", () => highlight(index));
    each.addEventListener("blur", clearHighlight);
    each.addEventListener("click", () => view.wasMoved || open(graph.nodes[index]));
    each.addEventListener("keydown", (event) => {
      const key = /** @type {KeyboardEvent} */ (event).key;
      // The dialog takes the focus at once: the key press must not reach its button.
      if (key === "Enter") (event.preventDefault(), open(graph.nodes[index]));
      const next = key.startsWith("Arrow") ? nearestInDirection(points, marks, index, key) : -1;
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
  container.replaceChildren(canvas, h("div", { class: "graph-tools" }, iconButton("plus", "Zoom in", () => view.zoom(0.7)), iconButton("minus", "Zoom out", () => view.zoom(1.4)), iconButton("fit", "Show all", () => view.all())), legend(graph), note);
  bar.replaceChildren(...filters(graph, edges, marks, lines, label));
  view.begin();
}

/**
 * Run the work once before the next frame, however often it is requested.
 * @param {() => void} work
 */
function oncePerFrame(work) {
  let request = 0;
  return () => (cancelAnimationFrame(request), (request = requestAnimationFrame(work)));
}

/**
 * Measure the widths of the labels.
 * @param {HTMLElement} container
 * @param {string[]} names
 */
function measureLabels(container, names) {
  const context = document.createElement("canvas").getContext("2d");
  if (context) context.font = `12px ${getComputedStyle(container).fontFamily}`;
  return names.map((name) => context?.measureText(name).width ?? name.length * 7);
}

/** The meaning of the shapes, if there are several. @param {Graph} graph */
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
  const filterText = h("input", { type: "search", class: "search", placeholder: "Find in the graph", "aria-label": "Find in the graph", "data-search": "" });
  const kind = h("select", { "aria-label": "Kind", class: "filter" }, h("option", { value: "" }, "All kinds"),
    KINDS.filter((name) => graph.nodes.some((node) => node.kind === name)).map((name) => h("option", { value: name }, name)));
  const relation = h("select", { "aria-label": "Links", class: "filter" }, h("option", { value: "" }, "All links"),
    [...new Set(edges.map((edge) => edge.kind))].sort().map((name) => h("option", { value: name }, name)));
  const counted = (/** @type {number} */ number) => plural(number, "node") + (graph.nodes.length >= MAX_NODES ? ", the newest" : "");
  const apply = () => {
    const wanted = filterText.value.trim().toLowerCase();
    const hidden = new Set();
    graph.nodes.forEach((node, index) => {
      const isShown = (!kind.value || node.kind === kind.value) && node.label.toLowerCase().includes(wanted);
      if (!isShown) hidden.add(node.id);
      marks[index].toggleAttribute("hidden", !isShown);
      marks[index].style.display = isShown ? "" : "none";
    });
    edges.forEach((edge, index) => (lines[index].style.display = (relation.value && edge.kind !== relation.value) || hidden.has(edge.source) || hidden.has(edge.target) ? "none" : ""));
    sum.textContent = counted(graph.nodes.length - hidden.size);
    changed();
  };
  const sum = h("span", { class: "soft small", role: "status" }, counted(graph.nodes.length));
  filterText.addEventListener("input", apply);
  kind.addEventListener("change", apply);
  relation.addEventListener("change", apply);
  return [h("div", { class: "search-box" }, icon("search"), filterText), kind, relation, sum];
}

/**
 * @param {import("../types").Node_} node
 * @param {{ x: number, y: number }} point
 * @param {string} name
 */
function mark(node, point, name) {
  const size = 5 + 4 * Math.max(0, Math.min(1, node.importance ?? 0.5));
  return svg("g", { class: `node is-${node.kind}`, transform: `translate(${point.x.toFixed(1)} ${point.y.toFixed(1)})`, tabindex: "-1", role: "button", "aria-label": `${node.kind}: ${truncate(node.label, 120)}` },
    svg("g", { class: "sized" }, svg("g", { class: "body" }, shape(node.kind, size)), svg("text", {}, name)));
}

/**
 * Memories are circles; decisions and milestones are diamonds.
 * @param {string} kind
 * @param {number} size
 */
function shape(kind, size) {
  if (kind === "memory") return svg("circle", { class: "shape", r: size });
  const isDiamond = kind === "decision" || kind === "milestone";
  if (isDiamond) size *= 0.85; // its diagonal is longer than its side
  return svg("rect", { class: "shape", x: -size, y: -size, width: size * 2, height: size * 2, rx: 2, ...(isDiamond && { transform: "rotate(45)" }) });
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
function linkedNodes(count, pairs) {
  const linked = Array.from({ length: count }, () => /** @type {Set<number>} */ (new Set()));
  for (const [from, to] of pairs) (linked[from].add(to), linked[to].add(from));
  return linked;
}

/**
 * The nearest visible node in the direction of an arrow key.
 * @param {{ x: number, y: number }[]} points
 * @param {SVGElement[]} marks
 * @param {number} from
 * @param {string} key
 */
function nearestInDirection(points, marks, from, key) {
  const [ax, ay] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key] ?? [0, 0];
  let best = -1;
  let lowest = Infinity;
  points.forEach((point, index) => {
    const [dx, dy] = [point.x - points[from].x, point.y - points[from].y];
    const along = dx * ax + dy * ay;
    if (index === from || along <= 0 || marks[index].style.display === "none") return;
    const cost = Math.hypot(dx, dy) + 2 * Math.abs(dx * ay - dy * ax);
    if (cost < lowest) [best, lowest] = [index, cost];
  });
  return best;
}
