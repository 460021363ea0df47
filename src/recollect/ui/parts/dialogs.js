// Dialogs: the browser traps the focus, Escape closes, and the focus returns.

import { h } from "../h.js";
import { icon } from "../icons.js";
import { errorLine } from "./problem.js";

/**
 * @param {string} title
 * @param {(close: () => void) => (Node | string | null | false)[]} content
 * @param {{ class?: string, closed?: () => void }} [options]
 */
export function dialog(title, content, options = {}) {
  const before = document.activeElement;
  const close = () => box.close();
  const body = h("div", { class: "dialog-body" }, content(close));
  // Focus the content, not the close button.
  if (!body.querySelector("[autofocus]")) (body.setAttribute("tabindex", "-1"), body.setAttribute("autofocus", ""));
  const box = h("dialog", { class: `dialog ${options.class ?? ""}`, "aria-label": title },
    h("header", { class: "dialog-head" }, h("h2", {}, title),
      h("button", { type: "button", class: "icon-button", "aria-label": "Close", click: close }, icon("close"))),
    body);
  box.addEventListener("close", () => {
    box.remove();
    options.closed?.();
    // Restore the focus only if nothing else has it: the user may have moved on.
    if (document.activeElement === document.body && before instanceof HTMLElement && before.isConnected) before.focus();
  });
  box.addEventListener("click", (event) => event.target === box && close());
  document.body.append(box);
  box.showModal();
  return box;
}

/**
 * A form in a dialog. If the server returns an error, the input stays.
 * @param {string} title
 * @param {(Node | string | null | false)[]} fields
 * @param {string} verb
 * @param {(data: FormData) => Promise<void>} act
 */
export function ask(title, fields, verb, act) {
  return dialog(title, (close) => {
    const wrong = h("div", {});
    const button = h("button", { type: "submit", class: "button primary" }, verb);
    const submit = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      button.disabled = true;
      try {
        await act(new FormData(/** @type {HTMLFormElement} */ (event.target)));
        close();
      } catch (error) {
        wrong.replaceChildren(errorLine(/** @type {Error} */ (error)));
      } finally {
        button.disabled = false;
      }
    };
    return [h("form", { class: "form", submit }, fields, wrong,
      h("div", { class: "row end" }, h("button", { type: "button", class: "button", click: close }, "Cancel"), button))];
  });
}

/**
 * Ask for confirmation, naming what will be deleted.
 * @param {string} title
 * @param {string} text
 * @param {string} verb
 * @param {() => Promise<void>} act
 */
export function confirm(title, text, verb, act) {
  const box = ask(title, [h("p", {}, text)], verb, act);
  box.querySelector(".primary")?.classList.add("danger");
  // Focus Cancel, so that Enter alone deletes nothing.
  /** @type {HTMLElement | null} */ (box.querySelector("form .button"))?.focus();
  return box;
}
