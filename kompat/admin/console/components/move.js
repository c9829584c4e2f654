/** A partition's replicas put on other brokers, or its lead given back to whom it belongs. */

import { post } from "../api.js";
import { plural } from "../format.js";
import { h } from "../vdom.js";
import { openDialog } from "./dialog.js";
import { badge, button, checkbox, field, formEnd, select } from "./parts.js";
import { attempt, toast } from "./toast.js";

/** Kafka answers for each partition by itself: the first that was refused is the problem. */
export function accepted({ results }) {
  const refused = results.find((each) => !each.ok && each.error !== "ELECTION_NOT_NEEDED");
  if (!refused) return results.length;
  throw Object.assign(new Error(refused.reason ?? refused.error), {
    title: `The reassignment of ${refused.topic} ${refused.partition} was rejected`,
    detail: refused.reason ?? refused.error,
    code: refused.error,
  });
}

const reassign = (topic, partition, replicas) =>
  post("/v1/cluster/reassignments", { assignments: [{ topic, partition, replicas }] }).then(accepted);

export const cancelMove = ({ topic, partition }) =>
  attempt(() => reassign(topic, partition, null), `The reassignment of ${topic} ${partition} is cancelled`);

const elect = ({ topic, partition }) =>
  post("/v1/cluster/elect-leaders", { partitions: [{ topic, partition }] }).then(accepted);

/** `place`: {topic, partition, leader, replicas}, the replicas in their order; `brokers` as /v1/cluster tells them. */
export function moveDialog(place, brokers, done) {
  const { topic, partition, replicas } = place;
  const given = { chosen: new Set(replicas), first: String(replicas[0]) };
  const choose = (dialog, id, isChosen) => {
    if (isChosen) given.chosen.add(id);
    else given.chosen.delete(id);
    if (!given.chosen.has(Number(given.first))) given.first = String([...given.chosen][0] ?? "");
    dialog.redraw();
  };
  const wanted = () => {
    const kept = replicas.filter((id) => given.chosen.has(id)); // in their order
    return [...new Set([Number(given.first), ...kept, ...given.chosen])];
  };
  const move = async () => {
    await reassign(topic, partition, wanted());
    toast(`${topic} ${partition} is being reassigned to ${wanted().join(", ")}`);
    done();
  };
  const electNow = async () => {
    await elect(place);
    toast(`Broker ${replicas[0]} is elected leader of ${topic} ${partition}`);
    done();
  };
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(move)) },
      h("p", { class: "muted" }, "New replicas catch up before the old ones are removed. Clients are not interrupted."),
      h(
        "fieldset",
        null,
        h("legend", null, "Replicas on"),
        brokers.map((each) => brokerBox(each, given.chosen.has(each.id), (isOn) => choose(dialog, each.id, isOn))),
      ),
      field(
        "Preferred leader",
        select(
          given,
          "first",
          [...given.chosen].map((id) => [String(id), `broker ${id}`]),
          dialog.redraw,
        ),
      ),
      h("p", { role: "status" }, change(replicas, given.chosen)),
      formEnd(dialog, "Move", {
        before:
          place.leader === replicas[0]
            ? null
            : button(`Elect broker ${replicas[0]}`, () => dialog.submit(electNow)),
        isDisabled: given.chosen.size === 0 || String(wanted()) === String(replicas),
      }),
    );
  openDialog({ title: `Move ${topic} ${partition}`, draw });
}

function brokerBox({ id, host, port, rack, state }, isChosen, onchange) {
  const label = [`broker ${id} `, h("span", { class: "muted" }, `${host}:${port}${rack ? `, ${rack}` : ""} `)];
  if (state !== "up") label.push(badge(state, state === "draining" ? "warn" : "bad"));
  return checkbox(label, isChosen, onchange, { "aria-label": `Replica on broker ${id}` });
}

function change(before, chosen) {
  if (chosen.size === 0) return "A partition needs at least one replica.";
  const adding = [...chosen].filter((id) => !before.includes(id));
  const removing = before.filter((id) => !chosen.has(id));
  if (adding.length + removing.length === 0) return `${plural(chosen.size, "replica")}, unchanged.`;
  const changes = [
    adding.length > 0 ? `adds broker ${adding.join(", ")}` : null,
    removing.length > 0 ? `removes broker ${removing.join(", ")}` : null,
  ];
  return `${plural(chosen.size, "replica")}: ${changes.filter(Boolean).join(", ")}.`;
}
