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
  if (state === "draining") found.push(button("End the drain", () => undrain(id, done)));
  else found.push(button("Drain", () => drain(id, done)));
  if (state === "down") found.push(button("Unregister", () => forget(id, done), { tone: "danger" }));
  return found;
}

/** Why a drain does not come to an end, and what helps; null: it does. */
export const stuckText = ({ id, unmovable }) =>
  unmovable > 0
    ? `${plural(unmovable, "replica")} of broker ${id} cannot be moved: all other brokers have a replica already. ` +
      "Add a broker, or reduce the replication factor."
    : null;

async function drain(id, done) {
  let told = null;
  const isDone = await confirm({
    title: `Drain broker ${id}?`,
    text: "Its replicas are moved to other brokers, and it loses its leaderships. Then it can be removed.",
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
  attempt(() => del(path`/v1/cluster/brokers/${id}/drain`), `Broker ${id} may get replicas again`).then(done);

async function forget(id, done) {
  const isDone = await confirm({
    title: `Unregister broker ${id}?`,
    text: "Unregister a broker that is permanently gone. Replicas that are still assigned to it stay offline: drain it first.",
    action: "Unregister",
    typed: String(id),
    run: () => del(path`/v1/cluster/brokers/${id}`),
  });
  if (isDone) toast(`Broker ${id} is unregistered`);
  done();
}
