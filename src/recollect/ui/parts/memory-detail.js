// The details of one memory: its source, what it replaced, its links and its history.

import { call } from "../api.js";
import { ago, score } from "../format.js";
import { h } from "../h.js";
import { forget, pin, updateContent } from "../memories.js";
import { listen, workspacePath } from "../state.js";
import { dialog } from "./dialogs.js";
import { waiting } from "./empty.js";
import { editInPlace } from "./memory-row.js";
import { missing } from "./problem.js";
import { timeElement } from "./time.js";
import { toast } from "./toasts.js";

/** @typedef {import("../types").MemoryDetail} Detail */

const EVENTS = /** @type {Record<string, string>} */ ({
  "memory.created": "Saved", "memory.updated": "Changed", "memory.deleted": "Forgotten", "memory.forgotten": "Forgotten", "memory.restored": "Restored",
  "memory.linked": "Linked to another memory", "memory.unlinked": "Link removed", "memory.reopened": "Marked as true again",
});

// Relations seen from the other end; relations not listed here read the same from both ends.
const REVERSED = /** @type {Record<string, string>} */ ({ part_of: "has part", updates: "updated by", caused_by: "causes", result_of: "results in" });

/**
 * @param {string} id
 * @param {() => void} [closed]
 */
export function openMemory(id, closed) {
  const controller = new AbortController();
  const body = h("div", { class: "detail" }, waiting());
  const box = dialog("Memory", () => [body], { class: "wide", closed: () => (controller.abort(), closed?.()) });
  const show = async () => {
    try {
      const memory = await call(workspacePath(`/memories/${id}`), { signal: controller.signal });
      body.replaceChildren(...detail(memory, () => box.close()));
    } catch (error) {
      if (!controller.signal.aborted) body.replaceChildren(missing(/** @type {Error} */ (error), "memories", "memory", show));
    }
  };
  listen("memories", (event) => event.changed?.id === id && show(), controller.signal);
  show();
}

/**
 * @param {Detail} memory
 * @param {() => void} close
 */
function detail(memory, close) {
  const text = h("p", { class: "detail-text" }, memory.content);
  const edit = h("button", { type: "button", class: "button", click: () => editInPlace(memory.id, memory.content, text, () => edit.focus()) }, "Edit");
  return [
    text,
    h("div", { class: "row" }, edit,
      h("button", { type: "button", class: "button", click: () => pin(memory.id, !memory.pinned).catch(showError) }, memory.pinned ? "Unpin" : "Pin"),
      h("button", { type: "button", class: "button quiet-danger", click: () => forget(memory.id, memory.content).then(close, showError) }, "Forget")),
    facts(memory),
    section("Source messages", (memory.messages ?? []).map((message) =>
      h("blockquote", { class: "quoted" }, h("p", {}, message.content), h("a", { href: `#/chat/${message.chat_id}?message=${message.id}`, click: close }, "Open the chat")))),
    section("Replaces", (memory.replaces ?? []).map(other)),
    section("Replaced by", (memory.replaced_by ?? []).map(other)),
    section("Linked to", linkRows(memory.links ?? [])),
    section("History", (memory.history ?? []).map((event, index, all) => historyEntry(memory, event, all[index + 1]))),
  ].filter((part) => part !== null);
}

/**
 * One entry of the history, newest first, with the text where it changed.
 * @param {Detail} memory
 * @param {NonNullable<Detail["history"]>[number]} event
 * @param {NonNullable<Detail["history"]>[number] | undefined} before
 */
function historyEntry(memory, event, before) {
  const text = event.event === "memory.created" || (before && before.content !== event.content) ? event.content : null;
  const what = event.event === "memory.updated" && !text ? "Details changed" : (EVENTS[event.event] ?? event.event.replaceAll(/[._]/g, " "));
  return h("div", { class: "event" },
    h("p", { class: "meta" }, h("span", { class: "event-name" }, what), h("span", {}, `by ${event.actor}`), timeElement(event.at)),
    text && h("blockquote", { class: "quoted" }, h("p", {}, text),
      text !== memory.content && h("button", { type: "button", class: "link", click: () => updateContent(memory.id, text).catch(showError) }, "Restore this text")));
}

/** @param {import("../types").Link[]} links */
function linkRows(links) {
  const row = (/** @type {import("../types").Link} */ link) =>
    h("div", { class: "link-row" }, h("span", { class: "chip" }, relation(link)), other(link.memory), h("span", { class: "score", title: "Strength of the link" }, score(link.weight)));
  return links.length ? [h("div", { class: "links" }, links.map(row))] : [];
}

/** The relation, read from this memory to the other. @param {import("../types").Link} link */
function relation(link) {
  const name = link.relation || "similar";
  return (link.direction === "in" ? (REVERSED[name] ?? name) : name).replaceAll("_", " ");
}

/** @param {Detail} memory */
function facts(memory) {
  const pairs = /** @type {[string, string | Node | null | undefined | false][]} */ ([
    ["Category", memory.category],
    ["Source", memory.source_type.replaceAll("_", " ")],
    ["Saved", timeElement(memory.created_at)],
    ["Changed", memory.updated_at && memory.updated_at !== memory.created_at && timeElement(memory.updated_at)],
    ["Quote", memory.quote && h("q", {}, memory.quote)],
    ["Reason", memory.reason],
    ["Note", memory.source_note],
    ["Importance", typeof memory.importance === "number" && score(memory.importance)],
    ["True from", memory.valid_from && memory.valid_from !== memory.created_at && ago(memory.valid_from)],
    ["True until", memory.valid_until && ago(memory.valid_until)],
    ["Tags", memory.tags?.length ? memory.tags.join(", ") : null],
    ["ID", h("code", {}, memory.id)],
  ]);
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/**
 * @param {string} title
 * @param {Node[]} parts
 */
function section(title, parts) {
  return parts.length ? h("section", {}, h("h3", {}, title), parts) : null;
}

/** @param {import("../types").Memory} memory */
function other(memory) {
  return h("button", { type: "button", class: "link", click: () => openMemory(memory.id) }, memory.content);
}

/** @param {Error} error */
function showError(error) {
  toast(error.message);
}

