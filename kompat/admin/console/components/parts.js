/** The small parts that pages are made of. */

import { number } from "../format.js";
import { h } from "../vdom.js";
import { to } from "../router.js";
import { icon } from "./icons.js";

/** A page's head: where one is, what it is called, what can be done. */
export function head({ trail = [], title, badges = [], actions = [] }) {
  const path =
    trail.length > 0
      ? h(
          "nav",
          { class: "trail", "aria-label": "Breadcrumb" },
          trail.map(([text, names], at) => [
            at > 0 ? h("span", { "aria-hidden": "true" }, "/") : null,
            h("a", { href: to(names) }, text),
          ]),
        )
      : null;
  return h(
    "header",
    { class: "page-head" },
    h(
      "div",
      { class: "page-title" },
      path,
      h("h1", { title: typeof title === "string" ? title : null }, title),
      badges,
    ),
    actions.length > 0 ? h("div", { class: "actions" }, actions) : null,
  );
}

export function tabs(label, items, current) {
  const intoSight = (node) => requestAnimationFrame(() => node.scrollIntoView({ block: "nearest", inline: "nearest" }));
  const links = items.map(([name, text, href]) => {
    const isCurrent = name === current;
    return h(
      "a",
      { href, class: "tab", "aria-current": isCurrent ? "page" : null, ref: isCurrent ? intoSight : null },
      text,
    );
  });
  return h("nav", { class: "tabs", "aria-label": label }, links);
}

export function card(title, ...content) {
  return h("section", { class: "card" }, title ? h("h2", null, title) : null, content);
}

/** A card whose content goes to its edges: for tables. */
export function flushCard(title, ...content) {
  return h("section", { class: "card flush" }, title ? h("h2", null, title) : null, content);
}

/** Figures: [label, value, hint, tone]. */
export function figures(...items) {
  return h(
    "dl",
    { class: "figures" },
    items
      .filter(Boolean)
      .map(([label, value, hint, tone]) =>
        h(
          "div",
          { class: `figure ${tone ?? ""}` },
          h("dt", null, label),
          h("dd", null, value),
          hint ? h("dd", { class: "hint" }, hint) : null,
        ),
      ),
  );
}

export function badge(text, tone = "") {
  return h("span", { class: `badge ${tone}` }, text);
}

export function link(text, names, query, props = {}) {
  return h("a", { href: to(names, query), ...props }, text);
}

export const topicLink = (name, ...rest) => link(name, ["topics", name, ...rest], {}, { title: name });

/** What looks like a link and opens something here; `j`, `k` and Enter find it. */
export const opener = (text, onclick, props = {}) =>
  h("button", { type: "button", class: "link", onclick, ...props }, text);

/** From page to page of a list with cursors: `state` is {cursors, next}; `turn` loads what they say then. */
export function pager(state, turn) {
  if (state.next === null && state.cursors.length === 1) return null;
  return h(
    "div",
    { class: "toolbar pager" },
    h("span", { class: "muted" }, `Page ${state.cursors.length}`),
    button("Before", () => (state.cursors.pop(), turn()), { isDisabled: state.cursors.length === 1 }),
    button("Next", () => (state.cursors.push(state.next), turn()), { isDisabled: state.next === null }),
  );
}

export function button(
  text,
  onclick,
  { tone = "", symbol = null, isDisabled = false, label = null, keys = null } = {},
) {
  const shortcut = keys ? h("kbd", { class: "wide-only", "aria-hidden": "true" }, keys) : null;
  return h(
    "button",
    { type: "button", class: tone, disabled: isDisabled, onclick, "aria-label": label, title: label },
    symbol ? icon(symbol) : null,
    text ? h("span", null, text) : null,
    shortcut,
  );
}

export function search({ value, oninput, label, placeholder = label }) {
  const input = h("input", {
    type: "search",
    "data-search": true,
    value,
    placeholder,
    "aria-label": label,
    spellcheck: "false",
    autocomplete: "off",
    oninput: (event) => oninput(event.target.value),
  });
  return h("div", { class: "search" }, icon("search"), input, h("kbd", { "aria-hidden": "true" }, "/"));
}

/** A labelled control of a form: `control` is a vnode of an input, select or textarea. */
export function field(label, control, { hint = null, isWide = false } = {}) {
  // Named by itself, for the text of a label around a select has all its options in it.
  Object.assign(control.props, { "aria-label": label, "aria-description": hint });
  return h(
    "label",
    { class: isWide ? "field is-wide" : "field" },
    h("span", null, label),
    control,
    hint ? h("small", null, hint) : null,
  );
}

/** An input that keeps what is typed in `state[name]`. */
export function input(state, name, props = {}, changed = () => {}) {
  return h("input", {
    spellcheck: "false",
    autocomplete: "off",
    ...props,
    value: state[name] ?? "",
    oninput: (event) => ((state[name] = event.target.value), changed()),
  });
}

export function select(state, name, options, changed = () => {}, props = {}) {
  const items = options
    .map((option) => (Array.isArray(option) ? option : [option, option]))
    .map(([value, text]) => h("option", { value, key: value }, text));
  return h(
    "select",
    { ...props, value: state[name] ?? "", onchange: (event) => ((state[name] = event.target.value), changed()) },
    items,
  );
}

/** The end of a dialog's form: out of it, and on. */
export function formEnd(dialog, action, { tone = "primary", before = null, isDisabled = false } = {}) {
  return h(
    "div",
    { class: "actions end" },
    before,
    button("Cancel", () => dialog.close()),
    h("button", { type: "submit", class: tone, disabled: dialog.isBusy || isDisabled }, action),
  );
}

export function checkbox(label, isChecked, onchange, props = {}) {
  return h(
    "label",
    { class: "check" },
    h("input", { type: "checkbox", checked: isChecked, onchange: (event) => onchange(event.target.checked), ...props }),
    h("span", null, label),
  );
}

/** One bar: how much of the most there is. */
export function meter(value, most, { tone = "", label = null } = {}) {
  const part = most > 0 ? Math.min(1, value / most) : 0;
  const props = { class: `meter ${tone}` };
  if (label) Object.assign(props, { role: "img", "aria-label": label });
  else props["aria-hidden"] = "true";
  return h("span", props, h("span", { style: { width: `${(part * 100).toFixed(2)}%` } }));
}

/** Bars one below the other, against the longest: [text, count, label, tone]. */
export function bars(items) {
  const most = Math.max(1, ...items.map(([, count]) => count));
  return h(
    "div",
    { class: "bars" },
    items.map(([text, count, label, tone]) => [
      h("span", null, text),
      meter(count, most, { label, tone }),
      h("span", { class: "number" }, number(count)),
    ]),
  );
}

export function definitions(items) {
  return h(
    "dl",
    { class: "definitions" },
    items.filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}
