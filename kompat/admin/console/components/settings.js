/** Settings of a topic, a group or a broker: what they are, where they come from, and other values for them. */

import { get, patch } from "../api.js";
import { settingInWords } from "../format.js";
import { h } from "../vdom.js";
import { openDialog } from "./dialog.js";
import { badge, button, checkbox, field, flushCard, formEnd, input, opener, search, select } from "./parts.js";
import { empty, show } from "./states.js";
import { table, tableState } from "./table.js";
import { toast } from "./toast.js";

/**
 * A page of them. `address` and `query` say whose; `scopes` ([[body, text], …]): whom a change can be for, where that is a question.
 * `above()` is what the page begins with.
 */
export function settingsPage({ page, address, query = {}, scopes = [[{}, ""]], above }) {
  const found = page.resource((signal) => get(address, query, { signal }).then(({ items }) => items));
  const state = { search: "", isOwn: false };
  const rows = tableState();
  const edit = (item) =>
    editDialog(item, scopes, async (change) => {
      await patch(address, change);
      toast(`${item.name} is changed`);
      await found.reload();
    });
  const columns = [
    {
      name: "name",
      label: "Setting",
      class: "name",
      cell: (row) =>
        row.isReadOnly
          ? h("span", { title: row.documentation }, row.name)
          : opener(row.name, () => edit(row), { title: row.documentation }),
    },
    {
      name: "value",
      label: "Value",
      class: "mono setting-value",
      cell: (row) => [
        h("span", { title: row.isSensitive ? null : row.value }, row.isSensitive ? "••••" : (row.value ?? "null")),
        inWords(row),
      ],
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
    if (sorted.length === 0) return empty(state.isOwn ? "All settings have their defaults" : "No matching settings");
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
      checkbox("Only changed settings", state.isOwn, (isOwn) => ((state.isOwn = isOwn), page.redraw())),
    ),
    flushCard(null, show(found, draw, 10)),
  ];
}

const sourceName = (source) => String(source).toLowerCase().replaceAll("_", " ").replace(" config", "");

/** 604800000 ms are 7 days: nobody should have to count. */
function inWords({ name, value, isSensitive }) {
  const text = isSensitive ? null : settingInWords(name, value);
  return text === null ? null : h("span", { class: "muted in-words" }, text);
}

function editDialog(item, scopes, save) {
  const given = { value: item.isSensitive ? "" : (item.value ?? ""), scope: "0" };
  const send = (change) => save({ ...scopes[Number(given.scope)][0], ...change });
  const draw = (dialog) => {
    const words = settingInWords(item.name, given.value);
    return h(
      "form",
      {
        onsubmit: (event) => (event.preventDefault(), dialog.submit(() => send({ set: { [item.name]: given.value } }))),
      },
      item.documentation ? h("p", { class: "muted" }, item.documentation) : null,
      field("Value", input(given, "value", { "data-first": true }, dialog.redraw), { hint: words }),
      scopes.length > 1
        ? field(
            "Of",
            select(
              given,
              "scope",
              scopes.map(([, text], at) => [String(at), text]),
            ),
          )
        : null,
      formEnd(dialog, "Save", {
        before: item.isDefault
          ? null
          : button("Reset to the default", () => dialog.submit(() => send({ delete: [item.name] }))),
      }),
    );
  };
  openDialog({ title: item.name, draw });
}
