// The workspace's memories: searched as one types, filtered, and as long as they are.

import { call } from "../api.js";
import { cut } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { hear, here, state } from "../state.js";
import { empty } from "./empty.js";
import { LongList } from "./long-list.js";
import { memoryRow } from "./memory-row.js";

const PAGE = 40;
const PAUSE_MS = 120;

/** @typedef {import("../types").Facets} Facets */

/**
 * @param {{ scroller: HTMLElement | null, signal: AbortSignal, given?: URLSearchParams, changed?: (query: Record<string, string>) => void, none?: () => Node }} options
 */
export function memoryList({ scroller, signal, given, changed, none }) {
  const search = h("input", { type: "search", class: "search", placeholder: "Search memories", "aria-label": "Search memories", "data-search": "", autocomplete: "off" });
  const filters = { category: choice("Category"), source_type: choice("Source"), tag: choice("Tag"), chat: choice("Chat") };
  search.value = given?.get("q") ?? "";

  const query = () => {
    const chosen = /** @type {Record<string, string>} */ ({ q: search.value.trim() });
    for (const [name, field] of Object.entries(filters)) chosen[name] = field.value;
    return Object.fromEntries(Object.entries(chosen).filter(([, value]) => value));
  };
  const list = new LongList({
    label: "Memories",
    scroller,
    signal,
    row: memoryRow,
    load: (cursor, stop) => call(here("/memories"), { query: { ...query(), cursor, limit: PAGE }, signal: stop }),
    none: () => (Object.keys(query()).length ? empty("search", "Nothing fits", "No memory fits this search. Use other words, or fewer filters.", clear()) : (none ?? nothing)()),
  });

  let timer = 0;
  const again = () => {
    changed?.(query());
    list.reset();
  };
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(again, PAUSE_MS);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") (event.preventDefault(), /** @type {HTMLElement | null} */ (list.rows.querySelector("[role=listitem]"))?.focus());
    if (event.key === "Escape" && search.value) (event.stopPropagation(), event.preventDefault(), (search.value = ""), again());
  });
  for (const field of Object.values(filters)) field.addEventListener("change", again);

  function clear() {
    const reset = () => {
      search.value = "";
      for (const field of Object.values(filters)) field.value = "";
      again();
      search.focus();
    };
    return h("button", { type: "button", class: "button", click: reset }, "Clear the search");
  }

  hear("memories", (news) => {
    if (news.isElsewhere && news.workspace !== state.workspace) return;
    if (news.removed) list.remove(news.removed);
    else if (news.changed) list.change(news.changed);
    else if (news.added && !news.isRestored && !Object.keys(query()).length) list.add(news.added);
    else list.reset();
    if (!news.changed) refreshFacets();
  }, signal);
  hear("back", again, signal);

  const refreshFacets = async () => {
    const facets = await call(here("/facets"), { signal }).catch(() => null);
    if (facets) offer(filters, facets, given);
  };
  /** The first page is what one waits for; by what to filter comes after it. */
  const begin = async () => {
    const filtered = ["category", "source_type", "tag", "chat"].some((name) => given?.get(name));
    if (filtered) await refreshFacets();
    await list.reset();
    if (!filtered) refreshFacets();
  };
  const bar = h("div", { class: "filters" },
    h("div", { class: "search-box" }, icon("search"), search),
    h("div", { class: "filter-row" }, Object.values(filters)));
  return { bar, list, search, begin };
}

/** @param {string} label */
function choice(label) {
  return h("select", { "aria-label": label, class: "filter", hidden: true }, h("option", { value: "" }, label));
}

/**
 * Offer what there is; a filter with nothing to choose from stays away.
 * @param {Record<string, HTMLSelectElement>} filters
 * @param {Facets} facets
 * @param {URLSearchParams} [given]
 */
function offer(filters, facets, given) {
  const named = (/** @type {import("../types").Facet[]} */ some) => some.map(({ name, count }) => /** @type {[string, string]} */ ([name, `${name} (${count})`]));
  const offered = /** @type {Record<string, [string, string][]>} */ ({
    category: named(facets.categories),
    source_type: named(facets.source_types),
    tag: named(facets.tags),
    chat: facets.chats.map(({ id, title, count }) => [id, `${cut(title || "Untitled", 40)} (${count})`]),
  });
  for (const [name, field] of Object.entries(filters)) {
    const chosen = field.value || given?.get(name) || "";
    const [first] = field.options;
    field.replaceChildren(first, ...offered[name].map(([value, label]) => h("option", { value, selected: value === chosen }, label)));
    field.hidden = offered[name].length < 1;
  }
}

function nothing() {
  return empty("memories", "Nothing is remembered yet", "Say “Remember that …” in a chat, or press Remember this under a message. It appears here at once.");
}
