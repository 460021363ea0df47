// The rail: where one can go, which workspace, which chats were last, who is signed in.

import { call } from "../api.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { hear, note, noted, state, tell } from "../state.js";
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
  hear("place", ({ name, id }) => mark(name, id));
  hear("chats", () => refresh(recent));
  hear("workspace", () => refresh(recent));
  hear("back", () => refresh(recent));
  refresh(recent);
}

function workspaces() {
  const choice = h("select", { "aria-label": "Workspace", class: "workspace", change: () => choose(choice.value) },
    state.me.workspaces.map((each) => h("option", { value: each.id, selected: each.id === state.workspace }, each.name)));
  hear("workspaces", () => choice.replaceChildren(...state.me.workspaces.map((each) => h("option", { value: each.id, selected: each.id === state.workspace }, each.name))));
  return choice;
}

/** @param {string} id */
function choose(id) {
  state.workspace = id;
  state.count = null;
  note("workspace", id);
  // A chat belongs to its workspace: it is left with it.
  if (location.hash.startsWith("#/chat/")) history.replaceState(null, "", "#/");
  tell("workspace");
}

function foot() {
  return h("div", { class: "rail-foot" },
    h("span", { class: "who", title: state.me.org.name }, state.me.user.name),
    themeButton(),
    h("button", { type: "button", class: "icon-button", "aria-label": "Keys", title: "Keys", click: showKeys }, icon("help")),
    h("button", { type: "button", class: "icon-button", "aria-label": "Sign out", title: "Sign out", click: signOut }, icon("leave")));
}

function themeButton() {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const button = h("button", { type: "button", class: "icon-button", click: turn });
  const draw = () => {
    const label = isDark() ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", label);
    button.title = label;
    button.replaceChildren(icon(isDark() ? "sun" : "moon"));
  };
  function turn() {
    root.dataset.theme = isDark() ? "light" : "dark";
    note("theme", root.dataset.theme);
    draw();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("storage", () => {
    const chosen = noted("theme");
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
  const stood = recent.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement).dataset.chat;
  recent.replaceChildren(...found.items.map((/** @type {import("../types").Chat} */ chat) =>
    h("li", {}, h("a", { href: `#/chat/${chat.id}`, "data-chat": chat.id, title: chat.title }, chat.title || "Untitled"))));
  mark(marked.name, marked.id);
  if (stood) /** @type {HTMLElement | null} */ (recent.querySelector(`[data-chat="${stood}"]`))?.focus();
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

