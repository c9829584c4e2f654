/** A queue's next record, taken by hand: looked at, and done with, put back or given up. */

import { path, post } from "../api.js";
import { clock, duration, plural } from "../format.js";
import { h } from "../vdom.js";
import { openDialog } from "./dialog.js";
import { messageParts } from "./message.js";
import { badge, button, definitions, field, input, link } from "./parts.js";
import { attempt, toast } from "./toast.js";

const LOCK_MS = 60_000;
const WAIT_MS = 1000;

/** Takes one and shows it. Whoever closes it without a word puts it back: nobody has to wait for it. */
export async function takeOne(topic, group, done) {
  const address = path`/v1/queues/${topic}/groups/${group}`;
  const told = await attempt(() => post(`${address}/acquire`, { max: 1, waitMs: WAIT_MS, lockMs: LOCK_MS }));
  if (told === null) return;
  if (told.deliveries.length === 0) return toast("There are no available records");
  const [delivery] = told.deliveries;
  const settle = async (word, body = {}) => {
    const { results } = await post(`${address}/${word}`, { receipts: [delivery.receipt], ...body });
    if (!results[0].ok) throw results[0].error;
  };
  const word = await show(delivery, settle);
  if (word === null) await attempt(() => settle("nack"), "The record is released");
  else toast(word);
  done();
}

function show(delivery, settle) {
  const { topic, partition, offset } = delivery;
  const given = { delay: "" };
  const say = (dialog, text, word, body) =>
    dialog.submit(async () => {
      await settle(word, body?.());
      return text;
    });
  const extend = (dialog) =>
    attempt(() => settle("extend", { lockMs: LOCK_MS }), `The lock is renewed for ${duration(LOCK_MS)}`).then(() => {
      delivery.lockedUntil = Date.now() + LOCK_MS;
      dialog.redraw();
    });
  const delayOf = () => (given.delay === "" ? {} : { delay: given.delay });
  const draw = (dialog) => [
    h(
      "div",
      { class: "actions" },
      button("Acknowledge", () => say(dialog, "The record is acknowledged", "ack"), {
        tone: "primary",
        isDisabled: dialog.isBusy,
      }),
      button("Reject", () => say(dialog, "The record becomes a dead-letter record", "reject"), {
        tone: "danger",
        isDisabled: dialog.isBusy,
      }),
      button("Renew the lock", () => extend(dialog), { isDisabled: dialog.isBusy }),
      link(
        "Trace",
        ["topics", topic, partition, offset, "trace"],
        {},
        { class: "button", onclick: () => dialog.close() },
      ),
    ),
    h(
      "form",
      {
        class: "toolbar",
        onsubmit: (event) => (event.preventDefault(), say(dialog, "The record is released", "nack", delayOf)),
      },
      field(
        "Redeliver after",
        input(given, "delay", { placeholder: "at once", class: "offset-input", "data-first": true }),
      ),
      h("button", { type: "submit", class: "align-end", disabled: dialog.isBusy }, "Release"),
    ),
    definitions([
      ["Locked until", clock(delivery.lockedUntil)],
      ["Priority", delivery.priority],
      [
        "Earlier deliveries",
        delivery.deliveryCount > 1 ? badge(plural(delivery.deliveryCount - 1, "time"), "warn") : "never",
      ],
    ]),
    messageParts(delivery),
  ];
  return openDialog({ title: `${topic} / ${partition} / ${offset}`, draw, isDrawer: true }).closed;
}
