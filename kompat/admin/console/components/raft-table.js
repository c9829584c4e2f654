/** Raft's numbers, partition by partition. */

import { number } from "../format.js";
import { badge, button, topicLink } from "./parts.js";
import { empty } from "./states.js";
import { numbers, table } from "./table.js";

const METADATA = "__cluster_metadata"; // its replicas are the brokers

const lagOf = (row) => Math.max(0, ...row.peers.map((peer) => peer.lag));

/** `wanted`: what is searched for; `onmove(row)`: where a partition can be moved. */
export function raftTable(page, state, wanted, items, onmove) {
  const text = wanted.search.toLowerCase();
  const found = items.filter((row) => row.topic.toLowerCase().includes(text) && (!wanted.isBehind || lagOf(row) > 0));
  if (found.length === 0)
    return empty(
      items.length === 0 ? "No replicated partitions" : "No matching partitions",
      items.length === 0 ? "A single broker does not replicate its partitions." : null,
    );
  const columns = [
    {
      name: "topic",
      label: "Topic",
      class: "name broad",
      value: (row) => row.topic,
      cell: (row) => topicLink(row.topic),
    },
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
    numbers("term", "Term", { isWide: true }),
    numbers("commitIndex", "Committed", { isWide: true }),
    numbers("lastIndex", "Last", { isWide: true }),
    {
      name: "behind",
      label: "Lag",
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
  if (onmove)
    columns.push({
      name: "move",
      label: "",
      class: "fit",
      isWide: true,
      cell: (row) =>
        row.topic === METADATA
          ? null
          : button("Move", () => onmove(row), { tone: "small", label: `Move ${row.topic} ${row.partition}` }),
    });
  return table({ page, state, label: "Raft", columns, rows: found, key: (row) => `${row.topic}-${row.partition}` });
}
