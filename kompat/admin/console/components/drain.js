/** What is done with a whole broker: emptied, used again, forgotten. */

import { del, path, post } from "../api.js";
import { confirm } from "./dialog.js";
import { button } from "./parts.js";
import { plural } from "../format.js";
import { attempt, toast } from "./toast.js";

/** The buttons for a broker of `brokers`; `done` is called when something was changed. */
export function brokerActions(broker, brokers, done) {
  if (brokers.length < 2) return [];
  const { id, state } = broker;
  const found = [];
  if (state === "draining") found.push(button("Use it again", () => undrain(id, done)));
  else found.push(button("Drain", () => drain(id, done)));
  if (state === "down") found.push(button("Forget", () => forget(id, done), { tone: "danger" }));
  return found;
}

/** Why a drain does not come to an end, and what helps; null: it does. */
export const stuckText = ({ id, unmovable }) =>
  unmovable > 0
    ? `${plural(unmovable, "replica")} of broker ${id} cannot leave it: the other brokers have theirs already. ` +
      "Add a broker, or move their partitions to fewer replicas."
    : null;

async function drain(id, done) {
  let told = null;
  const isDone = await confirm({
    title: `Drain broker ${id}?`,
    text: "Its partitions get replicas on other brokers, and it leads nothing any more: then it can be taken away.",
    action: "Drain",
    run: async () => {
      told = await post(path`/v1/cluster/brokers/${id}/drain`);
      return told;
    },
  });
  const stuck = isDone && told ? stuckText({ id, unmovable: told.unmovable }) : null;
  if (stuck !== null) toast(stuck, { isBad: true });
  else if (isDone) toast(`Broker ${id} is being drained`);
  done();
}

const undrain = (id, done) =>
  attempt(() => del(path`/v1/cluster/brokers/${id}/drain`), `Broker ${id} gets replicas again`).then(done);

async function forget(id, done) {
  const isDone = await confirm({
    title: `Forget broker ${id}?`,
    text: "For one that will not come back. Replicas that it still has are out of reach: drain it before.",
    action: "Forget it",
    typed: String(id),
    run: () => del(path`/v1/cluster/brokers/${id}`),
  });
  if (isDone) toast(`Broker ${id} is forgotten`);
  done();
}
