/** The cluster: its brokers, what they lead, how partitions are replicated, what is on its way. */

import { all, get, path, post } from "../api.js";
import { clusterFigures } from "../components/cluster-figures.js";
import { confirm } from "../components/dialog.js";
import { badge, button, card, checkbox, flushCard, head, meter, search, topicLink } from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { table, tableState } from "../components/table.js";
import { attempt, toast } from "../components/toast.js";
import { number, plural } from "../format.js";
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
    attempt(() => post("/v1/cluster/elect-leaders", {}), "Preferred leaders are elected").then(found.reload);

  return () => [
    head({
      title: "Cluster",
      badges: found.data ? [h("code", { class: "muted" }, found.data.clusterId)] : [],
      actions: [button("Elect preferred leaders", elect)],
    }),
    show(
      found,
      (told) => [clusterFigures(told), flushCard("Brokers", brokersTable(page, brokers, told, found)), balance(told)],
      6,
    ),
    moves.data?.items.length > 0 ? flushCard("On the move", reassignments(page, moves.data.items)) : null,
    flushCard(
      "Partitions by Raft",
      h(
        "div",
        { class: "toolbar" },
        search({
          value: state.search,
          label: "Search partitions",
          oninput: (text) => ((state.search = text), page.redraw()),
        }),
        checkbox(
          "Only those with a follower behind",
          state.isBehind,
          (isBehind) => ((state.isBehind = isBehind), page.redraw()),
        ),
      ),
      show(raft, (items) => raftTable(page, rafts, state, items), 6),
    ),
  ];
}

function brokersTable(page, state, told, found) {
  const columns = [
    {
      name: "id",
      label: "Broker",
      class: "name",
      value: (row) => row.id,
      cell: (row) => [`${row.id} `, row.id === told.controller ? badge("controller", "accent") : null],
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
    { name: "leads", label: "Leads", isNumber: true, value: (row) => row.leads, cell: (row) => number(row.leads) },
    {
      name: "replicas",
      label: "Replicas",
      isNumber: true,
      isWide: true,
      value: (row) => row.replicas,
      cell: (row) => number(row.replicas),
    },
    {
      name: "actions",
      label: "",
      class: "fit",
      isWide: true,
      cell: (row) =>
        told.brokers.length > 1
          ? button("Drain", () => drain(row.id, found), { tone: "small", label: `Drain broker ${row.id}` })
          : null,
    },
  ];
  return table({ page, state, label: "Brokers", columns, rows: told.brokers, key: (row) => row.id });
}

function balance({ brokers }) {
  if (brokers.length < 2) return null;
  const most = Math.max(1, ...brokers.map((each) => each.leads));
  return card(
    "Who leads how much",
    h(
      "div",
      { class: "bars" },
      brokers.map((each) => [
        h("span", null, `broker ${each.id}`),
        meter(each.leads, most, { label: `Broker ${each.id} leads ${plural(each.leads, "partition")}` }),
        h("span", { class: "number" }, number(each.leads)),
      ]),
    ),
  );
}

async function drain(id, found) {
  const isDone = await confirm({
    title: `Drain broker ${id}?`,
    text: "Its partitions get replicas on other brokers, and it leads nothing any more: then it can be taken away.",
    action: "Drain",
    run: () => post(path`/v1/cluster/brokers/${id}/drain`),
  });
  if (isDone) toast(`Broker ${id} is being drained`);
  found.reload();
}

function reassignments(page, items) {
  const columns = [
    { name: "topic", label: "Topic", class: "name", cell: (row) => topicLink(row.topic) },
    { name: "partition", label: "Partition", isNumber: true, cell: (row) => row.partition },
    { name: "replicas", label: "Replicas", cell: (row) => row.replicas.join(", ") },
    { name: "adding", label: "Adding", cell: (row) => row.adding.join(", ") || "–" },
    { name: "removing", label: "Removing", cell: (row) => row.removing.join(", ") || "–" },
  ];
  return table({
    page,
    state: null,
    label: "Reassignments",
    columns,
    rows: items,
    key: (row) => `${row.topic}-${row.partition}`,
  });
}

const lagOf = (row) => Math.max(0, ...row.peers.map((peer) => peer.lag));

function raftTable(page, state, wanted, items) {
  const text = wanted.search.toLowerCase();
  const found = items.filter((row) => row.topic.toLowerCase().includes(text) && (!wanted.isBehind || lagOf(row) > 0));
  if (found.length === 0)
    return empty(
      items.length === 0 ? "No replicated partitions" : "No partition is like that",
      items.length === 0 ? "A broker that stands alone needs no Raft: its log is what it has written." : null,
    );
  const columns = [
    { name: "topic", label: "Topic", class: "name", value: (row) => row.topic, cell: (row) => topicLink(row.topic) },
    { name: "partition", label: "Part.", isNumber: true, value: (row) => row.partition, cell: (row) => row.partition },
    {
      name: "leader",
      label: "Leader",
      value: (row) => row.leader,
      cell: (row) =>
        row.leader === null || row.leader === undefined || row.leader < 0
          ? badge("none", "bad")
          : `broker ${row.leader}`,
    },
    {
      name: "term",
      label: "Term",
      isNumber: true,
      isWide: true,
      value: (row) => row.term,
      cell: (row) => number(row.term),
    },
    {
      name: "commit",
      label: "Committed",
      isNumber: true,
      isWide: true,
      value: (row) => row.commitIndex,
      cell: (row) => number(row.commitIndex),
    },
    {
      name: "last",
      label: "Last",
      isNumber: true,
      isWide: true,
      value: (row) => row.lastIndex,
      cell: (row) => number(row.lastIndex),
    },
    {
      name: "behind",
      label: "Behind",
      isNumber: true,
      value: lagOf,
      cell: (row) => (lagOf(row) > 0 ? badge(number(lagOf(row)), "warn") : "0"),
    },
    {
      name: "peers",
      label: "Followers",
      isWide: true,
      cell: (row) =>
        row.peers
          .filter((peer) => peer.id !== row.leader)
          .map((peer) => `${peer.id}${peer.lag > 0 ? ` (${number(peer.lag)} behind)` : ""}`)
          .join(", ") || "–",
    },
  ];
  return table({ page, state, label: "Raft", columns, rows: found, key: (row) => `${row.topic}-${row.partition}` });
}
