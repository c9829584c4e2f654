/** The letters of one topic: why they are there, and the way back. */

import { get, path, post } from "../api.js";
import { keyOf, preview, valueOf } from "../components/bytes.js";
import { confirm, openDialog } from "../components/dialog.js";
import { messageParts } from "../components/message.js";
import {
  badge,
  button,
  checkbox,
  definitions,
  field,
  flushCard,
  formEnd,
  head,
  input,
  link,
  opener,
  pager,
  search,
} from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { table } from "../components/table.js";
import { toast } from "../components/toast.js";
import { fromInput, moment, number, plural, time } from "../format.js";
import { h } from "../vdom.js";

const PAGE = 100;
const idOf = (row) => `${row.partition}/${row.offset}`;
const placeOf = (origin) => `${origin.topic}/${origin.partition}/${origin.offset}`;

export default function deadLetterTopic(page) {
  const { topic } = page.params;
  page.title = `Dead-letter records in ${topic}`;
  const state = { cause: "", isAll: false, chosen: new Map(), cursors: [null], next: null };
  const address = path`/v1/dead-letters/${topic}/messages`;
  const list = page.resource(
    async (signal) => {
      const told = await get(
        address,
        { limit: PAGE, cursor: state.cursors.at(-1), cause: state.cause, redriven: state.isAll ? null : false },
        { signal },
      );
      state.next = told.nextCursor ?? null;
      return told.items;
    },
    { every: 5000 },
  );
  const again = () => {
    Object.assign(state, { cursors: [null], next: null });
    state.chosen.clear();
    return list.reload();
  };
  const choose = (row, isChosen) => {
    if (isChosen) state.chosen.set(idOf(row), row);
    else state.chosen.delete(idOf(row));
    page.redraw();
  };
  const redriveChosen = () => redrive(topic, [...state.chosen.values()], again);
  page.keys([{ keys: "R", label: "Redrive the selected records", run: () => state.chosen.size > 0 && redriveChosen() }]);

  const draw = (items) =>
    items.length === 0
      ? empty(
          "No dead-letter records",
          state.cause ? "No record has this text in its cause." : state.isAll ? null : "All records were redriven or purged.",
        )
      : table({
          page,
          state: null,
          label: "Dead-letter records",
          columns: columnsOf(state, items, choose, (row) => look(topic, row, again)),
          rows: items,
          key: idOf,
          onopen: (row) => look(topic, row, again),
        });

  return () => [
    head({
      trail: [["Dead letters", ["dead-letters"]]],
      title: topic,
      actions: [
        button(
          state.chosen.size > 0 ? `Redrive ${state.chosen.size}` : "Redrive all",
          () => (state.chosen.size > 0 ? redriveChosen() : redriveAll(topic, state, again)),
          { tone: "primary" },
        ),
        button("Purge", () => purge(topic, again), { tone: "danger" }),
      ],
    }),
    h(
      "form",
      { class: "toolbar", role: "search", onsubmit: (event) => (event.preventDefault(), again()) },
      search({ value: state.cause, label: "Search causes", oninput: (text) => (state.cause = text) }),
      h("button", { type: "submit" }, "Find"),
      checkbox("Include redriven", state.isAll, (isAll) => ((state.isAll = isAll), again())),
    ),
    flushCard(null, show(list, draw, 6)),
    pager(state, list.reload),
  ];
}

function columnsOf(state, items, choose, look) {
  const open = items.filter((row) => !row.isRedriven);
  const isAll = open.length > 0 && open.every((row) => state.chosen.has(idOf(row)));
  const everything = h("input", {
    type: "checkbox",
    "aria-label": "Select all on this page",
    checked: isAll,
    onchange: (event) => open.forEach((row) => choose(row, event.target.checked)),
  });
  return [
    {
      name: "choose",
      label: everything,
      class: "fit",
      cell: (row) =>
        h("input", {
          type: "checkbox",
          "aria-label": `Choose ${idOf(row)}`,
          disabled: Boolean(row.isRedriven),
          checked: state.chosen.has(idOf(row)),
          onchange: (event) => choose(row, event.target.checked),
        }),
    },
    {
      name: "time",
      label: "Since",
      class: "fit",
      isWide: true,
      cell: (row) => h("time", { title: time(row.timestamp) }, moment(row.timestamp)),
    },
    {
      name: "origin",
      label: "From",
      class: "fit",
      cell: (row) => opener(row.origin ? placeOf(row.origin) : "no letter", () => look(row)),
    },
    { name: "cause", label: "Cause", class: "cause-cell", isWide: true, cell: (row) => row.origin?.cause ?? "" },
    { name: "group", label: "Group", class: "fit", isWide: true, cell: (row) => row.origin?.group ?? "" },
    {
      name: "count",
      label: "Deliveries",
      class: "fit",
      isNumber: true,
      isWide: true,
      cell: (row) => number(row.origin?.deliveries),
    },
    {
      name: "value",
      label: "Value",
      class: "clip fill mono",
      cell: (row) => [
        row.isRedriven ? [badge("redriven", "good"), " "] : null,
        row.redrives > 0 ? [badge(`again: ${row.redrives}`, "warn"), " "] : null,
        row.key === null ? "" : `${preview(keyOf(row), 40)} · `,
        preview(valueOf(row)),
      ],
    },
  ];
}

function look(topic, row, again) {
  const draw = (dialog) => [
    h(
      "div",
      { class: "actions" },
      button("Redrive", () => (dialog.close(), redrive(topic, [row], again)), {
        tone: "primary",
        isDisabled: Boolean(row.isRedriven),
      }),
      row.origin
        ? link(
            "Trace",
            ["topics", row.origin.topic, row.origin.partition, row.origin.offset, "trace"],
            {},
            { class: "button", onclick: () => dialog.close() },
          )
        : null,
      row.origin
        ? link(
            "Original record",
            ["topics", row.origin.topic, "messages"],
            { partition: row.origin.partition, offset: row.origin.offset },
            { class: "button", onclick: () => dialog.close() },
          )
        : null,
    ),
    row.origin
      ? definitions([
          ["From", placeOf(row.origin)],
          ["Group", row.origin.group],
          ["Deliveries", number(row.origin.deliveries)],
          ["Redriven before", number(row.redrives)],
          ["Cause", row.origin.cause],
        ])
      : null,
    messageParts(row),
  ];
  openDialog({ title: `${topic} / ${row.partition} / ${row.offset}`, draw, isDrawer: true });
}

const told = (result) =>
  `${plural(result.redriven, "letter")} redriven${result.refused?.length > 0 ? `, ${number(result.refused.length)} refused: ${result.refused[0].reason}` : ""}`;

/** With ACLs one may say so for one topic at a time: the one that they come from. */
async function redriveByOrigin(topic, rows) {
  const result = { redriven: 0, refused: [] };
  for (const [origin, some] of Map.groupBy(rows, (row) => row.origin?.topic)) {
    const offsets = {};
    for (const { partition, offset } of some) (offsets[partition] ??= []).push(offset);
    const told = await post(path`/v1/dead-letters/${topic}/redrive`, { offsets, topic: origin });
    result.redriven += told.redriven;
    result.refused.push(...told.refused);
  }
  return result;
}

async function redrive(topic, rows, again) {
  let result = null;
  const isDone = await confirm({
    title: `Redrive ${plural(rows.length, "letter")}?`,
    text: "They are sent to their original partitions again, as new records. All groups of those topics get them.",
    action: "Redrive",
    isDanger: false,
    run: async () => (result = await redriveByOrigin(topic, rows)),
  });
  if (isDone) toast(told(result));
  again();
}

async function redriveAll(topic, state, again) {
  let result = null;
  const isDone = await confirm({
    title: "Redrive all dead-letter records?",
    text: `All dead-letter records of ${topic}${state.cause ? ` with “${state.cause}” in their cause` : ""} that were not redriven yet are sent to their original partitions again.`,
    action: "Redrive all",
    isDanger: false,
    run: async () =>
      (result = await post(
        path`/v1/dead-letters/${topic}/redrive`,
        state.cause ? { cause: state.cause } : { all: true },
      )),
  });
  if (isDone) toast(told(result));
  again();
}

function purgeBody({ isOnlyRedriven, until }) {
  if (!isOnlyRedriven && !until) return { all: true };
  return { onlyRedriven: isOnlyRedriven, ...(until ? { until: fromInput(until) } : {}) };
}

function purge(topic, again) {
  const given = { isOnlyRedriven: true, until: "" };
  const run = async () => {
    const result = await post(path`/v1/dead-letters/${topic}/purge`, purgeBody(given));
    toast(`${plural(result.purged, "letter")} purged`);
    again();
  };
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(run)) },
      h("p", null, "Dead-letter records are deleted in order from the oldest, up to the first one to keep. This cannot be undone."),
      checkbox(
        "Only redriven records",
        given.isOnlyRedriven,
        (isOnly) => ((given.isOnlyRedriven = isOnly), dialog.redraw()),
      ),
      field("Written before", input(given, "until", { type: "datetime-local", step: 1 }), { hint: "empty: whenever" }),
      formEnd(dialog, "Purge", { tone: "danger" }),
    );
  openDialog({ title: `Purge ${topic}`, draw });
}
