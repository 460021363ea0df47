// Starts the page: who is here, the rail, then whatever the address names.

import { Away, call, watch } from "./api.js";
import { h } from "./h.js";
import { listenToKeys } from "./keys.js";
import { problem } from "./parts/problem.js";
import { closeRail, showRail } from "./parts/rail.js";
import { keepTime } from "./parts/time.js";
import { toast } from "./parts/toasts.js";
import { greet } from "./parts/tour.js";
import { PAGES, place } from "./router.js";
import { hear, noted, state, tell } from "./state.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
let leaving = new AbortController();
let isFirst = true;

async function start() {
  // The code of the page that is wanted comes while the server says who is here.
  PAGES[place(location.hash).name].load().catch(() => {});
  try {
    state.me = await call("/chat/api/me");
  } catch (error) {
    const starting = new AbortController();
    main.replaceChildren(problem(/** @type {Error} */ (error), start));
    if (error instanceof Away) hear("back", () => (starting.abort(), start()), starting.signal);
    return;
  }
  const kept = noted("workspace");
  const found = state.me.workspaces.find((each) => each.id === kept) ?? state.me.workspaces.find((each) => each.is_default);
  state.workspace = (found ?? state.me.workspaces[0])?.id ?? "";
  showRail();
  listenToKeys();
  keepTime();
  addEventListener("hashchange", show);
  hear("workspace", show);
  await show();
  greet();
  whenIdle(async () => {
    for (const { load } of Object.values(PAGES)) await load().catch(() => {});
  });
}

/** Once nothing else is to be done: the other pages' code, so that none is waited for. @param {() => void} work */
function whenIdle(work) {
  if ("requestIdleCallback" in window) requestIdleCallback(work);
  else setTimeout(work, 1000);
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const where = place(location.hash);
  const wanted = PAGES[where.name];
  closeRail();
  const begun = document.activeElement;
  tell("place", { name: where.name, id: where.id });
  tell("title", { title: wanted.title });
  /** @type {HTMLElement} */ (document.getElementById("topbar-title")).textContent = wanted.title;
  try {
    const { page } = await loaded(wanted);
    if (signal.aborted) return;
    await page(main, where, signal);
  } catch (error) {
    if (signal.aborted) return;
    main.replaceChildren(h("div", { class: "page" }, problem(/** @type {Error} */ (error), show)));
    if (error instanceof Away) hear("back", show, signal);
  }
  // Whoever has walked on by keys while it loaded keeps their place.
  const hasMoved = ![begun, document.body].includes(document.activeElement);
  if (!isFirst && !hasMoved && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  isFirst = false;
}

/**
 * A page's module. A browser keeps a failure to load one, so the whole page is loaded anew once the server is back.
 * @param {typeof PAGES[string]} wanted
 */
async function loaded(wanted) {
  try {
    return await wanted.load();
  } catch {
    hear("back", () => location.reload());
    watch();
    throw new Away();
  }
}

hear("title", ({ title }) => (document.title = `${title} · Recollect`));
hear("away", () => {
  const banner = /** @type {HTMLElement} */ (document.getElementById("banner"));
  banner.textContent = "The server cannot be reached. Trying again…";
  banner.hidden = false;
});
hear("back", () => {
  const banner = /** @type {HTMLElement} */ (document.getElementById("banner"));
  banner.textContent = "";
  banner.hidden = true;
  toast("Connected again.");
});
document.getElementById("skip")?.addEventListener("click", () => main.focus());
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
});
start();
