// The address says where you are: `#/memories?view=graph`. A page's code loads when it is asked for, or before that when there is time.

/** @typedef {{ name: string, id: string, query: URLSearchParams }} Place */
/** @typedef {(main: HTMLElement, place: Place, signal: AbortSignal) => Promise<void> | void} Show */

/** @type {Record<string, { title: string, load: () => Promise<{ page: Show }> }>} */
export const PAGES = {
  chat: { title: "Chat", load: () => import("./pages/chat.js") },
  chats: { title: "Chats", load: () => import("./pages/chats.js") },
  memories: { title: "Memories", load: () => import("./pages/memories.js") },
  memory: { title: "Memories", load: () => import("./pages/memories.js") },
  documents: { title: "Documents", load: () => import("./pages/documents.js") },
  timeline: { title: "Timeline", load: () => import("./pages/timeline.js") },
  search: { title: "Search", load: () => import("./pages/search.js") },
  jobs: { title: "Jobs", load: () => import("./pages/jobs.js") },
  usage: { title: "Usage", load: () => import("./pages/usage.js") },
  settings: { title: "Settings", load: () => import("./pages/settings.js") },
};

/**
 * @param {string} hash
 * @returns {Place}
 */
export function place(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [name, id] = path.split("/");
  return { name: name in PAGES ? name : "chat", id: decodeURIComponent(id ?? ""), query: new URLSearchParams(query) };
}

/** @param {string} hash */
export function go(hash) {
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

/**
 * Change the address without leaving the page.
 * @param {string} hash
 */
export function rename(hash) {
  history.replaceState(null, "", hash);
}
