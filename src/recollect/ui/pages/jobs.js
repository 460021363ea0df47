// The jobs page: background jobs and their errors.

import { call } from "../api.js";
import { count, plural } from "../format.js";
import { h } from "../h.js";
import { empty } from "../parts/empty.js";
import { LongList } from "../parts/long-list.js";
import { errorLine } from "../parts/problem.js";
import { timeElement } from "../parts/time.js";
import { oneOf, replaceHash } from "../router.js";
import { listen } from "../state.js";

const STATES = [["", "All"], ["pending", "Queued"], ["running", "Running"], ["failed", "Failed"]];
const POLL_MS = 3000;
// The name of each kind of job for users.
const KINDS = /** @type {Record<string, string>} */ ({
  fill_vectors: "Embedding memories and documents", drop_vectors: "Deleting vectors of an old embedder", index_vectors: "Building vector indexes",
  distil: "Learning from messages", segment_threads: "Summarising chats", read_documents: "Reading documents",
  count_words: "Counting words", decay: "Lowering the importance of old memories",
});

/** @type {import("../router.js").Show} */
export async function page(main, route, signal) {
  let state = oneOf(route, "state", STATES.map(([value]) => value));
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
    none: () => empty("jobs", state === "failed" ? "No failed jobs" : "No jobs", state === "failed"
      ? "A job that fails too often is listed here with its error until you retry it."
      : "Embedding, learning and reading documents run in the background. All jobs are done."),
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
    replaceHash(`#/jobs${value ? `?state=${value}` : ""}`);
    list.reset();
  }
  const timer = setInterval(() => {
    const isReading = list.rows.contains(document.activeElement) || main.scrollTop > 0;
    if (!document.hidden && !isReading) list.reset();
  }, POLL_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  listen("back", () => list.reset(), signal);
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
      wrong.replaceChildren(errorLine(/** @type {Error} */ (error)));
    }
  };
  const label = STATES.find(([value]) => value === job.state)?.[1] ?? job.state;
  return h("article", { class: "memory line" },
    h("p", { class: "line-name" }, KINDS[job.kind] ?? job.kind.replaceAll("_", " ")),
    h("p", { class: "meta" }, h("span", { class: `state ${job.state === "failed" ? "is-bad" : job.state === "running" ? "is-good" : ""}` }, label),
      h("span", {}, job.tries > 0 && plural(job.tries, "attempt")), timeElement(job.created_at)),
    job.error && h("p", { class: "error" }, job.error), wrong,
    job.state === "failed" && h("div", { class: "row end" }, h("button", { type: "button", class: "button small", click: retry }, "Retry")));
}
