/** What stands where data will be, cannot be, or is not. */

import { h } from "../vdom.js";
import { icon } from "./icons.js";

export function loading(rows = 4) {
  const lines = Array.from({ length: rows }, () => h("div", { class: "skeleton" }));
  return h("div", { class: "loading", role: "status", "aria-label": "Loading" }, lines);
}

export function empty(title, text, ...actions) {
  const parts = [h("p", { class: "empty-title" }, title), text ? h("p", null, text) : null];
  return h("div", { class: "empty" }, parts, actions.length > 0 ? h("div", { class: "actions" }, actions) : null);
}

/** What else REST offers is not for people who look at pages. */
const forPeople = (detail) => detail?.replace(/ (GET|POST) \/v1\/[^.]*\.$/, "");

export function problemBox(problem, retry) {
  const title = problem.title ?? "Something went wrong";
  const detail = forPeople(problem.detail ?? problem.message);
  return h(
    "div",
    { class: "problem", role: "alert" },
    icon("warning"),
    h(
      "div",
      null,
      h("strong", null, title),
      detail && detail !== title ? h("p", null, detail) : null,
      problem.code ? h("code", null, problem.code) : null,
    ),
    retry ? h("button", { type: "button", onclick: retry }, "Try again") : null,
  );
}

/** A resource: what it holds, or why it does not. What was shown stays when a later try fails, with a word about it. */
export function show(resource, draw, rows) {
  if (resource.data === null) return resource.error ? problemBox(resource.error, resource.reload) : loading(rows);
  return [resource.error ? problemBox(resource.error, resource.reload) : null, draw(resource.data)];
}
