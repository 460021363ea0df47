// What is tied to what: a picture one can move, enlarge, filter and open; with a mouse, a finger or keys.

import { call } from "../api.js";
import { cut, plural } from "../format.js";
import { h, svg } from "../h.js";
import { bounds, layout, readable } from "../layout.js";
import { hear, here } from "../state.js";
import { empty, waiting } from "./empty.js";
import { openMemory } from "./memory-detail.js";
import { tool } from "./memory-row.js";
import { problem } from "./problem.js";

const MOST = 300;
const LABEL = 26;
// So many units of the drawing to a pixel are the most at which a label can be read.
const SMALLEST = 1.2;
// A hand shakes by this many pixels while it presses.
const DRAG = 6;
const KINDS = ["memory", "document", "artifact", "decision", "milestone"];

/** @typedef {import("../types").Graph} Graph */
/** @typedef {{ x: number, y: number, width: number, height: number }} Box */

/**
 * @param {HTMLElement} frame
 * @param {AbortSignal} signal
 */
export async function showGraph(frame, signal) {
  const place = h("div", { class: "graph" }, waiting());
  const bar = h("div", { class: "row" });
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
  const points = layout(graph.nodes.length, edges.map((edge) => [at.get(edge.source) ?? 0, at.get(edge.target) ?? 0, edge.weight || 0.5]));
  const near = neighbours(graph.nodes.length, edges.map((edge) => [at.get(edge.source) ?? 0, at.get(edge.target) ?? 0]));

  const note = h("p", { class: "graph-note", "aria-live": "polite" });
  const lines = edges.map((edge) => {
    const [from, to] = [points[at.get(edge.source) ?? 0], points[at.get(edge.target) ?? 0]];
    return svg("line", { class: `edge ${edge.kind}`, x1: from.x, y1: from.y, x2: to.x, y2: to.y, "stroke-width": (0.6 + 1.6 * (edge.weight || 0)).toFixed(2) },
      svg("title", {}, (edge.relation || edge.kind).replaceAll("_", " ")));
  });
  const labelled = readable(points, graph.nodes.map((node) => cut(node.label, LABEL)), [...graph.nodes.keys()].sort((a, b) => near[b].size - near[a].size));
  const marks = graph.nodes.map((node, index) => mark(node, points[index], labelled.get(index)));
  const canvas = svg("svg", { class: "canvas", role: "group", "aria-label": `Graph: ${plural(graph.nodes.length, "node")}, ${plural(edges.length, "tie")}` }, svg("g", {}, lines), svg("g", {}, marks));
  const view = new View(canvas, bounds(points, 40, LABEL * 5), signal);

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
  place.replaceChildren(canvas, h("div", { class: "graph-tools" }, tool("plus", "Zoom in", () => view.zoom(0.7)), tool("minus", "Zoom out", () => view.zoom(1.4)), tool("fit", "Show all", () => view.all())), note);
  bar.replaceChildren(...filters(graph, edges, marks, lines));
}

/**
 * @param {Graph} graph
 * @param {Graph["edges"]} edges
 * @param {SVGElement[]} marks
 * @param {SVGElement[]} lines
 */
function filters(graph, edges, marks, lines) {
  const word = h("input", { type: "search", class: "search-inline", placeholder: "Find in the graph", "aria-label": "Find in the graph", "data-search": "" });
  const kind = h("select", { "aria-label": "Kind", class: "filter" }, h("option", { value: "" }, "All kinds"),
    KINDS.filter((name) => graph.nodes.some((node) => node.kind === name)).map((name) => h("option", { value: name }, name)));
  const tie = h("select", { "aria-label": "Ties", class: "filter" }, h("option", { value: "" }, "All ties"),
    [...new Set(edges.map((edge) => edge.kind))].sort().map((name) => h("option", { value: name }, name)));
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
    sum.textContent = plural(graph.nodes.length - hidden.size, "node");
  };
  const sum = h("span", { class: "soft small", role: "status" }, plural(graph.nodes.length, "node"));
  word.addEventListener("input", apply);
  kind.addEventListener("change", apply);
  tie.addEventListener("change", apply);
  return [word, kind, tie, sum];
}

/**
 * @param {import("../types").Node_} node
 * @param {{ x: number, y: number }} point
 * @param {"left" | "right" | undefined} side of the label; without one there is no room for it
 */
function mark(node, point, side) {
  const size = 5 + 5 * Math.max(0, Math.min(1, node.importance ?? 0.5));
  const shape = node.kind === "memory"
    ? svg("circle", { class: "shape", r: size })
    : svg("rect", { class: "shape", x: -size, y: -size, width: size * 2, height: size * 2, rx: 2 });
  return svg("g", { class: `node is-${node.kind}`, transform: `translate(${point.x.toFixed(1)} ${point.y.toFixed(1)})`, tabindex: "-1", role: "button", "aria-label": `${node.kind}: ${cut(node.label, 120)}` },
    shape, side && svg("text", side === "right" ? { x: size + 4, y: 4 } : { x: -size - 4, y: 4, "text-anchor": "end" }, cut(node.label, LABEL)));
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

/** What part of the plane is shown: dragged, wheeled, pinched. */
class View {
  /** @type {Map<number, { x: number, y: number }>} */
  #fingers = new Map();
  #travelled = 0;

  /**
   * @param {SVGElement} canvas
   * @param {Box} whole
   * @param {AbortSignal} signal
   */
  constructor(canvas, whole, signal) {
    this.canvas = canvas;
    this.whole = whole;
    this.box = { ...whole };
    // Once it has its place: where all of it would be too small to read, begin with the middle.
    requestAnimationFrame(() => this.#begin());
    this.all();
    canvas.addEventListener("wheel", (event) => (event.preventDefault(), this.zoom(event.deltaY > 0 ? 1.12 : 0.89, this.#at(event))), { passive: false, signal });
    canvas.addEventListener("pointerdown", (event) => ((this.#travelled = 0), this.#fingers.set(event.pointerId, { x: event.clientX, y: event.clientY })), { signal });
    addEventListener("pointerup", (event) => this.#fingers.delete(event.pointerId), { signal });
    addEventListener("pointercancel", (event) => this.#fingers.delete(event.pointerId), { signal });
    addEventListener("pointermove", (event) => this.#drag(event), { signal });
  }

  /** Whether the last press was no press but a drag. */
  get wasMoved() {
    return this.#travelled > DRAG;
  }

  #begin() {
    const scale = this.#scale();
    if (Number.isFinite(scale) && scale > SMALLEST) this.zoom(SMALLEST / scale);
  }

  all() {
    this.box = { ...this.whole };
    this.#draw();
  }

  /**
   * @param {number} by
   * @param {{ x: number, y: number }} [around]
   */
  zoom(by, around = { x: this.box.x + this.box.width / 2, y: this.box.y + this.box.height / 2 }) {
    const width = Math.min(this.whole.width * 3, Math.max(80, this.box.width * by));
    const scale = width / this.box.width;
    this.box = { x: around.x - (around.x - this.box.x) * scale, y: around.y - (around.y - this.box.y) * scale, width, height: this.box.height * scale };
    this.#draw();
  }

  /** Move so that a point is inside. @param {{ x: number, y: number }} point */
  reveal(point) {
    const { x, y, width, height } = this.box;
    if (point.x < x || point.x > x + width) this.box.x = point.x - width / 2;
    if (point.y < y || point.y > y + height) this.box.y = point.y - height / 2;
    this.#draw();
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    const before = this.#fingers.get(event.pointerId);
    if (!before) return;
    const now = { x: event.clientX, y: event.clientY };
    this.#travelled += Math.hypot(now.x - before.x, now.y - before.y);
    const other = [...this.#fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      this.zoom(Math.hypot(before.x - other.x, before.y - other.y) / Math.max(1, Math.hypot(now.x - other.x, now.y - other.y)));
    } else {
      const scale = this.#scale();
      this.box.x -= (now.x - before.x) * scale;
      this.box.y -= (now.y - before.y) * scale;
      this.#draw();
    }
    this.#fingers.set(event.pointerId, now);
  }

  #scale() {
    const shown = this.canvas.getBoundingClientRect();
    return Math.max(this.box.width / shown.width, this.box.height / shown.height);
  }

  /** @param {MouseEvent} event */
  #at(event) {
    const shown = this.canvas.getBoundingClientRect();
    const scale = this.#scale();
    return {
      x: this.box.x + this.box.width / 2 + (event.clientX - shown.left - shown.width / 2) * scale,
      y: this.box.y + this.box.height / 2 + (event.clientY - shown.top - shown.height / 2) * scale,
    };
  }

  #draw() {
    const { x, y, width, height } = this.box;
    this.canvas.setAttribute("viewBox", [x, y, width, height].map((value) => value.toFixed(1)).join(" "));
  }
}
