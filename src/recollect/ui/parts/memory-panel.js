// The sidebar of a chat: all the workspace's memories, at hand.

import { h } from "../h.js";
import { count } from "../format.js";
import { recount } from "../memories.js";
import { hear, note, noted, state } from "../state.js";
import { icon } from "../icons.js";
import { memoryList } from "./memory-list.js";
import { tool } from "./memory-row.js";

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
  hear("count", draw, signal);
  hear("memories", (news) => (!news.isElsewhere || news.workspace === state.workspace) && refresh(), signal);
  hear("back", refresh, signal);
  document.addEventListener("visibilitychange", () => document.hidden || refresh(), { signal });
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    close();
    toggle.focus();
  });
  draw();
  refresh();
  if (noted("panel") === "open" && !NARROW.matches) open(false);

  function open(isAsked = true) {
    shown = new AbortController();
    const scroller = h("div", { class: "panel-scroll" });
    const both = AbortSignal.any([shown.signal, signal]);
    const { bar, list, search, begin } = memoryList({ scroller, signal: both });
    scroller.append(list.node);
    panel.replaceChildren(
      h("header", { class: "panel-head" }, h("h2", {}, "Memories"), tool("close", "Close memories", () => (close(), toggle.focus()))), bar, scroller);
    panel.hidden = false;
    toggle.setAttribute("aria-expanded", "true");
    note("panel", "open");
    begin().finally(refresh);
    if (isAsked && NARROW.matches) search.focus();
  }
  function close() {
    shown?.abort();
    panel.hidden = true;
    panel.replaceChildren();
    toggle.setAttribute("aria-expanded", "false");
    note("panel", null);
  }
  return { toggle, panel };
}
