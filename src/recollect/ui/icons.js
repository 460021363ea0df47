// The icons: line drawings on a grid of 20 by 20.

import { svg } from "./h.js";

const PATHS = {
  chat: "M3 4.5h14v9H9l-4 3v-3H3z",
  chats: "M2.5 4h10v6.5H7L4.5 13v-2.5h-2zM14.5 7.5h3V14h-2v2.5L13 14H9.5",
  memories: "M5 3h10v14l-5-3.5L5 17z",
  documents: "M5 2.5h6.5L15.5 6.5v11H5zM11 2.5V7h4.5M7.5 10.5h5.5M7.5 13.5h5.5",
  timeline: "M3 15h14M5.5 15V9M10 15V5M14.5 15v-4M10 5",
  jobs: "M10 2.8v2.4M10 14.8v2.4M2.8 10h2.4M14.8 10h2.4M4.9 4.9l1.7 1.7M13.4 13.4l1.7 1.7M4.9 15.1l1.7-1.7M13.4 6.6l1.7-1.7",
  usage: "M3 3v14h14M6 13l3.5-4 3 2.5L17 6",
  settings: "M3 6h8M15 6h2M3 14h2M9 14h8M13 3.8v4.4M7 11.8v4.4",
  search: "M13 13l4 4M8.5 3a5.5 5.5 0 100 11 5.5 5.5 0 000-11z",
  plus: "M10 4v12M4 10h12",
  minus: "M4 10h12",
  fit: "M3.5 7.5v-4h4M12.5 3.5h4v4M16.5 12.5v4h-4M7.5 16.5h-4v-4",
  edit: "M4 16l.8-3.6L13 4.2l2.8 2.8-8.2 8.2zM11.5 5.7l2.8 2.8",
  trash: "M4 5.5h12M8 5.5V3.5h4v2M5.5 5.5l.8 11h7.4l.8-11M8.5 8.5v5M11.5 8.5v5",
  pin: "M7 3h6l-1 5 2.5 3h-9L8 8zM10 11v6",
  pinned: "M7 3h6l-1 5 2.5 3h-9L8 8zM10 11v6",
  history: "M3.5 10a6.5 6.5 0 106.5-6.5c-2.3 0-4.3 1.2-5.5 3M4 3.5v3.3h3.3M10 6.5V10l2.5 1.8",
  close: "M5 5l10 10M15 5L5 15",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  copy: "M7 7h9v9H7zM13 7V4H4v9h3",
  check: "M4 10.5l4 4 8-9",
  download: "M10 3v9M6 8.5l4 4 4-4M4 16h12",
  upload: "M10 13V4M6 7.5l4-4 4 4M4 16h12",
  sun: "M10 6.5a3.5 3.5 0 100 7 3.5 3.5 0 000-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1",
  moon: "M15.5 12.5A6.5 6.5 0 017.5 4.5a6.5 6.5 0 108 8z",
  leave: "M8 4H4v12h4M8 10h9M13.5 6.5L17 10l-3.5 3.5",
  graph: "M5 5.5a1.5 1.5 0 10.01 0M15 4.5a1.5 1.5 0 10.01 0M12 15.5a1.5 1.5 0 10.01 0M6.4 6.3l7-.7M5.8 8.2l5.2 6.3M14.6 7.3l-2.2 7.2",
  table: "M3 4.5h14v11H3zM3 8.5h14M8 8.5v7",
  inbox: "M3 11l2-6.5h10L17 11v5H3zM3 11h4l1 2h4l1-2h4",
  file: "M5 2.5h6.5L15.5 6.5v11H5zM11 2.5V7h4.5",
  temporary: "M10 3a7 7 0 100 14 7 7 0 000-14zM5.2 5.2l9.6 9.6",
  help: "M7.5 7.5a2.5 2.5 0 114 2c-1 .7-1.5 1.2-1.5 2.5M10 14.8v.1",
};

/** @typedef {keyof typeof PATHS} IconName */

/**
 * An icon, hidden from screen readers: the element that contains it has the label.
 * @param {IconName} name
 */
export function icon(name) {
  const drawing = drawn.get(name) ?? draw(name);
  drawn.set(name, drawing);
  return /** @type {SVGElement} */ (drawing.cloneNode(true));
}

/** Long lists show thousands of icons: copying one is cheaper than drawing it. @type {Map<IconName, SVGElement>} */
const drawn = new Map();

/** @param {IconName} name */
function draw(name) {
  return svg("svg", { viewBox: "0 0 20 20", class: `icon icon-${name}`, "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}
