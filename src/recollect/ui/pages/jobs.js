// What is being done in the background, and what could not be.

import { call } from "../api.js";
import { count, plural } from "../format.js";
import { h } from "../h.js";
import { empty } from "../parts/empty.js";
import { LongList } from "../parts/long-list.js";
import { complaint } from "../parts/problem.js";
import { moment } from "../parts/time.js";
import { among, rename } from "../router.js";
import { hear } from "../state.js";

const STATES = [["", "All"], ["pending", "Waiting"], ["running", "Running"], ["buried", "Buried"]];
const AGAIN_MS = 3000;
// What each kind of work is to whoever waits for it.
const KINDS = /** @type {Record<string, string>} */ ({
  tend_vectors: "Embedding memories and documents", drop_vectors: "Clearing out an old embedder's vectors", index_vectors: "Indexing what is embedded",
  distil: "Learning from what was said", segment_threads: "Summing up chats", read_documents: "Reading documents",
  count_words: "Counting words", wear: "Letting old memories fade",
});

/** @type {import("../router.js").Show} */
export async function page(main, place, signal) {
  let state = among(place, "state", STATES.map(([value]) => value));
  const cards = h("div", { class: "cards" });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "State" }, STATES.map(([value, label]) =>
    h("button", { type: "button", "aria-pressed": String(value === state), "data-state": value, click: () => choose(value) }, label)));
  /** @type {LongList<import("../types").Job>} */
  const list = new LongList({
    label: "Jobs",
    scroller: main,
    signal,
    row: (job) => row(job, () => list.reset()),
    load: async (cursor, stop) => {
      const found = await call("/chat/api/jobs", { query: { state, cursor, limit: 50 }, signal: stop });
      draw(found.counts ?? {});
      return found;
    },
    none: () => empty("jobs", state === "buried" ? "Nothing is buried" : "Nothing to do", state === "buried"
      ? "A job that fails again and again is put here, with its reason, until you say Retry."
      : "Embedding, learning and reading documents happen here, behind the chat. All of it is done."),
  });
  main.replaceChildren(h("div", { class: "page" }, h("header", { class: "page-head" }, h("h1", {}, "Jobs"), tabs), cards, list.node));

  /** @param {Record<string, number>} counts */
  function draw(counts) {
    cards.replaceChildren(...STATES.slice(1).map(([value, label]) => h("div", { class: "card" }, h("p", { class: "number" }, count(counts[value] ?? 0)), h("p", { class: "soft" }, label))));
  }
  /** @param {string} value */
  function choose(value) {
    state = value;
    for (const each of tabs.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.dataset.state === value));
    rename(`#/jobs${value ? `?state=${value}` : ""}`);
    list.reset();
  }
  const timer = setInterval(() => {
    const isReading = list.rows.contains(document.activeElement) || main.scrollTop > 0;
    if (!document.hidden && !isReading) list.reset();
  }, AGAIN_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  hear("back", () => list.reset(), signal);
  draw({});
  await list.reset();
}

/**
 * @param {import("../types").Job} job
 * @param {() => void} done
 */
function row(job, done) {
  const wrong = h("div", {});
  const retry = async () => {
    try {
      await call(`/chat/api/jobs/${encodeURIComponent(job.id)}/retry`, { method: "POST" });
      done();
    } catch (error) {
      wrong.replaceChildren(complaint(/** @type {Error} */ (error)));
    }
  };
  const label = STATES.find(([value]) => value === job.state)?.[1] ?? job.state;
  return h("article", { class: "memory line" },
    h("p", { class: "line-name" }, KINDS[job.kind] ?? job.kind.replaceAll("_", " ")),
    h("p", { class: "meta" }, h("span", { class: `state ${job.state === "buried" ? "is-bad" : job.state === "running" ? "is-good" : ""}` }, label),
      h("span", {}, job.tries > 0 && plural(job.tries, "try", "tries")), moment(job.created_at)),
    job.error && h("p", { class: "error" }, job.error), wrong,
    job.state === "buried" && h("div", { class: "row end" }, h("button", { type: "button", class: "button small", click: retry }, "Retry")));
}
