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
  return { name: name in PAGES ? name : "chat", id: decoded(id ?? ""), query: new URLSearchParams(query) };
}

/** What somebody typed may be no address at all. @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * What the address says, where that is one of a few things; else the first of them.
 * @param {Place} place
 * @param {string} name
 * @param {string[]} offered
 */
export function among({ query }, name, offered) {
  const given = query.get(name) ?? offered[0];
  return offered.includes(given) ? given : offered[0];
}

/** @param {string} hash */
export function go(hash) {
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

/**
 * Change the address without leaving the page. What closes late must not take somebody back who has gone on: it says from where.
 * @param {string} hash
 * @param {string} [from]
 */
export function rename(hash, from = location.hash) {
  if (location.hash === from) history.replaceState(null, "", hash);
}
