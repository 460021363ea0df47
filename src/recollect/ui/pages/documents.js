// The documents page: upload files, see how they are read, open and delete them.

import { call, ServerError, upload } from "../api.js";
import { plural, size } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { confirm, dialog } from "../parts/dialogs.js";
import { empty, waiting } from "../parts/empty.js";
import { LongList } from "../parts/long-list.js";
import { iconButton } from "../parts/memory-row.js";
import { errorLine, missing } from "../parts/problem.js";
import { timeElement } from "../parts/time.js";
import { toast } from "../parts/toasts.js";
import { replaceHash } from "../router.js";
import { emit, listen, workspacePath } from "../state.js";

/** @typedef {import("../types").Document_} Document_ */

const STATES = { waiting: "Queued", reading: "Being read", ready: "Searchable", stored: "Stored, not searchable", failed: "Could not be read" };
const POLL_MS = 1500;
const MAX_CONCURRENT = 2;
// The server's limit: larger files are not sent.
const MAX_BYTES = 20 * 1024 * 1024;
const MAX_SIZE = "20 MB";

/** @type {import("../router.js").Show} */
export async function page(main, route, signal) {
  const uploads = h("div", { class: "uploads" });
  const list = new LongList({
    label: "Documents",
    scroller: main,
    signal,
    row,
    load: (cursor, stop) => call(workspacePath("/documents"), { query: { cursor, limit: 50 }, signal: stop }),
    none: () => empty("documents", "No documents yet", "Text, Markdown, HTML, PDF, Word and code files are read and searched together with memories. Other files are stored but not searched."),
    loaded: schedulePoll,
  });
  const picker = h("input", { type: "file", multiple: true, hidden: true, change: () => (addFiles([...(picker.files ?? [])]), (picker.value = "")) });
  const drop = h("div", { class: "drop" }, icon("upload"),
    h("p", {}, "Drop files here, or"), h("button", { type: "button", class: "button", click: () => picker.click() }, "Choose files"), picker,
    h("p", { class: "small" }, `Text, Markdown, HTML, PDF, Word and code files can be searched. At most ${MAX_SIZE} per file.`));
  main.replaceChildren(h("div", { class: "page" },
    h("header", { class: "page-head" }, h("h1", {}, "Documents"), h("a", { class: "button", href: "#/search?types=document" }, icon("search"), "Search documents")),
    drop, uploads, list.node));

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
    addFiles(dropped(event));
  }, { signal });
  listen("documents", () => list.reset(), signal);
  listen("back", () => list.reset(), signal);

  /** @type {(() => Promise<void>)[]} */
  const queue = [];
  let running = 0;

  /** @param {File[]} files */
  function addFiles(files) {
    for (const file of files) queue.push(makeUpload(file));
    next();
  }
  function next() {
    while (running < MAX_CONCURRENT && queue.length) {
      running++;
      queue.shift()?.().finally(() => (running--, next()));
    }
  }
  /** @param {File} file */
  function makeUpload(file) {
    const stop = new AbortController();
    const bar = h("progress", { max: "1", value: "0", "aria-label": `Uploading ${file.name}` });
    const line = h("div", { class: "upload memory" });
    const showProgress = () => line.replaceChildren(
      h("div", { class: "row" }, h("span", { class: "grow" }, file.name), h("span", { class: "soft small" }, size(file.size)), iconButton("close", "Stop", () => (stop.abort(), line.remove()))), bar);
    showProgress();
    uploads.append(line);
    const run = async () => {
      try {
        if (file.size > MAX_BYTES) throw new ServerError(413, "too_large", `The file has ${size(file.size)}. At most ${MAX_SIZE} are allowed. Split it, or remove images.`);
        await upload(workspacePath("/documents"), file, (share) => (bar.value = share), AbortSignal.any([stop.signal, signal]));
        line.remove();
        emit("documents");
      } catch (error) {
        if (stop.signal.aborted || signal.aborted) return;
        const isTooLarge = error instanceof ServerError && error.status === 413;
        const again = !isTooLarge && h("button", { type: "button", class: "button small", click: () => (showProgress(), queue.push(run), next()) }, "Try again");
        line.replaceChildren(h("div", { class: "row" }, h("span", { class: "grow" }, file.name), again, iconButton("close", "Dismiss", () => line.remove())), errorLine(/** @type {Error} */ (error)));
      }
    };
    return run;
  }

  let timer = 0;
  /** Poll while a document is queued or being read. */
  function schedulePoll() {
    clearTimeout(timer);
    if (list.find((each) => each.status === "waiting" || each.status === "reading")) timer = setTimeout(poll, POLL_MS);
  }
  async function poll() {
    if (signal.aborted) return;
    const found = await call(workspacePath("/documents"), { query: { limit: 50 }, signal }).catch(() => null);
    for (const each of found?.items ?? []) if (list.find((old) => old.id === each.id)?.status !== each.status) list.change(each);
    schedulePoll();
  }

  const from = location.hash;
  if (route.id) open(route.id, () => replaceHash("#/documents", from));
  await list.reset();
}

/**
 * The files of a drop, without folders, which cannot be uploaded.
 * @param {DragEvent} event
 */
function dropped(event) {
  const isFolder = [...(event.dataTransfer?.items ?? [])].map((item) => item.webkitGetAsEntry?.()?.isDirectory ?? false);
  if (isFolder.some(Boolean)) toast("Folders cannot be uploaded. Drop the files inside them instead.");
  return [...(event.dataTransfer?.files ?? [])].filter((_, index) => !isFolder[index]);
}

/** @param {Document_} file */
function row(file) {
  const remove = () => confirm("Delete this document?", `“${file.name}” and its ${plural(file.chunks ?? 0, "passage")} will be permanently deleted.`, "Delete", async () => {
    await call(workspacePath(`/documents/${encodeURIComponent(file.id)}`), { method: "DELETE" });
    emit("documents");
  });
  const stateClass = file.status === "ready" ? "is-good" : file.status === "failed" ? "is-bad" : "";
  const keydown = (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && event.target === event.currentTarget && (event.preventDefault(), open(file.id));
  return h("article", { class: "memory line", keydown },
    h("button", { type: "button", class: "link line-name", tabindex: "-1", click: () => open(file.id) }, file.name),
    h("p", { class: "meta" },
      h("span", { class: `state ${stateClass}` }, STATES[file.status] ?? file.status),
      h("span", {}, file.status === "ready" && plural(file.chunks, "passage")),
      h("span", {}, size(file.size)), timeElement(file.created_at)),
    file.error && h("p", { class: "error" }, file.error),
    h("div", { class: "actions" },
      h("a", { class: "icon-button", href: workspacePath(`/documents/${encodeURIComponent(file.id)}/content`), download: file.name, "aria-label": "Download", title: "Download" }, icon("download")),
      iconButton("trash", "Delete", remove)));
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
      const file = await call(workspacePath(`/documents/${encodeURIComponent(id)}`));
      const answer = file.status === "ready" ? await call(workspacePath(`/documents/${encodeURIComponent(id)}/text`)).catch(() => null) : null;
      body.replaceChildren(h("div", {}, h("h3", {}, file.name), h("p", { class: "meta" }, h("span", {}, file.type), h("span", {}, size(file.size)), timeElement(file.created_at))),
        answer ? h("div", { class: "preview", tabindex: "0", "aria-label": "Text of the document" }, answer.text) : h("p", { class: "soft" }, file.error ?? STATES[/** @type {Document_} */ (file).status]));
    } catch (error) {
      body.replaceChildren(missing(/** @type {Error} */ (error), "documents", "document", show));
    }
  };
  show();
}
