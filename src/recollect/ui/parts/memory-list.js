// The list of the workspace's memories, with search as you type and filters.

import { call } from "../api.js";
import { truncate } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { listen, state, workspacePath } from "../state.js";
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
    load: (cursor, stop) => call(workspacePath("/memories"), { query: { ...query(), cursor, limit: PAGE }, signal: stop }),
    none: () => (Object.keys(query()).length ? empty("search", "No results", "No memory matches this search. Use other words or fewer filters.", clear()) : (none ?? noMemories)()),
  });

  let timer = 0;
  const reload = () => {
    changed?.(query());
    list.reset();
  };
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(reload, PAUSE_MS);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") (event.preventDefault(), /** @type {HTMLElement | null} */ (list.rows.querySelector("[role=listitem]"))?.focus());
    if (event.key === "Escape" && search.value) (event.stopPropagation(), event.preventDefault(), (search.value = ""), reload());
  });
  for (const field of Object.values(filters)) field.addEventListener("change", reload);

  function clear() {
    const reset = () => {
      search.value = "";
      for (const field of Object.values(filters)) field.value = "";
      reload();
      search.focus();
    };
    return h("button", { type: "button", class: "button", click: reset }, "Clear search");
  }

  listen("memories", (event) => {
    if (event.isOtherTab && event.workspace !== state.workspace) return;
    if (event.removed) list.remove(event.removed);
    else if (event.changed) list.change(event.changed);
    else if (event.added && !event.isRestored && !Object.keys(query()).length) list.add(event.added);
    else list.reset();
    if (!event.changed) refreshFacets();
  }, signal);
  listen("back", reload, signal);

  const refreshFacets = async () => {
    const facets = await call(workspacePath("/facets"), { signal }).catch(() => null);
    if (facets) fillFilters(filters, facets, given);
  };
  /** Load the first page first and the filter choices afterwards. */
  const load = async () => {
    const filtered = ["category", "source_type", "tag", "chat"].some((name) => given?.get(name));
    if (filtered) await refreshFacets();
    await list.reset();
    if (!filtered) refreshFacets();
  };
  const bar = h("div", { class: "filters" },
    h("div", { class: "search-box" }, icon("search"), search),
    h("div", { class: "filter-row" }, Object.values(filters)));
  return { bar, list, search, load };
}

/** @param {string} label */
function choice(label) {
  return h("select", { "aria-label": label, class: "filter", hidden: true }, h("option", { value: "" }, label));
}

/**
 * Fill the filters with the existing values; a filter without values stays hidden.
 * @param {Record<string, HTMLSelectElement>} filters
 * @param {Facets} facets
 * @param {URLSearchParams} [given]
 */
function fillFilters(filters, facets, given) {
  const named = (/** @type {import("../types").Facet[]} */ some) => some.map(({ name, count }) => /** @type {[string, string]} */ ([name, `${name} (${count})`]));
  const offered = /** @type {Record<string, [string, string][]>} */ ({
    category: named(facets.categories),
    source_type: named(facets.source_types),
    tag: named(facets.tags),
    chat: facets.chats.map(({ id, title, count }) => [id, `${truncate(title || "Untitled", 40)} (${count})`]),
  });
  for (const [name, field] of Object.entries(filters)) {
    const chosen = field.value || given?.get(name) || "";
    const [first] = field.options;
    field.replaceChildren(first, ...offered[name].map(([value, label]) => h("option", { value, selected: value === chosen }, label)));
    field.hidden = offered[name].length < 1;
  }
}

function noMemories() {
  return empty("memories", "No memories yet", "Say “Remember that …” in a chat, or press Remember this under a message. The memory appears here at once.");
}
