// All there is to know about one memory: where it came from, what it replaced, what it is tied to.

import { call } from "../api.js";
import { ago, score } from "../format.js";
import { h } from "../h.js";
import { correct, forget, pin } from "../memories.js";
import { hear, here } from "../state.js";
import { dialog } from "./dialogs.js";
import { waiting } from "./empty.js";
import { editInPlace } from "./memory-row.js";
import { missing } from "./problem.js";
import { moment } from "./time.js";
import { toast } from "./toasts.js";

/** @typedef {import("../types").MemoryDetail} Detail */

const EVENTS = /** @type {Record<string, string>} */ ({
  "memory.created": "Saved", "memory.updated": "Changed", "memory.deleted": "Forgotten", "memory.forgotten": "Forgotten", "memory.restored": "Restored",
  "memory.linked": "Tied to another", "memory.unlinked": "Untied", "memory.reopened": "Held true again",
});

// What the other memory says of this one, said the other way round; the rest reads the same from both ends.
const REVERSED = /** @type {Record<string, string>} */ ({ part_of: "has part", updates: "updated by", caused_by: "causes", result_of: "results in" });

/**
 * @param {string} id
 * @param {() => void} [closed]
 */
export function openMemory(id, closed) {
  const leaving = new AbortController();
  const body = h("div", { class: "detail" }, waiting());
  const box = dialog("Memory", () => [body], { class: "wide", closed: () => (leaving.abort(), closed?.()) });
  const show = async () => {
    try {
      const memory = await call(here(`/memories/${id}`), { signal: leaving.signal });
      body.replaceChildren(...detail(memory, () => box.close()));
    } catch (error) {
      if (!leaving.signal.aborted) body.replaceChildren(missing(/** @type {Error} */ (error), "memories", "memory", show));
    }
  };
  hear("memories", (news) => news.changed?.id === id && show(), leaving.signal);
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
      h("button", { type: "button", class: "button", click: () => pin(memory.id, !memory.pinned).catch(say) }, memory.pinned ? "Unpin" : "Pin"),
      h("button", { type: "button", class: "button quiet-danger", click: () => forget(memory.id, memory.content).then(close, say) }, "Forget")),
    facts(memory),
    section("Said in", (memory.messages ?? []).map((message) =>
      h("blockquote", { class: "said" }, h("p", {}, message.content), h("a", { href: `#/chat/${message.chat_id}?message=${message.id}`, click: close }, "Open the chat")))),
    section("Replaces", (memory.replaces ?? []).map(other)),
    section("Replaced by", (memory.replaced_by ?? []).map(other)),
    section("Tied to", ties(memory.links ?? [])),
    section("History", (memory.history ?? []).map((event, index, all) => happened(memory, event, all[index + 1]))),
  ].filter((part) => part !== null);
}

/**
 * One line of the history, the newest first; with the words wherever they changed.
 * @param {Detail} memory
 * @param {NonNullable<Detail["history"]>[number]} event
 * @param {NonNullable<Detail["history"]>[number] | undefined} before
 */
function happened(memory, event, before) {
  const said = event.event === "memory.created" || (before && before.content !== event.content) ? event.content : null;
  const what = event.event === "memory.updated" && !said ? "Details changed" : (EVENTS[event.event] ?? event.event.replaceAll(/[._]/g, " "));
  return h("div", { class: "event" },
    h("p", { class: "meta" }, h("span", { class: "event-name" }, what), h("span", {}, `by ${event.actor}`), moment(event.at)),
    said && h("blockquote", { class: "said" }, h("p", {}, said),
      said !== memory.content && h("button", { type: "button", class: "link", click: () => correct(memory.id, said).catch(say) }, "Put these words back")));
}

/** @param {import("../types").Link[]} links */
function ties(links) {
  const row = (/** @type {import("../types").Link} */ link) =>
    h("div", { class: "link-row" }, h("span", { class: "chip" }, relation(link)), other(link.memory), h("span", { class: "score", title: "How strong the tie is" }, score(link.weight)));
  return links.length ? [h("div", { class: "links" }, links.map(row))] : [];
}

/** Read from this memory to the other. @param {import("../types").Link} link */
function relation(link) {
  const name = link.relation || "similar";
  return (link.direction === "in" ? (REVERSED[name] ?? name) : name).replaceAll("_", " ");
}

/** @param {Detail} memory */
function facts(memory) {
  const pairs = /** @type {[string, string | Node | null | undefined | false][]} */ ([
    ["Category", memory.category],
    ["Source", memory.source_type.replaceAll("_", " ")],
    ["Saved", moment(memory.created_at)],
    ["Changed", memory.updated_at && memory.updated_at !== memory.created_at && moment(memory.updated_at)],
    ["Quote", memory.quote && h("q", {}, memory.quote)],
    ["Reason", memory.reason],
    ["Note", memory.source_note],
    ["Importance", typeof memory.importance === "number" && score(memory.importance)],
    ["True from", memory.valid_from && memory.valid_from !== memory.created_at && ago(memory.valid_from)],
    ["True until", memory.valid_until && ago(memory.valid_until)],
    ["Tags", memory.tags?.length ? memory.tags.join(", ") : null],
    ["Id", h("code", {}, memory.id)],
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
function say(error) {
  toast(error.message);
}

