/** A topic's settings: what they are, where they come from, and other values for them. */

import { get, patch, path } from "../api.js";
import { openDialog } from "../components/dialog.js";
import { badge, button, checkbox, field, flushCard, input, search } from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { table, tableState } from "../components/table.js";
import { topicHead } from "../components/topic-head.js";
import { toast } from "../components/toast.js";
import { h } from "../vdom.js";

export default function topicSettings(page) {
  const topic = page.params.topic;
  page.title = `Settings of ${topic}`;
  const address = path`/v1/topics/${topic}/configs`;
  const found = page.resource((signal) => get(address, null, { signal }).then(({ items }) => items));
  return settingsPage({ page, found, address, above: () => topicHead(topic, "settings") });
}

/** Also for a broker's. */
export function settingsPage({ page, found, address, above }) {
  const state = { search: "", isOwn: false };
  const rows = tableState();
  const edit = (item) =>
    editDialog(item, async (change) => {
      const told = await patch(address, change);
      found.data = told?.items ?? found.data;
      toast(`${item.name} is changed`);
      if (!told?.items) found.reload();
      page.redraw();
    });
  const columns = [
    {
      name: "name",
      label: "Setting",
      class: "name",
      cell: (row) =>
        row.isReadOnly ? row.name : h("button", { type: "button", class: "link", onclick: () => edit(row) }, row.name),
    },
    {
      name: "value",
      label: "Value",
      class: "mono setting-value",
      cell: (row) => (row.isSensitive ? "••••" : (row.value ?? "null")),
    },
    {
      name: "source",
      label: "From",
      isWide: true,
      cell: (row) =>
        row.isDefault ? h("span", { class: "muted" }, "default") : badge(sourceName(row.source), "accent"),
    },
    {
      name: "edit",
      label: "",
      class: "fit",
      isWide: true,
      cell: (row) =>
        row.isReadOnly
          ? h("span", { class: "muted" }, "read-only")
          : button("Change", () => edit(row), { tone: "small", label: `Change ${row.name}` }),
    },
  ];
  const draw = (items) => {
    const wanted = state.search.toLowerCase();
    const matching = items.filter(
      (item) => item.name.toLowerCase().includes(wanted) && (!state.isOwn || !item.isDefault),
    );
    const sorted = [...matching].sort(
      (one, other) => Number(one.isDefault) - Number(other.isDefault) || one.name.localeCompare(other.name),
    );
    if (sorted.length === 0) return empty(state.isOwn ? "All settings are as they come" : "No such setting");
    return table({ page, state: rows, label: "Settings", columns, rows: sorted, key: (row) => row.name });
  };
  return () => [
    above(),
    h(
      "div",
      { class: "toolbar" },
      search({
        value: state.search,
        label: "Search settings",
        oninput: (text) => ((state.search = text), page.redraw()),
      }),
      checkbox("Changed ones only", state.isOwn, (isOwn) => ((state.isOwn = isOwn), page.redraw())),
    ),
    flushCard(null, show(found, draw, 10)),
  ];
}

const sourceName = (source) => String(source).toLowerCase().replaceAll("_", " ").replace(" config", "");

function editDialog(item, save) {
  const given = { value: item.isSensitive ? "" : (item.value ?? "") };
  const draw = (dialog) =>
    h(
      "form",
      {
        onsubmit: (event) => (event.preventDefault(), dialog.submit(() => save({ set: { [item.name]: given.value } }))),
      },
      item.documentation ? h("p", { class: "muted" }, item.documentation) : null,
      field("Value", input(given, "value", { "data-first": true })),
      h(
        "div",
        { class: "actions end" },
        item.isDefault ? null : button("Back to the default", () => dialog.submit(() => save({ delete: [item.name] }))),
        button("Cancel", () => dialog.close()),
        h("button", { type: "submit", class: "primary", disabled: dialog.isBusy }, "Save"),
      ),
    );
  openDialog({ title: item.name, draw });
}
