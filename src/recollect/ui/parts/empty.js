// Empty and loading states. An empty page explains what belongs there and how to start.

import { h } from "../h.js";
import { icon } from "../icons.js";

/**
 * @param {import("../icons.js").IconName} sign
 * @param {string} title
 * @param {string} text
 * @param {...(Node | null | false)} actions
 */
export function empty(sign, title, text, ...actions) {
  return h("div", { class: "empty" }, icon(sign), h("h2", {}, title), h("p", {}, text), actions.length > 0 && h("div", { class: "row centre" }, actions));
}

/** A loading message, invisible for the first 300 ms. @param {string} [what] */
export function waiting(what = "Loading…") {
  return h("p", { class: "waiting", role: "status" }, what);
}
