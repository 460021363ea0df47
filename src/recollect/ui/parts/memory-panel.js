// The sidebar of a chat with the workspace's memories.

import { h } from "../h.js";
import { count } from "../format.js";
import { recount } from "../memories.js";
import { listen, readStored, state, writeStored } from "../state.js";
import { icon } from "../icons.js";
import { memoryList } from "./memory-list.js";
import { iconButton } from "./memory-row.js";

const NARROW = matchMedia("(max-width: 900px)");

/**
 * The toggle for the toolbar, and the panel it opens.
 * @param {AbortSignal} signal
 */
export function memoryPanel(signal) {
  const badge = h("span", { class: "badge", id: "memories-count", title: "Memories in this workspace" });
  const toggle = h("button", { type: "button", class: "button toggle", id: "memories-toggle", "aria-expanded": "false", "aria-controls": "memories-panel", click: () => (panel.hidden ? open() : close()) },
    icon("memories"), h("span", { class: "toggle-label" }, "Memories"), badge);
  const panel = h("aside", { class: "panel", id: "memories-panel", "aria-label": "Memories", hidden: true });
  /** @type {AbortController | null} */
  let shown = null;

  const draw = () => (badge.textContent = state.count === null ? "" : count(state.count));
  const refresh = () => recount().catch(() => {});
  listen("count", draw, signal);
  listen("memories", (event) => (!event.isOtherTab || event.workspace === state.workspace) && refresh(), signal);
  listen("back", refresh, signal);
  document.addEventListener("visibilitychange", () => document.hidden || refresh(), { signal });
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    close();
    toggle.focus();
  });
  draw();
  refresh();
  if (readStored("panel") === "open" && !NARROW.matches) open(false);

  function open(isByUser = true) {
    shown = new AbortController();
    const scroller = h("div", { class: "panel-scroll" });
    const both = AbortSignal.any([shown.signal, signal]);
    const { bar, list, search, load } = memoryList({ scroller, signal: both });
    scroller.append(list.node);
    panel.replaceChildren(
      h("header", { class: "panel-head" }, h("h2", {}, "Memories"), iconButton("close", "Close memories", () => (close(), toggle.focus()))), bar, scroller);
    panel.hidden = false;
    toggle.setAttribute("aria-expanded", "true");
    writeStored("panel", "open");
    load().finally(refresh);
    if (isByUser && NARROW.matches) search.focus();
  }
  function close() {
    shown?.abort();
    panel.hidden = true;
    panel.replaceChildren();
    toggle.setAttribute("aria-expanded", "false");
    writeStored("panel", null);
  }
  return { toggle, panel };
}
