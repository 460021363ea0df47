// Candidates that wait for review before they become memories.

import { call } from "../api.js";
import { h } from "../h.js";
import { emit, listen, workspacePath } from "../state.js";
import { empty } from "./empty.js";
import { LongList } from "./long-list.js";
import { errorLine } from "./problem.js";
import { timeElement } from "./time.js";

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
    load: (cursor, stop) => call(workspacePath("/pending"), { query: { cursor, limit: 50 }, signal: stop }),
    none: () => empty("inbox", "Nothing to review", "Candidates that read like an instruction wait here until you accept or reject them. Set RECOLLECT_REVIEW to review all candidates."),
  });
  frame.append(h("p", { class: "page-note" }, "These were learnt, but they are not used until you accept them."), list.node);
  listen("back", () => list.reset(), signal);
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
      const added = await call(workspacePath(`/pending/${encodeURIComponent(candidate.id)}/${verb}`), { method: "POST" });
      list.remove(candidate.id);
      emit("memories", verb === "accept" ? { added } : {});
    } catch (error) {
      wrong.replaceChildren(errorLine(/** @type {Error} */ (error)));
    }
  };
  return h("article", { class: "memory" },
    h("p", { class: "memory-text" }, candidate.content),
    h("p", { class: "meta" },
      candidate.category && h("span", { class: "chip" }, candidate.category),
      candidate.reason && h("span", {}, candidate.reason),
      candidate.created_at && timeElement(candidate.created_at)),
    candidate.quote && h("blockquote", { class: "quoted" }, h("p", {}, candidate.quote)),
    wrong,
    h("div", { class: "row end" },
      h("button", { type: "button", class: "button small", click: () => decide("reject") }, "Reject"),
      h("button", { type: "button", class: "button small primary", click: () => decide("accept") }, "Accept")));
}
