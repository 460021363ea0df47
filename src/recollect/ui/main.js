// Starts the page: loads the user, shows the navigation, then the page named in the address.

import { call, Unreachable, watch } from "./api.js";
import { h } from "./h.js";
import { listenToKeys } from "./keys.js";
import { problem } from "./parts/problem.js";
import { closeRail, showRail } from "./parts/rail.js";
import { refreshTimes } from "./parts/time.js";
import { toast } from "./parts/toasts.js";
import { greet } from "./parts/tour.js";
import { PAGES, parseRoute } from "./router.js";
import { emit, listen, readStored, state } from "./state.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
let pageController = new AbortController();
let isFirst = true;

async function start() {
  // Load the page's code while the server looks up the user.
  PAGES[parseRoute(location.hash).name].load().catch(() => {});
  try {
    state.me = await call("/chat/api/me");
  } catch (error) {
    const starting = new AbortController();
    main.replaceChildren(problem(/** @type {Error} */ (error), start));
    if (error instanceof Unreachable) listen("back", () => (starting.abort(), start()), starting.signal);
    return;
  }
  const stored = readStored("workspace");
  const found = state.me.workspaces.find((each) => each.id === stored) ?? state.me.workspaces.find((each) => each.is_default);
  state.workspace = (found ?? state.me.workspaces[0])?.id ?? "";
  showRail();
  listenToKeys();
  refreshTimes();
  addEventListener("hashchange", show);
  listen("workspace", show);
  await show();
  greet();
  whenIdle(async () => {
    for (const { load } of Object.values(PAGES)) await load().catch(() => {});
  });
}

/** Load the other pages' code when the browser is idle. @param {() => void} work */
function whenIdle(work) {
  if ("requestIdleCallback" in window) requestIdleCallback(work);
  else setTimeout(work, 1000);
}

async function show() {
  pageController.abort();
  pageController = new AbortController();
  const { signal } = pageController;
  const route = parseRoute(location.hash);
  const wanted = PAGES[route.name];
  closeRail();
  const focusedBefore = document.activeElement;
  emit("route", { name: route.name, id: route.id });
  emit("title", { title: wanted.title });
  /** @type {HTMLElement} */ (document.getElementById("topbar-title")).textContent = wanted.title;
  try {
    const { page } = await loadPage(wanted);
    if (signal.aborted) return;
    await page(main, route, signal);
  } catch (error) {
    if (signal.aborted) return;
    main.replaceChildren(h("div", { class: "page" }, problem(/** @type {Error} */ (error), show)));
    if (error instanceof Unreachable) listen("back", show, signal);
  }
  // If the user moved the focus while the page loaded, leave it there.
  const hasMoved = ![focusedBefore, document.body].includes(document.activeElement);
  if (!isFirst && !hasMoved && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  isFirst = false;
}

/**
 * Load a page's module. Browsers cache a failed import, so the whole page is reloaded once the server is back.
 * @param {typeof PAGES[string]} wanted
 */
async function loadPage(wanted) {
  try {
    return await wanted.load();
  } catch {
    listen("back", () => location.reload());
    watch();
    throw new Unreachable();
  }
}

listen("title", ({ title }) => (document.title = `${title} · Recollect`));
listen("away", () => {
  const banner = /** @type {HTMLElement} */ (document.getElementById("banner"));
  banner.textContent = "The server cannot be reached. Retrying…";
  banner.hidden = false;
});
listen("back", () => {
  const banner = /** @type {HTMLElement} */ (document.getElementById("banner"));
  banner.textContent = "";
  banner.hidden = true;
  toast("Reconnected.");
});
document.getElementById("skip")?.addEventListener("click", () => main.focus());
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
});
start();
