// The workspace's memories: as a list, as a graph of what is tied to what, and those that wait for a word.

import { call } from "../api.js";
import { plural } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { keep, recount } from "../memories.js";
import { ask } from "../parts/dialogs.js";
import { empty } from "../parts/empty.js";
import { showGraph } from "../parts/graph.js";
import { openMemory } from "../parts/memory-detail.js";
import { memoryList } from "../parts/memory-list.js";
import { review } from "../parts/review.js";
import { among, rename } from "../router.js";
import { hear, here, state } from "../state.js";

/** @type {import("../router.js").Show} */
export async function page(main, place, signal) {
  const view = among(place, "view", ["list", "graph", "review"]);
  const total = h("span", { class: "soft number total" });
  const waiting = h("span", { class: "badge" });
  const tab = (/** @type {string} */ name, /** @type {string} */ label, /** @type {import("../icons.js").IconName} */ sign, /** @type {Node | null} */ extra = null) =>
    h("a", { href: name === "list" ? "#/memories" : `#/memories?view=${name}`, ...(name === view && { "aria-current": "page" }) }, icon(sign), label, extra);
  const frame = h("div", { class: view === "graph" ? "page full" : "page" },
    h("header", { class: "page-head" }, h("h1", {}, "Memories"), total,
      h("nav", { class: "tabs", "aria-label": "View" }, tab("list", "List", "table"), tab("graph", "Graph", "graph"), tab("review", "Review", "inbox", waiting)),
      h("button", { type: "button", class: "button primary", click: add }, icon("plus"), "Add")));
  main.replaceChildren(frame);

  const draw = () => (total.textContent = state.count === null ? "" : plural(state.count, "memory", "memories"));
  const countWaiting = async () => {
    const found = await call(here("/pending"), { query: { limit: 100 }, signal }).catch(() => null);
    if (found) waiting.textContent = found.items.length ? `${found.items.length}${found.has_more ? "+" : ""}` : "";
  };
  hear("count", draw, signal);
  hear("memories", () => (recount().catch(() => {}), countWaiting()), signal);
  draw();
  // The memories are what one waits for; how many there are comes after them.
  const countAll = () => (recount().catch(() => {}), countWaiting());

  const from = location.hash;
  if (place.name === "memory") openMemory(place.id, () => rename("#/memories", from));
  if (view === "graph") return showGraph(frame, signal).finally(countAll);
  if (view === "review") return review(frame, signal).finally(countAll);
  const { bar, list, begin } = memoryList({ scroller: main, signal, given: place.query, changed, none });
  list.node.classList.add("as-table");
  frame.append(bar, h("div", { class: "table-head", "aria-hidden": "true" }, ["Memory", "Category", "Source", "Saved"].map((name) => h("span", {}, name))), list.node);
  await begin().finally(countAll);

  /** @param {Record<string, string>} query */
  function changed(query) {
    const told = new URLSearchParams(query).toString();
    rename(`#/memories${told ? "?" + told : ""}`);
  }
}

function none() {
  return empty("memories", "Nothing is remembered yet",
    "A memory is one fact, preference or decision. Tell a chat to remember something, or add the first one yourself.",
    h("button", { type: "button", class: "button primary", click: add }, "Add a memory"), h("a", { class: "button", href: "#/" }, "Begin a chat"));
}

function add() {
  const text = h("textarea", { name: "content", rows: "4", required: true, autofocus: true, placeholder: "The Lisbon office opens on 12 September" });
  ask("Add a memory", [
    h("label", { class: "field" }, "What should be remembered?", text),
    h("label", { class: "field" }, "Category, if you like", h("input", { name: "category", list: "categories", autocomplete: "off" })),
    h("datalist", { id: "categories" }, ["preference", "fact", "instruction", "decision"].map((value) => h("option", { value }))),
  ], "Remember", async (data) => {
    const content = String(data.get("content")).trim();
    if (!content) throw new Error("A memory says something. Write at least a word.");
    await keep(content, String(data.get("category")).trim());
  });
}
