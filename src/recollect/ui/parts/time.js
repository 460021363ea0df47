// Relative times, with the exact time on hover.

import { ago, exact } from "../format.js";
import { h } from "../h.js";

const REFRESH_MS = 60_000;

/** Update the relative times every minute. */
export function refreshTimes() {
  setInterval(() => {
    for (const shown of document.querySelectorAll("time")) shown.textContent = ago(shown.dateTime);
  }, REFRESH_MS);
}

/** @param {string} when */
export function timeElement(when) {
  return h("time", { datetime: when, title: exact(when) }, ago(when));
}
