// Memories that somebody should look at before they count.

import { call } from "../api.js";
import { h } from "../h.js";
import { hear, here, tell } from "../state.js";
import { empty } from "./empty.js";
import { LongList } from "./long-list.js";
import { complaint } from "./problem.js";
import { moment } from "./time.js";

/**
 * @param {HTMLElement} frame
 * @param {AbortSignal} signal
 */
export async function review(frame, signal) {
  /** @type {LongList<import("../types").Candidate>} */
  const list = new LongList({
    label: "Waiting for review",
    scroller: null,
    signal,
    row: (candidate) => row(candidate, list),
    load: (cursor, stop) => call(here("/pending"), { query: { cursor, limit: 50 }, signal: stop }),
    none: () => empty("inbox", "Nothing waits", "What looks like an instruction or a secret, or whatever you want to see first (RECOLLECT_REVIEW), waits here until you accept or reject it."),
  });
  frame.append(h("p", { class: "page-note" }, "These were learnt but are told to nobody until you accept them."), list.node);
  hear("back", () => list.reset(), signal);
  await list.reset();
}

/**
 * @param {import("../types").Candidate} candidate
 * @param {LongList<import("../types").Candidate>} list
 */
function row(candidate, list) {
  const wrong = h("div", {});
  const decide = async (/** @type {"accept" | "reject"} */ verb) => {
    try {
      const added = await call(here(`/pending/${encodeURIComponent(candidate.id)}/${verb}`), { method: "POST" });
      list.remove(candidate.id);
      tell("memories", verb === "accept" ? { added } : {});
    } catch (error) {
      wrong.replaceChildren(complaint(/** @type {Error} */ (error)));
    }
  };
  return h("article", { class: "memory" },
    h("p", { class: "memory-text" }, candidate.content),
    h("p", { class: "meta" },
      candidate.category && h("span", { class: "chip" }, candidate.category),
      candidate.reason && h("span", {}, candidate.reason),
      candidate.created_at && moment(candidate.created_at)),
    candidate.quote && h("blockquote", { class: "said" }, h("p", {}, candidate.quote)),
    wrong,
    h("div", { class: "row end" },
      h("button", { type: "button", class: "button small", click: () => decide("reject") }, "Reject"),
      h("button", { type: "button", class: "button small primary", click: () => decide("accept") }, "Accept")));
}
