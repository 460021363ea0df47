// Models, the embedder and how far it is, workspaces, members, keys, one's own password.

import { call } from "../api.js";
import { copy } from "../clipboard.js";
import { count, day } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { ask, confirm, dialog } from "../parts/dialogs.js";
import { waiting } from "../parts/empty.js";
import { problem } from "../parts/problem.js";
import { moment } from "../parts/time.js";
import { toast } from "../parts/toasts.js";
import { hear, may, state, tell } from "../state.js";

const AGAIN_MS = 2000;
const RIGHTS = ["read", "write", "delete", "admin"];
// Spaces are no name; the browser says so before anything is sent.
const SOMETHING = { required: true, pattern: ".*\\S.*", title: "At least one letter" };
const ROLES = [["member", "Member"], ["admin", "Admin"]];

/** @type {import("../router.js").Show} */
export async function page(main, place, signal) {
  const parts = [models(signal), workspaces(), may("admin") && members(signal), keys(signal), password()];
  main.replaceChildren(h("div", { class: "page" },
    h("header", { class: "page-head" }, h("h1", {}, "Settings"), h("span", { class: "soft" }, `${state.me.org.name} · Recollect ${state.me.server.version}`)), ...parts.filter((part) => part !== false)));
}

/**
 * A section that loads by itself and says itself what went wrong.
 * @param {string} title
 * @param {string | (string | Node)[]} note
 * @param {AbortSignal} signal
 * @param {(again: () => void) => Promise<Node[]>} load
 * @param {Node | null} [action]
 */
function section(title, note, signal, load, action = null) {
  const body = h("div", { class: "page-body" }, waiting());
  const again = async () => {
    try {
      const shown = await load(again);
      if (!signal.aborted) body.replaceChildren(...shown);
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(problem(/** @type {Error} */ (error), again));
    }
  };
  hear(`settings.${title}`, again, signal);
  hear("back", again, signal);
  again();
  return h("section", { class: "setting" }, h("div", { class: "page-head" }, h("h2", { class: "grow" }, title), action), h("p", { class: "soft" }, note), body);
}

/** @param {AbortSignal} signal */
function models(signal) {
  return section("Models", ["Chat models come from the server’s configuration, ", h("code", {}, "RECOLLECT_CHAT_URL"), "; the librarian is always there. The embedder decides what is found by meaning."], signal, async (again) => {
    const { models: chats, embedder } = await call("/chat/api/settings", { query: { workspace: state.workspace }, signal });
    const isBuilding = embedder.generations?.some((/** @type {any} */ each) => each.state === "building");
    if (isBuilding) setTimeout(() => signal.aborted || again(), AGAIN_MS);
    return [
      h("ul", { class: "list" }, chats.map((/** @type {any} */ model) => h("li", {}, h("span", { class: "name" }, h("span", {}, model.id), h("span", { class: "soft small" }, model.owned_by)), model.is_default && h("span", { class: "chip" }, "default")))),
      h("ul", { class: "list" }, generations(embedder)),
    ];
  });
}

/** @param {any} embedder */
function generations(embedder) {
  const all = embedder.generations?.length ? embedder.generations : [{ id: "", model: embedder.model, state: "current", done: 0, total: 0 }];
  return all.map((/** @type {any} */ each) => h("li", {},
    h("span", { class: "name" }, h("span", {}, each.model), h("span", { class: "soft small" }, each.state === "building" ? `${count(each.done)} of ${count(each.total)} memories embedded` : `${embedder.dimensions ?? "?"} dimensions`),
      each.state === "building" && h("progress", { max: String(each.total || 1), value: String(each.done), "aria-label": `Moving to ${each.model}` })),
    h("span", { class: `state ${each.state === "current" ? "is-good" : ""}` }, { current: "Embedder in use", building: "Being built", retired: "Retired" }[/** @type {string} */ (each.state)] ?? each.state)));
}

function workspaces() {
  const list = h("ul", { class: "list" });
  const name = (/** @type {string} */ given) => h("label", { class: "field" }, "Name", h("input", { name: "name", ...SOMETHING, autofocus: true, maxlength: "120", value: given }));
  const reload = async () => {
    state.me = await call("/chat/api/me");
    tell("workspaces");
    draw();
  };
  const add = () => ask("New workspace", [h("p", { class: "soft" }, "A workspace has its own chats, memories and documents; nothing crosses into another."), name("")], "Create", async (data) => {
    await call("/chat/api/workspaces", { method: "POST", body: { name: String(data.get("name")).trim() } });
    await reload();
  });
  const edit = (/** @type {import("../types").Workspace} */ one) => ask("Rename workspace", [name(one.name)], "Rename", async (data) => {
    await call(`/chat/api/workspaces/${encodeURIComponent(one.id)}`, { method: "PATCH", body: { name: String(data.get("name")).trim() } });
    await reload();
  });
  const draw = () => list.replaceChildren(...state.me.workspaces.map((one) => h("li", {},
    h("span", { class: "name" }, one.name), one.is_default && h("span", { class: "chip" }, "default"), one.id === state.workspace && h("span", { class: "state is-good" }, "You are here"),
    may("admin") && h("button", { type: "button", class: "button small", click: () => edit(one) }, "Rename"))));
  draw();
  return h("section", { class: "setting" },
    h("div", { class: "page-head" }, h("h2", { class: "grow" }, "Workspaces"), may("admin") && h("button", { type: "button", class: "button small", click: add }, icon("plus"), "New workspace")),
    h("p", { class: "soft" }, "All chats of a workspace share one memory; workspaces share nothing."), list);
}

/** @param {AbortSignal} signal */
function members(signal) {
  const add = () => ask("New member", [
    h("label", { class: "field" }, "Name", h("input", { name: "name", ...SOMETHING, autofocus: true, autocomplete: "off", maxlength: "120" })),
    h("label", { class: "field" }, "First password", h("input", { name: "password", type: "password", minlength: "8", autocomplete: "new-password" }),
      h("span", { class: "soft small" }, "Leave it empty to have one made up.")),
    h("label", { class: "field" }, "Role", h("select", { name: "role" }, ROLES.map(([value, label]) => h("option", { value }, label)))),
  ], "Add", async (data) => {
    const [name, password] = [String(data.get("name")).trim(), String(data.get("password"))];
    const made = await call("/chat/api/members", { method: "POST", body: { name, ...(password && { password }), rights: data.get("role") === "admin" ? ["admin"] : [] } });
    tell("settings.Members");
    if (made.password) setTimeout(() => secret("Keep this password", `With it ${name} signs in for the first time. It is shown only now.`, made.password));
  });
  return section("Members", "Who can sign in. Members read, write and delete; admins also arrange members, workspaces and keys.", signal, async () => {
    const { items } = await call("/chat/api/members", { signal });
    return [h("ul", { class: "list" }, items.map((/** @type {any} */ one) => h("li", {},
      h("span", { class: "name" }, one.name),
      ...(one.id === state.me.user.id ? [h("span", { class: "soft" }, one.role), h("span", { class: "state is-good" }, "You")] : [role(one),
        h("button", { type: "button", class: "button small quiet-danger", "aria-label": `Remove ${one.name}`, click: () => remove(one) }, "Remove")]))))];
  }, h("button", { type: "button", class: "button small", click: add }, icon("plus"), "New member"));

  /** @param {any} one */
  function role(one) {
    const choice = h("select", { class: "filter", "aria-label": `Role of ${one.name}`, change: () => change(one, choice) },
      ROLES.map(([value, label]) => h("option", { value, selected: value === one.role }, label)));
    return choice;
  }
  /**
   * @param {any} one
   * @param {HTMLSelectElement} choice
   */
  async function change(one, choice) {
    try {
      await call(`/chat/api/members/${encodeURIComponent(one.id)}`, { method: "PATCH", body: { role: choice.value } });
      toast(choice.value === "admin" ? `${one.name} is an admin now.` : `${one.name} is no admin any more.`);
    } catch (error) {
      toast(/** @type {Error} */ (error).message);
    }
    tell("settings.Members");
  }
  /** @param {any} one */
  function remove(one) {
    confirm("Remove this member?", `${one.name} is signed out everywhere and can no longer sign in. What they told stays.`, "Remove", async () => {
      await call(`/chat/api/members/${encodeURIComponent(one.id)}`, { method: "DELETE" });
      tell("settings.Members");
    });
  }
}

/** @param {string[]} given */
function rights(given) {
  return h("fieldset", {}, h("legend", {}, "It may"), RIGHTS.filter(may).map((right) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "rights", value: right, checked: given.includes(right) }), right)));
}

/** @param {AbortSignal} signal */
function keys(signal) {
  const add = () => ask("New API key", [
    h("label", { class: "field" }, "What is it for?", h("input", { name: "name", ...SOMETHING, autofocus: true, autocomplete: "off", maxlength: "120", placeholder: "laptop" })),
    rights(["read", "write"]),
    h("label", { class: "field" }, "Expires", h("select", { name: "days" }, [["", "Never"], ["30", "After 30 days"], ["90", "After 90 days"], ["365", "After a year"]].map(([value, label]) => h("option", { value }, label)))),
  ], "Create", async (data) => {
    if (!data.has("rights")) throw new Error("A key that may nothing is of no use. Choose at least one right.");
    const days = Number(data.get("days"));
    const made = await call("/chat/api/keys", { method: "POST", body: { name: String(data.get("name")).trim(), rights: data.getAll("rights"), ...(days && { expires_days: days }), workspace_id: state.workspace } });
    tell("settings.API keys");
    setTimeout(() => secret("Keep this key", "It is shown only now.", made.key));
  });
  return section("API keys", "For programs: agents, scripts, OpenAI clients. A key is shown once and opens one workspace.", signal, async () => {
    const { items } = await call("/chat/api/keys", { signal });
    return [items.length ? h("ul", { class: "list" }, items.map(line)) : h("p", { class: "soft" }, "No keys yet.")];
  }, h("button", { type: "button", class: "button small", click: add }, icon("plus"), "New key"));

  /** @param {any} key */
  function line(key) {
    const isOver = key.revoked_at || (key.expires_at && new Date(key.expires_at) < new Date());
    return h("li", { class: isOver ? "is-gone" : "" },
      h("span", { class: "name" }, h("span", {}, key.name, " ", h("code", { class: "soft" }, key.shown ?? "")),
        h("span", { class: "soft small" }, (key.rights ?? []).join(", "), key.expires_at ? ` · until ${day(key.expires_at)}` : "", key.last_used_at ? " · used " : " · never used", key.last_used_at && moment(key.last_used_at))),
      key.revoked_at ? h("span", { class: "state" }, "Revoked") : h("button", { type: "button", class: "button small quiet-danger", click: () => revoke(key) }, "Revoke"));
  }
  /** @param {any} key */
  function revoke(key) {
    confirm("Revoke this key?", `Whatever uses “${key.name}” stops working at once.`, "Revoke", async () => {
      await call(`/chat/api/keys/${encodeURIComponent(key.id)}/revoke`, { method: "POST" });
      tell("settings.API keys");
    });
  }
}

/**
 * Something that is shown once.
 * @param {string} title
 * @param {string} about
 * @param {string} text
 */
function secret(title, about, text) {
  dialog(title, (close) => [
    h("p", {}, about), h("p", { class: "secret" }, text),
    h("div", { class: "row end" },
      h("button", { type: "button", class: "button", click: async () => toast((await copy(text)) ? "Copied." : "The browser does not let this page copy. Select the text instead.") }, icon("copy"), "Copy"),
      h("button", { type: "button", class: "button primary", click: close }, "I have it"))]);
}


function password() {
  const change = () => ask("Change your password", [
    h("label", { class: "field" }, "Current password", h("input", { name: "current", type: "password", required: true, autofocus: true, autocomplete: "current-password" })),
    h("label", { class: "field" }, "New password", h("input", { name: "new", type: "password", required: true, minlength: "8", autocomplete: "new-password" })),
  ], "Change", async (data) => {
    await call("/chat/api/password", { method: "POST", body: { current: data.get("current"), new: data.get("new") } });
    toast("Changed. Other browsers were signed out.");
  });
  return h("section", { class: "setting" }, h("div", { class: "page-head" }, h("h2", { class: "grow" }, "You"), h("button", { type: "button", class: "button small", click: change }, "Change password")),
    h("p", { class: "soft" }, `Signed in as ${state.me.user.name}.`));
}
