/** A broker: what it has, whether it is to go, and its settings. */

import { get } from "../api.js";
import { brokerActions, stuckText } from "../components/drain.js";
import { badge, figures, head } from "../components/parts.js";
import { settingsPage } from "../components/settings.js";
import { empty, problemBox, show } from "../components/states.js";
import { number } from "../format.js";

const TONES = { up: "good", draining: "warn", down: "bad" };

export default function broker(page) {
  const id = Number(page.params.broker);
  page.title = `Broker ${id}`;
  const cluster = page.resource((signal) => get("/v1/cluster", null, { signal }), { every: 3000 });
  const itself = () => cluster.data?.brokers.find((each) => each.id === id);

  const stuck = () => {
    const detail = itself() ? stuckText(itself()) : null;
    return detail === null ? null : problemBox({ title: "The drain cannot be completed", detail });
  };
  const about = ({ brokers }) => {
    const told = itself();
    if (!told) return empty(`Broker ${id} does not exist`, `The brokers are ${brokers.map((each) => each.id).join(", ")}.`);
    return figures(
      ["Leads", number(told.leads), "partitions"],
      ["Replicas", number(told.replicas)],
      ["Kafka", `:${told.port}`, told.host],
      told.http ? ["REST", `:${told.http.split(":").at(-1)}`, told.http.replace(/:\d+$/, "")] : ["REST", "–"],
      ["Rack", told.rack ?? "–"],
      ["Version", told.version ?? "–"],
    );
  };
  return settingsPage({
    page,
    address: "/v1/cluster/configs",
    query: { broker: id },
    scopes: [
      [{ broker: id }, `broker ${id}`],
      [{}, "all brokers"],
    ],
    above: () => [
      head({
        trail: [["Cluster", ["cluster"]]],
        title: `Broker ${id}`,
        badges: itself() ? marks(itself()) : [],
        actions: itself() ? brokerActions(itself(), cluster.data.brokers, cluster.reload) : [],
      }),
      stuck(),
      show(cluster, about, 2),
    ],
  });
}

const marks = ({ state, isController }) => [
  badge(state, TONES[state]),
  isController ? badge("controller", "accent") : null,
];
