// Error messages, shown where the error happened.

import { ServerError } from "../api.js";
import { h } from "../h.js";
import { empty } from "./empty.js";

/**
 * @param {Error} error
 * @param {() => void} [again]
 */
export function problem(error, again) {
  return h("div", { class: "problem", role: "alert" },
    h("p", {}, error.message || "Something went wrong."),
    again && h("button", { type: "button", class: "button", click: again }, "Try again"));
}

/**
 * An error while loading one item. If the item does not exist, there is no "Try again".
 * @param {Error} error
 * @param {import("../icons.js").IconName} sign
 * @param {string} what
 * @param {() => void} again
 */
export function missing(error, sign, what, again) {
  const isGone = error instanceof ServerError && error.status === 404;
  return isGone ? empty(sign, `${what[0].toUpperCase()}${what.slice(1)} not found`, "It was deleted, or it belongs to another workspace.") : problem(error, again);
}

/**
 * An error in one line, next to the control that failed.
 * @param {Error} error
 */
export function errorLine(error) {
  return h("p", { class: "error", role: "alert" }, error.message || "Something went wrong.");
}
