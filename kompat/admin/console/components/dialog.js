/** Dialogs: the browser's own, so Esc closes them, the focus stays in them and comes back afterwards. */

import { h, render } from "../vdom.js";
import { icon } from "./icons.js";
import { problemBox } from "./states.js";

let count = 0;

/**
 * Opens one. `draw(dialog)` says what is in it; `dialog.submit(task)` runs what a form asks for, shows the problem if there is one, and closes
 * it otherwise. Resolves to what it was closed with, or null.
 */
export function openDialog({ title, draw, isWide = false, isDrawer = false }) {
  const node = document.createElement("dialog");
  const id = `dialog-${++count}`;
  node.setAttribute("aria-labelledby", id);
  node.className = isDrawer ? "drawer" : isWide ? "wide" : "";
  document.body.append(node);
  const { promise, resolve } = withResolvers();
  const dialog = { problem: null, isBusy: false, closed: promise };
  dialog.close = (value = null) => {
    dialog.value = value;
    node.close();
  };
  dialog.redraw = () => render(node, frame(id, title, dialog, draw));
  dialog.submit = async (task) => {
    Object.assign(dialog, { isBusy: true, problem: null });
    dialog.redraw();
    try {
      dialog.close((await task()) ?? true);
    } catch (problem) {
      Object.assign(dialog, { isBusy: false, problem });
      dialog.redraw();
    }
  };
  node.addEventListener("click", (event) => event.target === node && dialog.close()); // beside it
  node.addEventListener("close", () => {
    resolve(dialog.value ?? null);
    node.remove();
  });
  dialog.redraw();
  node.showModal();
  (node.querySelector("[data-first]") ?? node.querySelector("input, select, textarea, .actions button"))?.focus();
  return dialog;
}

function withResolvers() {
  const found = {};
  found.promise = new Promise((resolve) => (found.resolve = resolve));
  return found;
}

function frame(id, title, dialog, draw) {
  const close = h(
    "button",
    { type: "button", class: "quiet icon-only", "aria-label": "Close", onclick: () => dialog.close() },
    icon("close"),
  );
  return h(
    "div",
    { class: "dialog-frame" },
    h("header", null, h("h2", { id }, title), close),
    h("div", { class: "dialog-body" }, dialog.problem ? problemBox(dialog.problem) : null, draw(dialog)),
  );
}

/** "Are you sure?": true where it was done. What cannot be undone may ask for a name to be typed. */
export function confirm({ title, text, action, typed = null, isDanger = true, run }) {
  let entered = "";
  const draw = (dialog) =>
    h(
      "form",
      {
        method: "dialog",
        onsubmit: (event) => {
          event.preventDefault();
          if (typed === null || entered === typed) dialog.submit(run);
        },
      },
      h("p", null, text),
      typed === null
        ? null
        : h(
            "label",
            { class: "field" },
            h("span", null, "Type ", h("code", null, typed), " to confirm"),
            h("input", {
              "data-first": true,
              autocomplete: "off",
              spellcheck: "false",
              value: entered,
              oninput: (event) => ((entered = event.target.value), dialog.redraw()),
            }),
          ),
      h(
        "div",
        { class: "actions end" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h(
          "button",
          {
            type: "submit",
            class: isDanger ? "danger" : "primary",
            disabled: dialog.isBusy || (typed !== null && entered !== typed),
          },
          action,
        ),
      ),
    );
  return openDialog({ title, draw }).closed.then((value) => value !== null);
}
