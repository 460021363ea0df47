// The search page: one search over everything stored in the workspace.

import { call } from "../api.js";
import { score, splitAtMatches, withoutTitle } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { empty } from "../parts/empty.js";
import { openMemory } from "../parts/memory-detail.js";
import { problem } from "../parts/problem.js";
import { timeElement } from "../parts/time.js";
import { oneOf, replaceHash } from "../router.js";
import { listen, workspacePath } from "../state.js";

const TYPES = [["", "All"], ["memory", "Memories"], ["document", "Documents"], ["artifact", "Artifacts"]];
const PAUSE_MS = 150;

/** @type {import("../router.js").Show} */
export async function page(main, route, signal) {
  let type = oneOf(route, "types", TYPES.map(([value]) => value));
  /** @type {AbortController | null} */
  let asking = null;
  const field = h("input", { type: "search", class: "search", placeholder: "Search memories, documents and artifacts", "aria-label": "Search everything", "data-search": "", autocomplete: "off", value: route.query.get("q") ?? "" });
  const results = h("div", { class: "rows", role: "list", "aria-label": "Results", "aria-live": "polite" });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "What to search" }, TYPES.map(([value, label]) =>
    h("button", { type: "button", "aria-pressed": String(value === type), "data-type": value, click: () => choose(value) }, label)));
  main.replaceChildren(h("div", { class: "page" }, h("header", { class: "page-head" }, h("h1", {}, "Search"), tabs),
    h("div", { class: "search-box" }, icon("search"), field), results));
  field.focus();
  let timer = 0;
  field.addEventListener("input", () => (clearTimeout(timer), (timer = setTimeout(run, PAUSE_MS))));
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") (event.preventDefault(), /** @type {HTMLElement | null} */ (results.querySelector("article"))?.focus());
  });
  results.addEventListener("keydown", (event) => {
    const row = /** @type {HTMLElement} */ (event.target);
    const next = event.key === "ArrowDown" ? row.nextElementSibling : event.key === "ArrowUp" ? (row.previousElementSibling ?? field) : null;
    if (next instanceof HTMLElement) (event.preventDefault(), next.focus());
  });
  listen("back", run, signal);

  /** @param {string} value */
  function choose(value) {
    type = value;
    for (const each of tabs.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.dataset.type === value));
    run();
  }
  async function run() {
    asking?.abort();
    asking = new AbortController();
    const q = field.value.trim();
    replaceHash(`#/search${q || type ? "?" + new URLSearchParams({ ...(q && { q }), ...(type && { types: type }) }) : ""}`);
    if (!q) return results.replaceChildren(empty("search", "Search in your own words", "“When do we open in Portugal?” finds “The Lisbon office opens on 12 September”. Memories, document passages and artifacts are in one list, best matches first."));
    try {
      const found = await call(workspacePath("/search"), { query: { q, types: type, limit: 30 }, signal: AbortSignal.any([asking.signal, signal]) });
      results.replaceChildren(...(found.results.length ? found.results.map((/** @type {import("../types").Found} */ each) => row(each, q)) : [empty("search", "No results", "Nothing stored here matches. Try other words.")]));
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") results.replaceChildren(problem(/** @type {Error} */ (error), run));
    }
  }
  await run();
}

/**
 * @param {import("../types").Found} found
 * @param {string} q
 */
function row(found, q) {
  const open = () => {
    if (found.kind === "memory" || found.kind === "decision" || found.kind === "milestone") openMemory(found.id);
    else location.hash = `#/documents/${found.id}`;
  };
  return h("article", { class: "memory is-link", role: "listitem", tabindex: "0", click: open, keydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && (event.preventDefault(), open()) },
    found.title && found.title !== found.snippet && h("p", { class: "line-name" }, found.title),
    h("p", { class: "memory-text" }, splitAtMatches(withoutTitle(found.snippet, found.title ?? ""), q).map((piece, index) => (index % 2 ? h("mark", {}, piece) : piece))),
    h("p", { class: "meta" }, h("span", { class: "chip" }, found.kind), found.created_at && timeElement(found.created_at), h("span", { class: "score" }, score(found.score))));
}
