// The settings page: models, the embedder and its progress, workspaces, members, keys and your password.

import { call } from "../api.js";
import { copy } from "../clipboard.js";
import { count, day } from "../format.js";
import { h } from "../h.js";
import { icon } from "../icons.js";
import { ask, confirm, dialog } from "../parts/dialogs.js";
import { waiting } from "../parts/empty.js";
import { problem } from "../parts/problem.js";
import { timeElement } from "../parts/time.js";
import { toast } from "../parts/toasts.js";
import { emit, hasRight, listen, state } from "../state.js";

const POLL_MS = 2000;
const RIGHTS = ["read", "write", "delete", "admin"];
// A name needs more than spaces; the browser checks this before the form is sent.
const NOT_BLANK = { required: true, pattern: ".*\\S.*", title: "At least one character that is not a space" };
const ROLES = [["member", "Member"], ["admin", "Admin"]];

/** @type {import("../router.js").Show} */
export async function page(main, route, signal) {
  const parts = [models(signal), workspaces(), hasRight("admin") && members(signal), keys(signal), password()];
  main.replaceChildren(h("div", { class: "page" },
    h("header", { class: "page-head" }, h("h1", {}, "Settings"), h("span", { class: "soft" }, `${state.me.org.name} · Recollect ${state.me.server.version}`)), ...parts.filter((part) => part !== false)));
}

/**
 * A section that loads independently and shows its own errors.
 * @param {string} title
 * @param {string | (string | Node)[]} note
 * @param {AbortSignal} signal
 * @param {(reload: () => void) => Promise<Node[]>} load
 * @param {Node | null} [action]
 */
function section(title, note, signal, load, action = null) {
  const body = h("div", { class: "page-body" }, waiting());
  const reload = async () => {
    try {
      const shown = await load(reload);
      if (!signal.aborted) body.replaceChildren(...shown);
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(problem(/** @type {Error} */ (error), reload));
    }
  };
  listen(`settings.${title}`, reload, signal);
  listen("back", reload, signal);
  reload();
  return h("section", { class: "setting" }, h("div", { class: "page-head" }, h("h2", { class: "grow" }, title), action), h("p", { class: "soft" }, note), body);
}

/** @param {AbortSignal} signal */
function models(signal) {
  return section("Models", ["Chat models are configured on the server with ", h("code", {}, "RECOLLECT_CHAT_URL"), ". The built-in librarian is always available. The embedder is used to search by meaning."], signal, async (reload) => {
    const { models: chats, embedder } = await call("/chat/api/settings", { query: { workspace: state.workspace }, signal });
    const isBuilding = embedder.generations?.some((/** @type {any} */ each) => each.state === "building");
    if (isBuilding) setTimeout(() => signal.aborted || reload(), POLL_MS);
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
      each.state === "building" && h("progress", { max: String(each.total || 1), value: String(each.done), "aria-label": `Changing to ${each.model}` })),
    h("span", { class: `state ${each.state === "current" ? "is-good" : ""}` }, { current: "Embedder in use", building: "In progress", retired: "Retired" }[/** @type {string} */ (each.state)] ?? each.state)));
}

function workspaces() {
  const list = h("ul", { class: "list" });
  const name = (/** @type {string} */ given) => h("label", { class: "field" }, "Name", h("input", { name: "name", ...NOT_BLANK, autofocus: true, maxlength: "120", value: given }));
  const reload = async () => {
    state.me = await call("/chat/api/me");
    emit("workspaces");
    draw();
  };
  const add = () => ask("New workspace", [h("p", { class: "soft" }, "A workspace has its own chats, memories and documents. Workspaces share no data."), name("")], "Create", async (data) => {
    await call("/chat/api/workspaces", { method: "POST", body: { name: String(data.get("name")).trim() } });
    await reload();
  });
  const edit = (/** @type {import("../types").Workspace} */ one) => ask("Rename workspace", [name(one.name)], "Rename", async (data) => {
    await call(`/chat/api/workspaces/${encodeURIComponent(one.id)}`, { method: "PATCH", body: { name: String(data.get("name")).trim() } });
    await reload();
  });
  const draw = () => list.replaceChildren(...state.me.workspaces.map((one) => h("li", {},
    h("span", { class: "name" }, one.name), one.is_default && h("span", { class: "chip" }, "default"), one.id === state.workspace && h("span", { class: "state is-good" }, "Current"),
    hasRight("admin") && h("button", { type: "button", class: "button small", click: () => edit(one) }, "Rename"))));
  draw();
  return h("section", { class: "setting" },
    h("div", { class: "page-head" }, h("h2", { class: "grow" }, "Workspaces"), hasRight("admin") && h("button", { type: "button", class: "button small", click: add }, icon("plus"), "New workspace")),
    h("p", { class: "soft" }, "All chats of a workspace share one memory. Workspaces share no data."), list);
}

/** @param {AbortSignal} signal */
function members(signal) {
  const add = () => ask("New member", [
    h("label", { class: "field" }, "Name", h("input", { name: "name", ...NOT_BLANK, autofocus: true, autocomplete: "off", maxlength: "120" })),
    h("label", { class: "field" }, "First password", h("input", { name: "password", type: "password", minlength: "8", autocomplete: "new-password" }),
      h("span", { class: "soft small" }, "Leave it empty to generate one.")),
    h("label", { class: "field" }, "Role", h("select", { name: "role" }, ROLES.map(([value, label]) => h("option", { value }, label)))),
  ], "Add", async (data) => {
    const [name, password] = [String(data.get("name")).trim(), String(data.get("password"))];
    const made = await call("/chat/api/members", { method: "POST", body: { name, ...(password && { password }), rights: data.get("role") === "admin" ? ["admin"] : [] } });
    emit("settings.Members");
    if (made.password) setTimeout(() => secret("Save this password", `${name} needs it for the first sign-in. It is shown only once.`, made.password));
  });
  return section("Members", "People who can sign in. Members can read, write and delete. Admins also manage members, workspaces and keys.", signal, async () => {
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
      toast(choice.value === "admin" ? `${one.name} is an admin now.` : `${one.name} is no longer an admin.`);
    } catch (error) {
      toast(/** @type {Error} */ (error).message);
    }
    emit("settings.Members");
  }
  /** @param {any} one */
  function remove(one) {
    confirm("Remove this member?", `${one.name} is signed out everywhere and can no longer sign in. Their memories stay.`, "Remove", async () => {
      await call(`/chat/api/members/${encodeURIComponent(one.id)}`, { method: "DELETE" });
      emit("settings.Members");
    });
  }
}

/** @param {string[]} given */
function rights(given) {
  return h("fieldset", {}, h("legend", {}, "Rights"), RIGHTS.filter(hasRight).map((right) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "rights", value: right, checked: given.includes(right) }), right)));
}

/** @param {AbortSignal} signal */
function keys(signal) {
  const add = () => ask("New API key", [
    h("label", { class: "field" }, "What is it for?", h("input", { name: "name", ...NOT_BLANK, autofocus: true, autocomplete: "off", maxlength: "120", placeholder: "laptop" })),
    rights(["read", "write"]),
    h("label", { class: "field" }, "Expires", h("select", { name: "days" }, [["", "Never"], ["30", "After 30 days"], ["90", "After 90 days"], ["365", "After a year"]].map(([value, label]) => h("option", { value }, label)))),
  ], "Create", async (data) => {
    if (!data.has("rights")) throw new Error("Choose at least one right.");
    const days = Number(data.get("days"));
    const made = await call("/chat/api/keys", { method: "POST", body: { name: String(data.get("name")).trim(), rights: data.getAll("rights"), ...(days && { expires_days: days }), workspace_id: state.workspace } });
    emit("settings.API keys");
    setTimeout(() => secret("Save this key", "It is shown only once.", made.key));
  });
  return section("API keys", "For programs such as agents, scripts and OpenAI clients. A key is shown once and gives access to one workspace.", signal, async () => {
    const { items } = await call("/chat/api/keys", { signal });
    return [items.length ? h("ul", { class: "list" }, items.map(line)) : h("p", { class: "soft" }, "No keys yet.")];
  }, h("button", { type: "button", class: "button small", click: add }, icon("plus"), "New key"));

  /** @param {any} key */
  function line(key) {
    const isOver = key.revoked_at || (key.expires_at && new Date(key.expires_at) < new Date());
    return h("li", { class: isOver ? "is-gone" : "" },
      h("span", { class: "name" }, h("span", {}, key.name, " ", h("code", { class: "soft" }, key.shown ?? "")),
        h("span", { class: "soft small" }, (key.rights ?? []).join(", "), key.expires_at ? ` · until ${day(key.expires_at)}` : "", key.last_used_at ? " · used " : " · never used", key.last_used_at && timeElement(key.last_used_at))),
      key.revoked_at ? h("span", { class: "state" }, "Revoked") : h("button", { type: "button", class: "button small quiet-danger", click: () => revoke(key) }, "Revoke"));
  }
  /** @param {any} key */
  function revoke(key) {
    confirm("Revoke this key?", `Programs that use “${key.name}” stop working at once.`, "Revoke", async () => {
      await call(`/chat/api/keys/${encodeURIComponent(key.id)}/revoke`, { method: "POST" });
      emit("settings.API keys");
    });
  }
}

/**
 * Show a secret once.
 * @param {string} title
 * @param {string} about
 * @param {string} text
 */
function secret(title, about, text) {
  dialog(title, (close) => [
    h("p", {}, about), h("p", { class: "secret" }, text),
    h("div", { class: "row end" },
      h("button", { type: "button", class: "button", click: async () => toast((await copy(text)) ? "Copied." : "The browser does not allow copying here. Select the text and copy it.") }, icon("copy"), "Copy"),
      h("button", { type: "button", class: "button primary", click: close }, "Done"))]);
}


function password() {
  const change = () => ask("Change your password", [
    h("label", { class: "field" }, "Current password", h("input", { name: "current", type: "password", required: true, autofocus: true, autocomplete: "current-password" })),
    h("label", { class: "field" }, "New password", h("input", { name: "new", type: "password", required: true, minlength: "8", autocomplete: "new-password" })),
  ], "Change", async (data) => {
    await call("/chat/api/password", { method: "POST", body: { current: data.get("current"), new: data.get("new") } });
    toast("Password changed. Other browsers were signed out.");
  });
  return h("section", { class: "setting" }, h("div", { class: "page-head" }, h("h2", { class: "grow" }, "Your account"), h("button", { type: "button", class: "button small", click: change }, "Change password")),
    h("p", { class: "soft" }, `Signed in as ${state.me.user.name}.`));
}
