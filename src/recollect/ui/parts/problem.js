// An error where it happened, with a way out.

import { h } from "../h.js";

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
 * A line beside what failed.
 * @param {Error} error
 */
export function complaint(error) {
  return h("p", { class: "error", role: "alert" }, error.message || "Something went wrong.");
}
