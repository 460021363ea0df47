// The timeline page: move the slider to see what was true on a day.

import { call } from "../api.js";
import { day } from "../format.js";
import { h } from "../h.js";
import { empty } from "../parts/empty.js";
import { LongList } from "../parts/long-list.js";
import { memoryRow } from "../parts/memory-row.js";
import { listen, workspacePath } from "../state.js";
import { replaceHash } from "../router.js";

const DAY = 86_400_000;
const PAUSE_MS = 150;

/** @type {import("../router.js").Show} */
export async function page(main, route, signal) {
  const today = new Date();
  const days = await countDays(today, signal);
  const given = route.query.get("as_of");
  const daysBack = given ? Math.round((today.getTime() - new Date(given).getTime()) / DAY) : 0;
  const slider = h("input", { type: "range", min: "0", max: String(days), value: String(Math.max(0, days - daysBack)), "aria-label": "As of day", input: changed });
  const shown = h("output", {});
  const now = h("button", { type: "button", class: "button small", click: () => ((slider.value = String(days)), changed()) }, "Now");
  let last = "";
  /** @type {LongList<import("../types").Memory>} */
  const list = new LongList({
    label: "Memories by the day they were learnt",
    scroller: main,
    signal,
    row: (item) => dated(item),
    load: (cursor, stop) => {
      if (!cursor) last = "";
      return call(workspacePath("/timeline"), { query: { as_of: asOf(), cursor, limit: 50 }, signal: stop });
    },
    none: () => empty("timeline", "No memories yet", asOf() ? "There were no memories on this day. Move the slider to the right." : "Memories appear here by the day they were learnt."),
  });
  list.node.classList.add("as-days");
  main.replaceChildren(h("div", { class: "page" },
    h("header", { class: "page-head" }, h("h1", {}, "Timeline")),
    h("p", { class: "page-note" }, "What was true on a day, newest first. Memories that were corrected later are shown as they were. Forgotten memories are not shown."),
    h("div", { class: "slider" }, shown, h("span", { class: "soft small" }, day(new Date(today.getTime() - days * DAY))), slider, now), list.node));

  function asOf() {
    const steps = days - Number(slider.value);
    if (!steps) return undefined;
    const then = new Date(today.getTime() - steps * DAY);
    then.setHours(23, 59, 59, 0);
    return then.toISOString();
  }
  function draw() {
    const at = asOf();
    shown.textContent = at ? `As of ${day(at)}` : "As of now";
    slider.setAttribute("aria-valuetext", shown.textContent);
    now.disabled = !at;
  }
  let timer = 0;
  function changed() {
    draw();
    clearTimeout(timer);
    timer = setTimeout(() => {
      const at = asOf();
      replaceHash(at ? `#/timeline?as_of=${at.slice(0, 10)}` : "#/timeline");
      list.reset();
    }, PAUSE_MS);
  }
  /** @param {import("../types").Memory} item */
  function dated(item) {
    const row = memoryRow(item, { isPast: asOf() !== undefined });
    row.querySelector("time")?.remove(); // the day is shown above
    const learnt = day(item.learned_at ?? item.created_at);
    if (learnt !== last) row.dataset.day = learnt;
    last = learnt;
    return row;
  }
  listen("memories", () => list.reset(), signal);
  listen("back", () => list.reset(), signal);
  draw();
  await list.reset();
}

/**
 * The number of days of the slider: back to the first memory, and at least one.
 * @param {Date} today
 * @param {AbortSignal} signal
 */
async function countDays(today, signal) {
  const { first_at: first } = await call(workspacePath("/timeline"), { query: { limit: 1 }, signal });
  const start = first ? new Date(first) : today;
  return Math.max(1, Math.round((new Date(today).setHours(0, 0, 0, 0) - start.setHours(0, 0, 0, 0)) / DAY));
}
