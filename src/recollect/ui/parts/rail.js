// The navigation rail: workspace, pages, recent chats and the signed-in user.

import { call } from "../api.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { emit, listen, readStored, state, writeStored } from "../state.js";
import { showKeys } from "./tour.js";

const LINKS = /** @type {[string, string, import("../icons.js").IconName][]} */ ([
  ["chats", "Chats", "chats"],
  ["memories", "Memories", "memories"],
  ["documents", "Documents", "documents"],
  ["timeline", "Timeline", "timeline"],
  ["search", "Search", "search"],
  ["jobs", "Jobs", "jobs"],
  ["usage", "Usage", "usage"],
  ["settings", "Settings", "settings"],
]);
const RECENT = 8;

const rail = () => /** @type {HTMLElement} */ (document.getElementById("rail"));
const menu = () => /** @type {HTMLElement} */ (document.getElementById("menu"));
const scrim = () => /** @type {HTMLElement} */ (document.getElementById("scrim"));

export function showRail() {
  const links = h("ul", { class: "rail-links" }, LINKS.map(([name, label, sign]) => h("li", {}, h("a", { href: `#/${name}`, "data-page": name }, icon(sign), label))));
  const recent = h("ul", { class: "rail-recent", "aria-label": "Recent chats" });
  rail().append(
    workspaces(),
    h("a", { class: "button wide new-chat", href: "#/", "data-page": "chat" }, icon("plus"), "New chat"),
    links,
    recent,
    foot());
  menu().addEventListener("click", () => (rail().classList.contains("is-open") ? closeRail() : openRail()));
  scrim().addEventListener("click", closeRail);
  rail().addEventListener("keydown", (event) => event.key === "Escape" && closeRail());
  listen("route", ({ name, id }) => mark(name, id));
  listen("chats", () => refresh(recent));
  listen("workspace", () => refresh(recent));
  listen("back", () => refresh(recent));
  refresh(recent);
}

function workspaces() {
  const choice = h("select", { "aria-label": "Workspace", class: "workspace", change: () => choose(choice.value) },
    state.me.workspaces.map((each) => h("option", { value: each.id, selected: each.id === state.workspace }, each.name)));
  listen("workspaces", () => choice.replaceChildren(...state.me.workspaces.map((each) => h("option", { value: each.id, selected: each.id === state.workspace }, each.name))));
  return choice;
}

/** @param {string} id */
function choose(id) {
  state.workspace = id;
  state.count = null;
  writeStored("workspace", id);
  // A chat belongs to its workspace, so leave it as well.
  if (location.hash.startsWith("#/chat/")) history.replaceState(null, "", "#/");
  emit("workspace");
}

function foot() {
  return h("div", { class: "rail-foot" },
    h("span", { class: "who", title: state.me.org.name }, state.me.user.name),
    themeButton(),
    h("button", { type: "button", class: "icon-button", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts", click: showKeys }, icon("help")),
    h("button", { type: "button", class: "icon-button", "aria-label": "Sign out", title: "Sign out", click: signOut }, icon("leave")));
}

function themeButton() {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const button = h("button", { type: "button", class: "icon-button", click: switchTheme });
  const draw = () => {
    const label = isDark() ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", label);
    button.title = label;
    button.replaceChildren(icon(isDark() ? "sun" : "moon"));
  };
  function switchTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    writeStored("theme", root.dataset.theme);
    draw();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("storage", () => {
    const chosen = readStored("theme");
    if (chosen) root.dataset.theme = chosen;
    draw();
  });
  draw();
  return button;
}

async function signOut() {
  await call("/logout", { method: "POST" });
  location.assign("/login");
}

/** @param {HTMLElement} recent */
async function refresh(recent) {
  const found = await call("/chat/api/chats", { query: { workspace: state.workspace, limit: RECENT } }).catch(() => null);
  if (!found) return;
  const focusedChat = recent.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement).dataset.chat;
  recent.replaceChildren(...found.items.map((/** @type {import("../types").Chat} */ chat) =>
    h("li", {}, h("a", { href: `#/chat/${chat.id}`, "data-chat": chat.id, title: chat.title }, chat.title || "Untitled"))));
  mark(marked.name, marked.id);
  if (focusedChat) /** @type {HTMLElement | null} */ (recent.querySelector(`[data-chat="${focusedChat}"]`))?.focus();
}

let marked = { name: "", id: "" };

/**
 * @param {string} name
 * @param {string} id
 */
function mark(name, id) {
  marked = { name, id };
  const page = name === "memory" ? "memories" : name;
  for (const link of rail().querySelectorAll("a")) {
    const isHere = link.dataset.chat ? name === "chat" && link.dataset.chat === id : link.dataset.page === page && (page !== "chat" || !id);
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function openRail() {
  rail().classList.add("is-open");
  scrim().hidden = false;
  menu().setAttribute("aria-expanded", "true");
  /** @type {HTMLElement | null} */ (rail().querySelector("a, select"))?.focus();
}

export function closeRail() {
  if (!rail().classList.contains("is-open")) return;
  rail().classList.remove("is-open");
  scrim().hidden = true;
  menu().setAttribute("aria-expanded", "false");
  menu().focus();
}

