/** One record, whole: where it is, its headers, its key and value, and what can be done with it. */

import { bytes, time } from "../format.js";
import { to } from "../router.js";
import { h } from "../vdom.js";
import "./bytes-view.js";
import { headerOf, isJson, keyOf, preview, valueOf } from "./bytes.js";
import { openDialog } from "./dialog.js";
import { definitions } from "./parts.js";

export function messageDialog(topic, message) {
  const { partition, offset } = message;
  const draw = (dialog) => {
    const leave = () => dialog.close();
    return [
      h(
        "div",
        { class: "actions" },
        h(
          "a",
          { class: "button primary", href: to(["topics", topic, partition, offset, "trace"]), onclick: leave },
          "Trace",
        ),
        h(
          "a",
          {
            class: "button",
            href: to(["topics", topic, "produce"], { from: `${partition}/${offset}` }),
            onclick: leave,
          },
          "Produce again",
        ),
        h(
          "a",
          { class: "button", href: to(["topics", topic, "messages"], { partition, offset }), onclick: leave },
          "Link to this record",
        ),
      ),
      messageParts(message),
    ];
  };
  return openDialog({ title: `${topic} / ${partition} / ${offset}`, draw, isDrawer: true });
}

/** Everything that a record holds. */
export function messageParts(message) {
  return [
    definitions([
      ["Partition", message.partition],
      ["Offset", message.offset],
      ["Timestamp", time(message.timestamp)],
      message.size === undefined ? null : ["Size", bytes(message.size)],
    ]),
    h(
      "section",
      { class: "form" },
      h("h3", null, "Key"),
      isJson(keyOf(message)) || message.keyEncoding
        ? h("bytes-view", { what: "Key", content: keyOf(message) })
        : h("code", null, preview(keyOf(message), 4096)),
    ),
    h(
      "section",
      { class: "form" },
      h("h3", null, "Value"),
      h("bytes-view", { what: "Value", content: valueOf(message) }),
    ),
    h(
      "section",
      { class: "form" },
      h("h3", null, `Headers (${message.headers?.length ?? 0})`),
      headersTable(message.headers ?? []),
    ),
  ];
}

export function headersTable(headers) {
  if (headers.length === 0) return h("p", { class: "muted" }, "The record has no headers.");
  const rows = headers.map((header) =>
    h(
      "tr",
      null,
      h("td", { class: "name" }, header.name),
      h("td", { class: "mono header-value" }, preview(headerOf(header), 4096)),
    ),
  );
  return h("table", { class: "headers", "aria-label": "Headers" }, h("tbody", null, rows));
}
