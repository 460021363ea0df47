// A moment, as people say it; the exact one on hover.

import { ago, exact } from "../format.js";
import { h } from "../h.js";

/** @param {string} when */
export function moment(when) {
  return h("time", { datetime: when, title: exact(when) }, ago(when));
}
