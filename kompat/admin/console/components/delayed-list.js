/** Records that wait for their time: when they come, what they are, and how to call them off or put them off. */

import { del, get, patch, path } from "../api.js";
import { due, fromInput, moment, time, toInput } from "../format.js";
import { h } from "../vdom.js";
import "./bar-chart.js";
import { keyOf, preview, valueOf } from "./bytes.js";
import { confirm, openDialog } from "./dialog.js";
import { messageParts } from "./message.js";
import { badge, button, card, field, flushCard, formEnd, input, opener, pager, select } from "./parts.js";
import { empty, show } from "./states.js";
import { table } from "./table.js";
import { toast } from "./toast.js";

const HORIZONS = [
  ["300000", "5 minutes"],
  ["3600000", "1 hour"],
  ["86400000", "1 day"],
  ["604800000", "7 days"],
];
const BARS = 60;
const PAGE = 100;

/** `topic()` may change; null: none yet. Gives `draw` and `reload`. */
export function delayedList(page, topic) {
  const state = { horizon: "3600000", cursors: [null], next: null, range: null };
  const timeline = page.resource((signal) => loadTimeline(topic(), state, signal), { every: 5000 });
  const list = page.resource((signal) => loadList(topic(), state, signal), { every: 5000 });
  page.every(1000, page.redraw); // the times that are left

  const reload = () => Promise.all([timeline.reload(), list.reload()]);
  const again = () => {
    Object.assign(state, { cursors: [null], next: null });
    return reload();
  };
  const pick = (range) => {
    state.range = range;
    again();
  };
  return {
    reload: again,
    draw: () => [
      card(null, chart(page, state, timeline, pick, again)),
      rows({ page, topic, state, list, reload, pick }),
    ],
  };
}

async function loadTimeline(topic, state, signal) {
  if (topic === null) return [];
  const to = Date.now() + Number(state.horizon);
  const told = await get(path`/v1/topics/${topic}/delayed/timeline`, { buckets: BARS, to }, { signal });
  return told.items;
}

async function loadList(topic, state, signal) {
  if (topic === null) return [];
  const told = await get(
    path`/v1/topics/${topic}/delayed`,
    { limit: PAGE, cursor: state.cursors.at(-1), from: state.range?.from, to: state.range?.to },
    { signal },
  );
  state.next = told.nextCursor ?? null;
  return told.items;
}

function chart(page, state, timeline, pick, again) {
  const label = "Delayed records by due time";
  return [
    h(
      "div",
      { class: "toolbar" },
      h("h2", { class: "grow" }, label),
      select(state, "horizon", HORIZONS, () => ((state.range = null), again()), { "aria-label": "Time range" }),
    ),
    show(timeline, (bars) => h("bar-chart", { label, noun: "record", onpick: pick, bars }), 3),
  ];
}

function rows({ page, topic, state, list, reload, pick }) {
  const name = topic();
  const change = { topic: name, reload };
  const columns = [
    {
      name: "due",
      label: "Due",
      class: "fit",
      cell: (row) => opener(due(row.dueTimestamp), () => look(row, name), { title: time(row.dueTimestamp) }),
    },
    { name: "at", label: "At", isWide: true, class: "fit", cell: (row) => moment(row.dueTimestamp) },
    { name: "slot", label: "Offset", isWide: true, class: "fit", cell: (row) => `${row.partition}/${row.offset}` },
    {
      name: "key",
      label: "Key",
      isWide: true,
      class: "clip key-cell mono",
      cell: (row) => (row.key === null ? "–" : preview(keyOf(row), 80)),
    },
    {
      name: "value",
      label: "Value",
      class: "clip fill mono",
      cell: (row) => [
        preview(valueOf(row)),
        " ",
        row.scheduleId ? badge(row.scheduleId, "violet") : null,
        row.state && row.state !== "waiting" ? badge(row.state, "warn") : null,
      ],
    },
    {
      name: "actions",
      label: "",
      class: "fit",
      cell: (row) =>
        h(
          "span",
          { class: "row-actions" },
          button("Move", () => reschedule(row, change), {
            tone: "small",
            label: `Reschedule ${row.partition}/${row.offset}`,
          }),
          button("Cancel", () => cancel(row, change), {
            tone: "small danger",
            label: `Cancel ${row.partition}/${row.offset}`,
          }),
        ),
    },
  ];
  const draw = (items) => {
    if (items.length === 0 && state.cursors.length === 1)
      return empty(
        "No delayed records",
        state.range
          ? "No record is due in this time range."
          : "Records with a kompat-delay-ms or kompat-deliver-at header are listed here until they are due.",
      );
    return table({
      page,
      state: null,
      label: "Delayed records",
      columns,
      rows: items,
      key: (row) => `${row.partition}-${row.offset}`,
      onopen: (row) => look(row, name),
    });
  };
  return [
    state.range
      ? h(
          "div",
          { class: "toolbar" },
          badge(`${moment(state.range.from)} to ${moment(state.range.to)}`, "accent"),
          button("Show all", () => pick(null), { tone: "small" }),
        )
      : null,
    flushCard(null, show(list, draw, 6)),
    pager(state, list.reload),
  ];
}

function look(row, topic) {
  openDialog({
    title: `${topic} / ${row.partition} / ${row.offset}, due ${due(row.dueTimestamp)}`,
    isDrawer: true,
    draw: () => messageParts({ ...row, timestamp: row.timestamp ?? row.dueTimestamp }),
  });
}

async function cancel(row, { topic, reload }) {
  const isDone = await confirm({
    title: "Cancel this record?",
    text: `The record is due ${due(row.dueTimestamp)} and will not be delivered. Its offset ${row.partition}/${row.offset} stays empty.`,
    action: "Cancel the record",
    run: () => del(path`/v1/topics/${topic}/delayed/${row.partition}/${row.offset}`),
  });
  if (isDone) toast(`${row.partition}/${row.offset} is cancelled`);
  reload();
}

function reschedule(row, { topic, reload }) {
  const given = { how: "at", at: toInput(row.dueTimestamp), delay: "" };
  const save = async () => {
    const change =
      given.how === "at" ? { deliverAt: new Date(fromInput(given.at)).toISOString() } : { delay: given.delay.trim() };
    await patch(path`/v1/topics/${topic}/delayed/${row.partition}/${row.offset}`, change);
    toast(`${row.partition}/${row.offset} is rescheduled`);
    reload();
  };
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(save)) },
      h("p", { class: "muted" }, `It is due ${due(row.dueTimestamp)}, at ${time(row.dueTimestamp)}.`),
      field(
        "Deliver",
        select(
          given,
          "how",
          [
            ["at", "at a time"],
            ["delay", "after a delay, from now"],
          ],
          dialog.redraw,
        ),
      ),
      given.how === "at"
        ? field("Time", input(given, "at", { type: "datetime-local", step: 1, required: true }))
        : field("Delay", input(given, "delay", { placeholder: "30s, 1m30s, 2h", required: true })),
      formEnd(dialog, "Move"),
    );
  openDialog({ title: `Move ${row.partition}/${row.offset}`, draw });
}
