/** A group: its members, how far behind they are, now and over time; and offsets put elsewhere. */

import { del, get, path, post } from "../api.js";
import { confirm, openDialog } from "../components/dialog.js";
import "../components/line-chart.js";
import {
  badge,
  button,
  card,
  field,
  figures,
  flushCard,
  formEnd,
  head,
  input,
  link,
  meter,
  select,
  topicLink,
} from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { numbers, table, tableState } from "../components/table.js";
import { toast } from "../components/toast.js";
import { fromInput, number, plural, short, toInput } from "../format.js";
import { go } from "../router.js";
import { lengthOf, sampled, samplesOf } from "../samples.js";
import { h } from "../vdom.js";
import { groupTone } from "./groups.js";

const SPAN = 10 * 60_000;
const MOST_LINES = 3; // topics that have a line of their own

export default function group(page) {
  const name = page.params.group;
  page.title = `Group ${name}`;
  const samples = samplesOf(`group ${name}`); // [ms, {topic: lag}]
  const found = page.resource(
    async (signal) => {
      const told = await get(path`/v1/groups/${name}`, null, { signal });
      sampled(samples, lags(told), SPAN);
      return told;
    },
    { every: 2000 },
  );
  const offsets = tableState("topic");
  const members = tableState("clientId");

  const actions = () => [
    link("Settings", ["groups", name, "settings"], {}, { class: "button" }),
    button("Reset offsets", () => reset(name, found)),
    button("Delete", () => remove(name), { tone: "danger" }),
  ];
  return () => [
    head({
      trail: [["Groups", ["groups"]]],
      title: name,
      badges: found.data
        ? [
            badge(found.data.type, found.data.type === "share" ? "violet" : ""),
            badge(found.data.state, groupTone(found.data.state)),
          ]
        : [],
      actions: found.data ? actions() : [],
    }),
    show(
      found,
      (told) => [
        totals(told),
        card(
          ["Lag", h("small", null, " while this page is open")],
          h("line-chart", { label: "Lag", format: short, span: lengthOf(samples), series: lines(samples) }),
        ),
        flushCard("Offsets", offsetsTable(page, offsets, told)),
        flushCard("Members", membersTable(page, members, told)),
      ],
      8,
    ),
  ];
}

const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);

function lags(told) {
  const found = {};
  for (const { topic, lag } of told.offsets) found[topic] = (found[topic] ?? 0) + (lag ?? 0);
  return found;
}

function lines(samples) {
  const newest = samples.at(-1)?.[1] ?? {};
  const topics = Object.keys(newest).sort((one, other) => newest[other] - newest[one]);
  const total = { name: "all", points: samples.map(([at, each]) => [at, sum(Object.values(each))]) };
  if (topics.length < 2) return [total];
  return [
    total,
    ...topics
      .slice(0, MOST_LINES)
      .map((topic) => ({ name: topic, points: samples.map(([at, each]) => [at, each[topic] ?? null]) })),
  ];
}

function totals(told) {
  const lag = sum(told.offsets.map((each) => each.lag));
  return figures(
    ["Lag", number(lag), "records", lag > 0 ? "" : "good"],
    ["Members", number(told.members.length)],
    ["Topics", number(new Set(told.offsets.map((each) => each.topic)).size)],
    ["Partitions", number(told.offsets.length)],
    [
      "Coordinator",
      told.coordinator === null || told.coordinator === undefined ? "–" : `broker ${told.coordinator}`,
      told.protocol || null,
    ],
    told.type === "share" ? ["As a queue", link("depth and letters", ["queues"])] : null,
  );
}

function offsetsTable(page, state, told) {
  if (told.offsets.length === 0) return empty("No offsets", "The group has no committed offsets.");
  const most = Math.max(1, ...told.offsets.map((each) => each.lag ?? 0));
  const columns = [
    { name: "topic", label: "Topic", class: "name", value: (row) => row.topic, cell: (row) => topicLink(row.topic) },
    {
      name: "partition",
      label: "Partition",
      isNumber: true,
      value: (row) => row.partition,
      cell: (row) => row.partition,
    },
    {
      name: "committed",
      label: told.type === "share" ? "Start" : "Committed",
      isNumber: true,
      value: (row) => row.committed,
      cell: (row) =>
        row.committed === null || row.committed < 0
          ? "–"
          : link(number(row.committed), ["topics", row.topic, "messages"], {
              partition: row.partition,
              offset: row.committed,
            }),
    },
    numbers("endOffset", "End", { isWide: true }),
    {
      name: "bar",
      label: "",
      isWide: true,
      class: "share",
      cell: (row) => meter(row.lag ?? 0, most, { tone: "warn" }),
    },
    numbers("lag", "Lag"),
    { name: "metadata", label: "Metadata", isWide: true, cell: (row) => row.metadata ?? "" },
  ];
  return table({
    page,
    state,
    label: "Offsets",
    columns,
    rows: told.offsets,
    key: (row) => `${row.topic}-${row.partition}`,
  });
}

function membersTable(page, state, told) {
  if (told.members.length === 0) return empty("No members", "The group has no members at the moment.");
  const columns = [
    {
      name: "clientId",
      label: "Client",
      class: "name",
      value: (row) => row.clientId,
      cell: (row) => row.clientId || "–",
    },
    {
      name: "member",
      label: "Member",
      class: "clip mono",
      isWide: true,
      value: (row) => row.memberId,
      cell: (row) => h("span", { title: row.memberId }, row.instanceId || row.memberId),
    },
    { name: "host", label: "Host", isWide: true, value: (row) => row.host, cell: (row) => row.host },
    { name: "assigned", label: "Partitions", cell: (row) => assigned(row.assignments ?? []) },
  ];
  return table({ page, state, label: "Members", columns, rows: told.members, key: (row) => row.memberId });
}

function assigned(assignments) {
  if (assignments.length === 0) return h("span", { class: "muted" }, "none");
  return assignments.map(({ topic, partitions }) => h("div", null, topicLink(topic), ` ${ranges(partitions)}`));
}

/** 0–3, 5 */
function ranges(numbers) {
  const sorted = [...numbers].sort((one, other) => one - other);
  const found = [];
  for (const each of sorted) {
    const last = found.at(-1);
    if (last && last[1] === each - 1) last[1] = each;
    else found.push([each, each]);
  }
  return found.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(", ");
}

// -- changing --------------------------------------------------------------------------------------------------------
function reset(name, found) {
  const topics = [...new Set(found.data.offsets.map((each) => each.topic))];
  const given = {
    topic: "",
    partitions: "",
    how: "earliest",
    offset: "",
    time: toInput(Date.now() - 3_600_000),
    shift: "",
    plan: null,
  };
  const ask = (dryRun) => post(path`/v1/groups/${name}/reset`, resetBody(given, dryRun));
  const preview = async (dialog) => {
    Object.assign(dialog, { problem: null });
    given.plan = await ask(true).then(
      (told) => told.offsets,
      (problem) => ((dialog.problem = problem), null),
    );
    dialog.redraw();
  };
  const changed = (dialog) => () => ((given.plan = null), dialog.redraw());
  const save = async () => {
    const told = await ask(false);
    toast(`${plural(told.offsets.length, "offset")} of ${name} moved`);
    found.reload();
  };
  const ways = [
    ["earliest", "the earliest there is"],
    ["latest", "the latest"],
    ["offset", "an offset"],
    ["time", "a time"],
    ["shift", "so many further or back"],
  ];
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), given.plan === null ? preview(dialog) : dialog.submit(save)) },
      found.data.members.length > 0
        ? h("p", { class: "note" }, "The group has members: its offsets can be reset when they have left.")
        : null,
      h(
        "div",
        { class: "fields" },
        field(
          "Topic",
          select(given, "topic", [["", "all of the group"], ...topics.map((each) => [each, each])], changed(dialog)),
        ),
        field(
          "Partitions",
          input(
            given,
            "partitions",
            { placeholder: "all", pattern: "[0-9, ]*", title: "numbers, separated by commas" },
            changed(dialog),
          ),
        ),
        field("To", select(given, "how", ways, changed(dialog))),
        given.how === "offset"
          ? field("Offset", input(given, "offset", { type: "number", min: 0, required: true }, changed(dialog)))
          : null,
        given.how === "time"
          ? field("Time", input(given, "time", { type: "datetime-local", step: 1, required: true }, changed(dialog)))
          : null,
        given.how === "shift"
          ? field("By", input(given, "shift", { type: "number", required: true }, changed(dialog)), {
              hint: "negative: back",
            })
          : null,
      ),
      given.plan === null ? null : plan(given.plan),
      given.plan === null ? formEnd(dialog, "Preview") : formEnd(dialog, "Reset", { tone: "danger" }),
    );
  openDialog({ title: `Reset offsets of ${name}`, draw, isWide: true });
}

function resetBody(given, dryRun) {
  const to = {
    earliest: "earliest",
    latest: "latest",
    offset: { offset: Number(given.offset) },
    time: { time: fromInput(given.time) },
    shift: { shiftBy: Number(given.shift) },
  }[given.how];
  const partitions = given.partitions.split(/[, ]+/).filter(Boolean).map(Number);
  return {
    to,
    dryRun,
    ...(given.topic === "" ? {} : { topic: given.topic }),
    ...(partitions.length === 0 ? {} : { partitions }),
  };
}

function plan(offsets) {
  if (offsets.length === 0) return h("p", { class: "note" }, "Nothing would change.");
  const rows = offsets.map((each) =>
    h(
      "tr",
      null,
      h("td", { class: "name" }, `${each.topic} / ${each.partition}`),
      h("td", { class: "number" }, number(each.from)),
      h("td", { class: "number" }, number(each.to)),
    ),
  );
  return h(
    "div",
    { class: "plan" },
    h(
      "table",
      { "aria-label": "What would change" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", null, "Partition"),
          h("th", { class: "number" }, "From"),
          h("th", { class: "number" }, "To"),
        ),
      ),
      h("tbody", null, rows),
    ),
  );
}

async function remove(name) {
  const isDone = await confirm({
    title: `Delete group ${name}?`,
    text: "Its committed offsets are deleted, too.",
    action: "Delete the group",
    typed: name,
    run: () => del(path`/v1/groups/${name}`),
  });
  if (!isDone) return;
  toast(`${name} is deleted`);
  go(["groups"]);
}
