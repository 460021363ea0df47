// A moment, as people say it; the exact one on hover.

import { ago, exact } from "../format.js";
import { h } from "../h.js";

const AGAIN_MS = 60_000;

/** “Just now” does not stay true. */
export function keepTime() {
  setInterval(() => {
    for (const shown of document.querySelectorAll("time")) shown.textContent = ago(shown.dateTime);
  }, AGAIN_MS);
}

/** @param {string} when */
export function moment(when) {
  return h("time", { datetime: when, title: exact(when) }, ago(when));
}
