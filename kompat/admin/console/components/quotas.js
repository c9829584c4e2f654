/** Quotas: how much a user, a client or an address may have, seen and changed. */

import { post } from "../api.js";
import { bytes, number } from "../format.js";
import { h } from "../vdom.js";
import { confirm, openDialog } from "./dialog.js";
import { button, field, formEnd, input, select } from "./parts.js";
import { empty } from "./states.js";
import { table } from "./table.js";
import { toast } from "./toast.js";

const ENTITIES = [
  ["user", "user"],
  ["clientId", "client"],
  ["ip", "address"],
];
const OF_CLIENTS = {
  producer_byte_rate: "Produced bytes per second",
  consumer_byte_rate: "Fetched bytes per second",
  request_percentage: "Percent of a request thread",
  controller_mutation_rate: "Partitions created or deleted per second",
};
const OF_ADDRESSES = { connection_creation_rate: "Connections per second" };
const ALL = { ...OF_CLIENTS, ...OF_ADDRESSES };

const entityOf = (row) =>
  Object.fromEntries(ENTITIES.filter(([kind]) => kind in row).map(([kind]) => [kind, row[kind]]));
const named = (row) =>
  ENTITIES.filter(([kind]) => kind in row)
    .map(([kind, text]) => (row[kind] === null ? `default for every ${text}` : `${text} ${row[kind]}`))
    .join(", ");
const told = (name, value) => (name.endsWith("byte_rate") ? `${bytes(value)}/s` : number(value));

export function quotasTable(page, state, items, quotas) {
  if (items.length === 0) return empty("No quotas", "There is no limit for any client.");
  const columns = [
    { name: "entity", label: "For", class: "name", value: named, cell: named },
    {
      name: "values",
      label: "Limit",
      cell: (row) =>
        Object.entries(row.values).map(([name, value]) =>
          h("div", null, h("span", { class: "muted" }, `${ALL[name] ?? name}: `), told(name, value)),
        ),
    },
    {
      name: "actions",
      label: "",
      class: "fit",
      cell: (row) =>
        h(
          "span",
          { class: "row-actions" },
          button("Change", () => quotaDialog(quotas, row), {
            tone: "small",
            label: `Change the quota of ${named(row)}`,
          }),
          button("Delete", () => remove(row, quotas), {
            tone: "small danger",
            label: `Delete the quota of ${named(row)}`,
          }),
        ),
    },
  ];
  return table({ page, state, label: "Quotas", columns, rows: items, key: (row) => JSON.stringify(entityOf(row)) });
}

async function remove(row, quotas) {
  const isDone = await confirm({
    title: "Delete this quota?",
    text: `The quota of ${named(row)} will no longer apply.`,
    action: "Delete the quota",
    run: () => post("/v1/quotas", { ...entityOf(row), delete: Object.keys(row.values) }),
  });
  if (isDone) toast("The quota is deleted");
  quotas.reload();
}

/** A new one, or other values for one that there is. Names that are left empty stand for all that have none of their own. */
export function quotaDialog(quotas, row = null) {
  const given = { kind: "user", user: "", clientId: "", ip: "", ...row?.values };
  const isOfAddress = () => (row === null ? given.kind === "ip" : "ip" in row);
  const save = async () => {
    await post("/v1/quotas", {
      ...(row === null ? newEntity(given) : entityOf(row)),
      ...changes(given, row, isOfAddress()),
    });
    toast("The quota is set");
    quotas.reload();
  };
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(save)) },
      row === null ? entityFields(given, dialog) : h("p", null, `For ${named(row)}.`),
      h(
        "div",
        { class: "fields" },
        Object.entries(isOfAddress() ? OF_ADDRESSES : OF_CLIENTS).map(([name, text]) =>
          field(text, input(given, name, { type: "number", min: 0, step: "any", placeholder: "no limit" })),
        ),
      ),
      formEnd(dialog, row === null ? "Add" : "Save"),
    );
  openDialog({ title: row === null ? "Add a quota" : "Change a quota", draw, isWide: true });
}

function entityFields(given, dialog) {
  const kinds = [
    ["user", "a user"],
    ["clientId", "a client"],
    ["both", "a client of a user"],
    ["ip", "an address"],
  ];
  const has = (kind) => given.kind === kind || (given.kind === "both" && kind !== "ip");
  return h(
    "div",
    { class: "fields" },
    field("For", select(given, "kind", kinds, dialog.redraw, { "data-first": true })),
    has("user") ? field("User", input(given, "user"), { hint: "empty: the default" }) : null,
    has("clientId") ? field("Client id", input(given, "clientId"), { hint: "empty: the default" }) : null,
    has("ip") ? field("Address", input(given, "ip"), { hint: "empty: the default" }) : null,
  );
}

function newEntity({ kind, ...names }) {
  const kinds = kind === "both" ? ["user", "clientId"] : [kind];
  return Object.fromEntries(kinds.map((each) => [each, names[each].trim() || null]));
}

/** What was emptied is deleted. */
function changes(given, row, isOfAddress) {
  const names = Object.keys(isOfAddress ? OF_ADDRESSES : OF_CLIENTS);
  const isGiven = (name) => String(given[name] ?? "") !== "";
  const gone = names.filter((name) => !isGiven(name) && row !== null && name in row.values);
  return { set: Object.fromEntries(names.filter(isGiven).map((name) => [name, Number(given[name])])), delete: gone };
}
