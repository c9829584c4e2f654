/** A topic: its partitions, who leads them, how much they hold; more of them, fewer records, or none of it. */

import { del, get, path, post } from "../api.js";
import { confirm, openDialog } from "../components/dialog.js";
import { moveDialog } from "../components/move.js";
import { badge, button, field, figures, flushCard, formEnd, input, link, meter } from "../components/parts.js";
import { show } from "../components/states.js";
import { numbers, table, tableState } from "../components/table.js";
import { topicHead } from "../components/topic-head.js";
import { toast } from "../components/toast.js";
import { bytes, number, plural } from "../format.js";
import { go } from "../router.js";
import { h } from "../vdom.js";

export default function topic(page) {
  const name = page.params.topic;
  page.title = name;
  const found = page.resource((signal) => get(path`/v1/topics/${name}`, null, { signal }), { every: 5000 });
  const rows = tableState("partition");
  const cluster = page.resource((signal) => get("/v1/cluster", null, { signal }));
  const move = (row) =>
    moveDialog(
      { topic: name, partition: row.partition, leader: row.leader, replicas: row.replicas },
      cluster.data.brokers,
      found.reload,
    );
  const canMove = () => cluster.data?.brokers.length > 1;
  page.keys([
    { keys: "m", label: "Messages of this topic", run: () => go(["topics", name, "messages"]) },
    { keys: "p", label: "Produce to this topic", run: () => go(["topics", name, "produce"]) },
  ]);

  const actions = () => [
    button("Add partitions", () => grow(name, found)),
    button("Delete records", () => truncate(name, found)),
    button("Delete", () => remove(name), { tone: "danger" }),
  ];

  return () => [
    topicHead(name, "", { badges: found.data ? marks(found.data) : [], actions: found.data ? actions() : [] }),
    show(found, (told) => [totals(told), flushCard(null, partitions(page, rows, told, canMove() ? move : null))], 6),
  ];
}

function marks({ internal, configs }) {
  const own = configs ?? {};
  return [
    internal ? badge("internal") : null,
    own["kompat.queue.source"] ? badge(`queue of ${own["kompat.queue.source"]}`, "violet") : null,
    own["kompat.delivery.order"] === "priority" ? badge("by priority", "accent") : null,
    (own["cleanup.policy"] ?? "").includes("compact") ? badge("compacted") : null,
  ].filter(Boolean);
}

const recordsOf = (each) =>
  each.endOffset === null || each.startOffset === null ? null : each.endOffset - each.startOffset;
const isBehind = (each) => each.inSync.length < each.replicas.length;
const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);

function totals({ partitions }) {
  const behind = partitions.filter(isBehind).length;
  return figures(
    ["Partitions", number(partitions.length)],
    ["Offsets", number(sum(partitions.map(recordsOf))), "from start to end"],
    ["Size", bytes(sum(partitions.map((each) => each.bytes)))],
    ["Replicas", number(Math.max(0, ...partitions.map((each) => each.replicas.length)))],
    ["Under-replicated", number(behind), null, behind > 0 ? "bad" : ""],
  );
}

function partitions(page, rows, told, onmove) {
  const most = Math.max(1, ...told.partitions.map((each) => recordsOf(each) ?? 0));
  const columns = [
    {
      name: "partition",
      label: "Partition",
      value: (row) => row.partition,
      cell: (row) => link(row.partition, ["topics", told.name, "messages"], { partition: row.partition }),
    },
    {
      name: "leader",
      label: "Leader",
      value: (row) => row.leader,
      cell: (row) => (row.leader === null || row.leader < 0 ? badge("none", "bad") : `broker ${row.leader}`),
    },
    { name: "epoch", label: "Epoch", isNumber: true, isWide: true, cell: (row) => number(row.leaderEpoch) },
    { name: "replicas", label: "Replicas", isWide: true, cell: (row) => row.replicas.join(", ") },
    {
      name: "sync",
      label: "In sync",
      cell: (row) => (isBehind(row) ? badge(row.inSync.join(", ") || "none", "bad") : row.inSync.join(", ")),
    },
    numbers("startOffset", "Start", { isWide: true }),
    numbers("endOffset", "End"),
    { name: "share", label: "", class: "share", isWide: true, cell: (row) => meter(recordsOf(row) ?? 0, most) },
    numbers("bytes", "Size", { isWide: true, format: bytes }),
  ];
  if (onmove)
    columns.push({
      name: "move",
      label: "",
      class: "fit",
      cell: (row) => button("Move", () => onmove(row), { tone: "small", label: `Move partition ${row.partition}` }),
    });
  return table({ page, state: rows, label: "Partitions", columns, rows: told.partitions, key: (row) => row.partition });
}

function grow(name, found) {
  const count = found.data.partitions.length;
  const given = { count: String(count + 1) };
  const send = async () => {
    await post(path`/v1/topics/${name}/partitions`, { count: Number(given.count) });
    toast(`${name} has ${plural(Number(given.count), "partition")}`);
    found.reload();
  };
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(send)) },
      h("p", null, "Keys are mapped to other partitions afterwards. This cannot be undone."),
      field("Partitions", input(given, "count", { type: "number", min: count + 1, required: true })),
      formEnd(dialog, "Add"),
    );
  openDialog({ title: `Add partitions to ${name}`, draw });
}

function truncate(name, found) {
  const given = { partition: "0", offset: "" };
  const send = async () => {
    await post(path`/v1/topics/${name}/truncate`, { offsets: { [given.partition]: Number(given.offset) } });
    toast(`The records before ${given.offset} are deleted`);
    found.reload();
  };
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(send)) },
      h("p", null, "All records of a partition before an offset are deleted. This cannot be undone."),
      h(
        "div",
        { class: "fields" },
        field(
          "Partition",
          input(given, "partition", { type: "number", min: 0, max: found.data.partitions.length - 1, required: true }),
        ),
        field("Before offset", input(given, "offset", { type: "number", min: -1, required: true }), {
          hint: "−1: all records",
        }),
      ),
      formEnd(dialog, "Delete records", { tone: "danger" }),
    );
  openDialog({ title: `Delete records of ${name}`, draw });
}

async function remove(name) {
  const isDone = await confirm({
    title: `Delete ${name}?`,
    text: "All of its records are deleted, including delayed records and redrive marks. This cannot be undone.",
    action: "Delete the topic",
    typed: name,
    run: () => del(path`/v1/topics/${name}`),
  });
  if (!isDone) return;
  toast(`${name} is deleted`);
  go(["topics"]);
}
