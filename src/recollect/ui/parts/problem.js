// An error where it happened, with a way out.

import { Refused } from "../api.js";
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
 * The same for one thing that was to be shown; asking again does not bring back what is gone.
 * @param {Error} error
 * @param {import("../icons.js").IconName} sign
 * @param {string} what
 * @param {() => void} again
 */
export function missing(error, sign, what, again) {
  const isGone = error instanceof Refused && error.status === 404;
  return isGone ? empty(sign, `This ${what} is not here`, "It is gone, or it belongs to another workspace.") : problem(error, again);
}

/**
 * A line beside what failed.
 * @param {Error} error
 */
export function complaint(error) {
  return h("p", { class: "error", role: "alert" }, error.message || "Something went wrong.");
}
