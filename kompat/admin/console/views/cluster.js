/** The cluster: its brokers, what they lead, how partitions are replicated, what is on its way. */

import { all, get, path, post } from "../api.js";
import { clusterFigures } from "../components/cluster-figures.js";
import { accepted, cancelMove, moveDialog } from "../components/move.js";
import { badge, bars, button, card, checkbox, flushCard, head, link, search, topicLink } from "../components/parts.js";
import { raftTable } from "../components/raft-table.js";
import { show } from "../components/states.js";
import { numbers, table, tableState } from "../components/table.js";
import { attempt } from "../components/toast.js";
import { plural } from "../format.js";
import { go } from "../router.js";
import { h } from "../vdom.js";

export default function cluster(page) {
  page.title = "Cluster";
  const state = { search: "", isBehind: false };
  const brokers = tableState("id");
  const rafts = tableState("topic");
  const found = page.resource((signal) => get("/v1/cluster", null, { signal }), { every: 3000 });
  const raft = page.resource((signal) => all("/v1/cluster/raft", { limit: 1000 }, { signal, most: 5000 }), {
    every: 10_000,
  });
  const moves = page.resource((signal) => get("/v1/cluster/reassignments", null, { signal }), { every: 5000 });
  const elect = () =>
    attempt(
      () => post("/v1/cluster/elect-leaders", {}).then(accepted),
      (count) => (count === 0 ? "All leaders are the preferred ones" : `${plural(count, "leader")} elected`),
    ).then(found.reload);
  const move = async ({ topic, partition, leader }) => {
    const told = await attempt(() => get(path`/v1/topics/${topic}`));
    if (told === null) return;
    const { replicas } = told.partitions.find((each) => each.partition === partition);
    moveDialog({ topic, partition, leader, replicas }, found.data.brokers, moves.reload);
  };

  return () => [
    head({
      title: "Cluster",
      badges: found.data ? [h("code", { class: "muted" }, found.data.clusterId)] : [],
      actions: found.data?.brokers.length > 1 ? [button("Elect preferred leaders", elect)] : [],
    }),
    show(
      found,
      (told) => [clusterFigures(told), flushCard("Brokers", brokersTable(page, brokers, told)), balance(told)],
      6,
    ),
    moves.data?.items.length > 0 ? flushCard("Reassignments in progress", reassignments(page, moves)) : null,
    flushCard(
      "Raft state of partitions",
      h(
        "div",
        { class: "toolbar" },
        search({
          value: state.search,
          label: "Search partitions",
          oninput: (text) => ((state.search = text), page.redraw()),
        }),
        checkbox(
          "Only partitions with a lagging follower",
          state.isBehind,
          (isBehind) => ((state.isBehind = isBehind), page.redraw()),
        ),
      ),
      show(raft, (items) => raftTable(page, rafts, state, items, found.data?.brokers.length > 1 ? move : null), 6),
    ),
  ];
}

function brokersTable(page, state, told) {
  const columns = [
    {
      name: "id",
      label: "Broker",
      class: "name",
      value: (row) => row.id,
      cell: (row) => [
        link(`broker ${row.id}`, ["cluster", row.id]),
        " ",
        row.id === told.controller ? badge("controller", "accent") : null,
      ],
    },
    {
      name: "address",
      label: "Address",
      class: "mono",
      isWide: true,
      value: (row) => row.host,
      cell: (row) => `${row.host}:${row.port}`,
    },
    { name: "rack", label: "Rack", isWide: true, cell: (row) => row.rack ?? "–" },
    {
      name: "state",
      label: "State",
      value: (row) => row.state,
      cell: (row) => badge(row.state, { up: "good", draining: "warn" }[row.state] ?? "bad"),
    },
    numbers("leads", "Leads"),
    numbers("replicas", "Replicas", { isWide: true }),
  ];
  return table({
    page,
    state,
    label: "Brokers",
    columns,
    rows: told.brokers,
    key: (row) => row.id,
    onopen: (row) => go(["cluster", row.id]),
  });
}

function balance({ brokers }) {
  if (brokers.length < 2) return null;
  const told = ({ id, leads }) => [`broker ${id}`, leads, `Broker ${id} leads ${plural(leads, "partition")}`];
  return card("Leaders by broker", bars(brokers.map(told)));
}

function reassignments(page, moves) {
  const columns = [
    { name: "topic", label: "Topic", class: "name", cell: (row) => topicLink(row.topic) },
    { name: "partition", label: "Partition", isNumber: true, cell: (row) => row.partition },
    { name: "replicas", label: "Replicas", cell: (row) => row.replicas.join(", ") },
    { name: "adding", label: "Adding", cell: (row) => row.adding.join(", ") || "–" },
    { name: "removing", label: "Removing", cell: (row) => row.removing.join(", ") || "–" },
    {
      name: "cancel",
      label: "",
      class: "fit",
      cell: (row) =>
        button("Cancel", () => cancelMove(row).then(moves.reload), {
          tone: "small",
          label: `Cancel the reassignment of ${row.topic} ${row.partition}`,
        }),
    },
  ];
  return table({
    page,
    state: null,
    label: "Reassignments",
    columns,
    rows: moves.data.items,
    key: (row) => `${row.topic}-${row.partition}`,
  });
}
