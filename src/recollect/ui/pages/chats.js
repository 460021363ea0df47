// The list of all chats of the workspace.

import { call } from "../api.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { confirm } from "../parts/dialogs.js";
import { empty } from "../parts/empty.js";
import { LongList } from "../parts/long-list.js";
import { iconButton } from "../parts/memory-row.js";
import { timeElement } from "../parts/time.js";
import { go } from "../router.js";
import { emit, listen, state } from "../state.js";

/** @typedef {import("../types").Chat} Chat */

const PAUSE_MS = 120;

/** @type {import("../router.js").Show} */
export function page(main, route, signal) {
  const search = h("input", { type: "search", class: "search", placeholder: "Search chats", "aria-label": "Search chats", "data-search": "", autocomplete: "off" });
  const list = new LongList({
    label: "Chats",
    scroller: main,
    signal,
    row,
    load: (cursor, stop) => call("/chat/api/chats", { query: { workspace: state.workspace, q: search.value.trim(), cursor, limit: 50 }, signal: stop }),
    none: () => (search.value.trim()
      ? empty("search", "No results", "No chat matches this search.")
      : empty("chats", "No chats yet", "All chats in this workspace share one memory. Start the first one.", h("a", { class: "button primary", href: "#/" }, "New chat"))),
  });
  let timer = 0;
  search.addEventListener("input", () => (clearTimeout(timer), (timer = setTimeout(() => list.reset(), PAUSE_MS))));
  main.replaceChildren(h("div", { class: "page" },
    h("header", { class: "page-head" }, h("h1", {}, "Chats"), h("a", { class: "button primary", href: "#/" }, icon("plus"), "New chat")),
    h("div", { class: "search-box" }, icon("search"), search),
    list.node));
  listen("chats", () => list.reset(), signal);
  listen("back", () => list.reset(), signal);
  return list.reset();
}

/** @param {Chat} chat */
function row(chat) {
  const remove = () => confirm("Delete this chat?", `“${chat.title || "Untitled"}” and its messages will be deleted. Memories saved from it stay.`, "Delete", async () => {
    await call(`/chat/api/chats/${encodeURIComponent(chat.id)}`, { method: "DELETE" });
    emit("chats");
  });
  const open = (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && event.target === event.currentTarget && go(`#/chat/${chat.id}`);
  return h("article", { class: "memory line", keydown: open },
    h("a", { class: "line-name", href: `#/chat/${chat.id}`, tabindex: "-1" }, chat.title || "Untitled"),
    h("p", { class: "meta" }, timeElement(chat.updated_at)),
    h("div", { class: "actions" }, iconButton("trash", "Delete", remove)));
}
