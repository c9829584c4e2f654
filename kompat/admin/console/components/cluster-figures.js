/** The cluster in a row of figures. */

import { due, number, plural } from "../format.js";
import { figures } from "./parts.js";

const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);

export function clusterFigures(cluster, { waiting = null, letters = null, connections = null, isOfAll = false } = {}) {
  const { brokers } = cluster;
  const alive = brokers.filter((each) => each.isAlive).length;
  const open = letters === null ? null : sum(letters.map((each) => each.records - each.redriven));
  return figures(
    [
      "Brokers",
      `${alive} of ${brokers.length}`,
      `controller is ${cluster.controller ?? "none"}`,
      alive < brokers.length ? "bad" : "",
    ],
    [
      "Partitions led",
      number(sum(brokers.map((each) => each.leads))),
      cluster.offline > 0 ? `${number(cluster.offline)} offline` : "all of them",
      cluster.offline > 0 ? "bad" : "",
    ],
    [
      "Under-replicated",
      number(cluster.underReplicated),
      `of ${plural(sum(brokers.map((each) => each.replicas)), "replica")}`,
      cluster.underReplicated > 0 ? "bad" : "",
    ],
    cluster.inDoubt > 0
      ? ["In doubt", number(cluster.inDoubt), "replicas that do not vote until they have caught up", "bad"]
      : null,
    connections === null ? null : ["Connections", number(connections), isOfAll ? "of all brokers" : "of this broker"],
    waiting === null
      ? null
      : [
          "Delayed",
          number(waiting.waiting),
          waiting.nextDueTimestamp ? `next ${due(waiting.nextDueTimestamp)}` : "nothing is due",
        ],
    open === null ? null : ["Dead letters", number(open), "not redriven", open > 0 ? "warn" : ""],
  );
}
