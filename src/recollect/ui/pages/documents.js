// Documents: dropped here, read in the background, found by what they say.

import { call, Refused, upload } from "../api.js";
import { plural, size } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { confirm, dialog } from "../parts/dialogs.js";
import { empty, waiting } from "../parts/empty.js";
import { LongList } from "../parts/long-list.js";
import { tool } from "../parts/memory-row.js";
import { complaint, missing } from "../parts/problem.js";
import { moment } from "../parts/time.js";
import { toast } from "../parts/toasts.js";
import { rename } from "../router.js";
import { hear, here, tell } from "../state.js";

/** @typedef {import("../types").Document_} Document_ */

const STATES = { waiting: "Waiting to be read", reading: "Being read", ready: "Searchable", stored: "Stored, not searched", failed: "Could not be read" };
const AGAIN_MS = 1500;
const MOST_AT_ONCE = 2;
// As the server has it: a file that is too large is not even sent.
const MOST_BYTES = 20 * 1024 * 1024;
const MOST = "20 MB";

/** @type {import("../router.js").Show} */
export async function page(main, place, signal) {
  const under = h("div", { class: "uploads" });
  const list = new LongList({
    label: "Documents",
    scroller: main,
    signal,
    row,
    load: (cursor, stop) => call(here("/documents"), { query: { cursor, limit: 50 }, signal: stop }),
    none: () => empty("documents", "No documents yet", "Text, Markdown, HTML, PDF, Word and code are read, cut into passages and found by meaning, beside memories. Other files are stored as they are."),
    loaded: follow,
  });
  const picker = h("input", { type: "file", multiple: true, hidden: true, change: () => (take([...(picker.files ?? [])]), (picker.value = "")) });
  const drop = h("div", { class: "drop" }, icon("upload"),
    h("p", {}, "Drop files here, or"), h("button", { type: "button", class: "button", click: () => picker.click() }, "Choose files"), picker,
    h("p", { class: "small" }, `Text, Markdown, HTML, PDF, Word and code are read; up to ${MOST} each.`));
  main.replaceChildren(h("div", { class: "page" },
    h("header", { class: "page-head" }, h("h1", {}, "Documents"), h("a", { class: "button", href: "#/search?types=document" }, icon("search"), "Search documents")),
    drop, under, list.node));

  let depth = 0;
  const over = (/** @type {number} */ step) => (/** @type {DragEvent} */ event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    depth += step;
    drop.classList.toggle("is-over", depth > 0);
  };
  document.addEventListener("dragenter", over(1), { signal });
  document.addEventListener("dragleave", over(-1), { signal });
  document.addEventListener("dragover", (event) => event.preventDefault(), { signal });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    drop.classList.remove("is-over");
    take(dropped(event));
  }, { signal });
  hear("documents", () => list.reset(), signal);
  hear("back", () => list.reset(), signal);

  /** @type {(() => Promise<void>)[]} */
  const queue = [];
  let running = 0;

  /** @param {File[]} files */
  function take(files) {
    for (const file of files) queue.push(sending(file));
    next();
  }
  function next() {
    while (running < MOST_AT_ONCE && queue.length) {
      running++;
      queue.shift()?.().finally(() => (running--, next()));
    }
  }
  /** @param {File} file */
  function sending(file) {
    const stop = new AbortController();
    const bar = h("progress", { max: "1", value: "0", "aria-label": `Sending ${file.name}` });
    const line = h("div", { class: "upload memory" });
    const begin = () => line.replaceChildren(
      h("div", { class: "row" }, h("span", { class: "grow" }, file.name), h("span", { class: "soft small" }, size(file.size)), tool("close", "Stop", () => (stop.abort(), line.remove()))), bar);
    begin();
    under.append(line);
    const run = async () => {
      try {
        if (file.size > MOST_BYTES) throw new Refused(413, "too_large", `It has ${size(file.size)}. At most ${MOST} are taken; divide it, or leave out pictures.`);
        await upload(here("/documents"), file, (share) => (bar.value = share), AbortSignal.any([stop.signal, signal]));
        line.remove();
        tell("documents");
      } catch (error) {
        if (stop.signal.aborted || signal.aborted) return;
        const isHopeless = error instanceof Refused && error.status === 413;
        const again = !isHopeless && h("button", { type: "button", class: "button small", click: () => (begin(), queue.push(run), next()) }, "Try again");
        line.replaceChildren(h("div", { class: "row" }, h("span", { class: "grow" }, file.name), again, tool("close", "Dismiss", () => line.remove())), complaint(/** @type {Error} */ (error)));
      }
    };
    return run;
  }

  let timer = 0;
  /** As long as something is being read, look again. */
  function follow() {
    clearTimeout(timer);
    if (list.find((each) => each.status === "waiting" || each.status === "reading")) timer = setTimeout(look, AGAIN_MS);
  }
  async function look() {
    if (signal.aborted) return;
    const found = await call(here("/documents"), { query: { limit: 50 }, signal }).catch(() => null);
    for (const each of found?.items ?? []) if (list.find((old) => old.id === each.id)?.status !== each.status) list.change(each);
    follow();
  }

  const from = location.hash;
  if (place.id) open(place.id, () => rename("#/documents", from));
  await list.reset();
}

/**
 * The files of a drop. A folder among them has no bytes of its own to send.
 * @param {DragEvent} event
 */
function dropped(event) {
  const isFolder = [...(event.dataTransfer?.items ?? [])].map((item) => item.webkitGetAsEntry?.()?.isDirectory ?? false);
  if (isFolder.some(Boolean)) toast("Folders are not taken. Open them and drop the files inside.");
  return [...(event.dataTransfer?.files ?? [])].filter((_, index) => !isFolder[index]);
}

/** @param {Document_} file */
function row(file) {
  const remove = () => confirm("Delete this document?", `“${file.name}” and its ${plural(file.chunks ?? 0, "passage")} go for good.`, "Delete", async () => {
    await call(here(`/documents/${encodeURIComponent(file.id)}`), { method: "DELETE" });
    tell("documents");
  });
  const mood = file.status === "ready" ? "is-good" : file.status === "failed" ? "is-bad" : "";
  const keydown = (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && event.target === event.currentTarget && (event.preventDefault(), open(file.id));
  return h("article", { class: "memory line", keydown },
    h("button", { type: "button", class: "link line-name", tabindex: "-1", click: () => open(file.id) }, file.name),
    h("p", { class: "meta" },
      h("span", { class: `state ${mood}` }, STATES[file.status] ?? file.status),
      h("span", {}, file.status === "ready" && plural(file.chunks, "passage")),
      h("span", {}, size(file.size)), moment(file.created_at)),
    file.error && h("p", { class: "error" }, file.error),
    h("div", { class: "actions" },
      h("a", { class: "icon-button", href: here(`/documents/${encodeURIComponent(file.id)}/content`), download: file.name, "aria-label": "Download", title: "Download" }, icon("download")),
      tool("trash", "Delete", remove)));
}

/**
 * @param {string} id
 * @param {() => void} [closed]
 */
function open(id, closed) {
  const body = h("div", { class: "detail" }, waiting());
  dialog("Document", () => [body], { class: "wide", closed });
  const show = async () => {
    try {
      const file = await call(here(`/documents/${encodeURIComponent(id)}`));
      const answer = file.status === "ready" ? await call(here(`/documents/${encodeURIComponent(id)}/text`)).catch(() => null) : null;
      body.replaceChildren(h("div", {}, h("h3", {}, file.name), h("p", { class: "meta" }, h("span", {}, file.type), h("span", {}, size(file.size)), moment(file.created_at))),
        answer ? h("div", { class: "preview", tabindex: "0", "aria-label": "Text of the document" }, answer.text) : h("p", { class: "soft" }, file.error ?? STATES[/** @type {Document_} */ (file).status]));
    } catch (error) {
      body.replaceChildren(missing(/** @type {Error} */ (error), "documents", "document", show));
    }
  };
  show();
}
