// The memories page: a list, a graph of links, and candidates that wait for review.

import { call } from "../api.js";
import { plural } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { recount, saveMemory } from "../memories.js";
import { ask } from "../parts/dialogs.js";
import { empty } from "../parts/empty.js";
import { showGraph } from "../parts/graph.js";
import { openMemory } from "../parts/memory-detail.js";
import { memoryList } from "../parts/memory-list.js";
import { review } from "../parts/review.js";
import { oneOf, replaceHash } from "../router.js";
import { listen, state, workspacePath } from "../state.js";

/** @type {import("../router.js").Show} */
export async function page(main, route, signal) {
  const view = oneOf(route, "view", ["list", "graph", "review"]);
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
    const found = await call(workspacePath("/pending"), { query: { limit: 100 }, signal }).catch(() => null);
    if (found) waiting.textContent = found.items.length ? `${found.items.length}${found.has_more ? "+" : ""}` : "";
  };
  listen("count", draw, signal);
  listen("memories", () => (recount().catch(() => {}), countWaiting()), signal);
  draw();
  // Load the memories first and count them afterwards.
  const countAll = () => (recount().catch(() => {}), countWaiting());

  const from = location.hash;
  if (route.name === "memory") openMemory(route.id, () => replaceHash("#/memories", from));
  if (view === "graph") return showGraph(frame, signal).finally(countAll);
  if (view === "review") return review(frame, signal).finally(countAll);
  const { bar, list, load } = memoryList({ scroller: main, signal, given: route.query, changed, none });
  list.node.classList.add("as-table");
  frame.append(bar, h("div", { class: "table-head", "aria-hidden": "true" }, ["Memory", "Category", "Source", "Saved"].map((name) => h("span", {}, name))), list.node);
  await load().finally(countAll);

  /** @param {Record<string, string>} query */
  function changed(query) {
    const text = new URLSearchParams(query).toString();
    replaceHash(`#/memories${text ? "?" + text : ""}`);
  }
}

function none() {
  return empty("memories", "No memories yet",
    "A memory is one fact, preference or decision. Ask a chat to remember something, or add the first memory yourself.",
    h("button", { type: "button", class: "button primary", click: add }, "Add a memory"), h("a", { class: "button", href: "#/" }, "Start a chat"));
}

function add() {
  const text = h("textarea", { name: "content", rows: "4", required: true, autofocus: true, placeholder: "The Lisbon office opens on 12 September" });
  ask("Add a memory", [
    h("label", { class: "field" }, "What should be remembered?", text),
    h("label", { class: "field" }, "Category (optional)", h("input", { name: "category", list: "categories", autocomplete: "off" })),
    h("datalist", { id: "categories" }, ["preference", "fact", "instruction", "decision"].map((value) => h("option", { value }))),
  ], "Remember", async (data) => {
    const content = String(data.get("content")).trim();
    if (!content) throw new Error("A memory cannot be empty. Write at least one word.");
    await saveMemory(content, String(data.get("category")).trim());
  });
}
