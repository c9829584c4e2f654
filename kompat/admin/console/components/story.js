/** A record's story, drawn: its stages along the time they took, and every event. */

import { duration, number, time } from "../format.js";
import { h } from "../vdom.js";
import { link } from "./parts.js";

/** A stage goes from the first of these that comes to the next of those. As the spans that are exported: docs/traces.md. */
const STAGES = [
  ["publish", ["PRODUCED"], ["REPLICATED"]],
  ["park", ["PARKED"], ["FIRED", "CANCELLED"]],
  ["wait", ["REPLICATED", "FIRED", "RELEASED", "LOCK_EXPIRED"], ["DELIVERED", "REDELIVERED"]],
  ["process", ["DELIVERED", "REDELIVERED"], ["ACKNOWLEDGED", "RELEASED", "REJECTED", "LOCK_EXPIRED"]],
  ["commit", ["DELIVERED"], ["COMMITTED_PAST"]],
];
const TONES = {
  PRODUCED: "publish",
  REPLICATED: "publish",
  PARKED: "park",
  FIRED: "park",
  CANCELLED: "end",
  DELIVERED: "process",
  REDELIVERED: "process",
  ACKNOWLEDGED: "process",
  COMMITTED_PAST: "commit",
  RELEASED: "wait",
  REJECTED: "end",
  LOCK_EXPIRED: "end",
  DEAD_LETTERED: "end",
  EXPIRED: "end",
};
const WORDS = {
  PRODUCED: "Produced",
  REPLICATED: "Replicated",
  PARKED: "Delayed",
  FIRED: "Appended to the log",
  CANCELLED: "Cancelled",
  DELIVERED: "Delivered",
  REDELIVERED: "Redelivered",
  ACKNOWLEDGED: "Acknowledged",
  RELEASED: "Released",
  REJECTED: "Rejected",
  LOCK_EXPIRED: "Lock expired",
  DEAD_LETTERED: "Dead-lettered",
  COMMITTED_PAST: "Committed past",
  EXPIRED: "Expired",
};

export function stagesOf(events) {
  const found = [];
  for (const [name, starts, ends] of STAGES) {
    let open = null;
    for (const event of events) {
      if (open !== null && ends.includes(event.kind) && belongs(open, event)) {
        found.push({ name, from: open.timestamp, to: event.timestamp, whose: event.group ?? open.group ?? null });
        open = null;
      }
      if (name === "wait" && event.kind === "PARKED") open = null; // it waits for its time, and not for a consumer
      if (open === null && starts.includes(event.kind)) open = event;
    }
  }
  return found.sort((one, other) => one.from - other.from || one.to - other.to);
}

const belongs = (start, end) => !start.group || !end.group || start.group === end.group;

export function spans(events) {
  const stages = stagesOf(events);
  if (stages.length === 0) return null;
  const from = events[0].timestamp;
  const total = Math.max(1, events.at(-1).timestamp - from);
  const percent = (ms) => `${((ms / total) * 100).toFixed(3)}%`;
  return h(
    "div",
    { class: "spans", role: "list", "aria-label": "Stages" },
    stages.map((stage) => [
      h("span", null, stage.name, stage.whose ? h("span", { class: "muted" }, ` ${stage.whose}`) : null),
      h(
        "span",
        { class: "span-track", role: "listitem", "aria-label": `${stage.name}: ${duration(stage.to - stage.from)}` },
        h("span", {
          class: `span-bar tone-${stage.name}`,
          style: {
            left: `min(calc(100% - 3px), ${percent(stage.from - from)})`,
            width: percent(stage.to - stage.from),
          },
        }),
      ),
      h("span", { class: "number" }, duration(stage.to - stage.from)),
    ]),
  );
}

export function story(events) {
  return h(
    "ol",
    { class: "story", "aria-label": "Events" },
    events.map((event, at) =>
      h(
        "li",
        { class: `tone-${TONES[event.kind] ?? "wait"}`, key: at },
        h("time", { class: "at mono", title: time(event.timestamp) }, time(event.timestamp).slice(11)),
        h("span", { class: "kind" }, WORDS[event.kind] ?? event.kind),
        h("span", { class: "since" }, at === 0 ? "" : `+${duration(event.timestamp - events[at - 1].timestamp)}`),
        h("span", { class: "details" }, details(event)),
      ),
    ),
  );
}

function details(event) {
  const parts = [
    `${event.topic}/${event.partition}/${event.offset}`,
    event.clientId ? `client ${event.clientId}` : null,
    event.group ? [`group `, link(event.group, ["groups", event.group])] : null,
    event.memberId ? `member ${event.memberId}` : null,
    event.deliveryCount ? `delivery ${number(event.deliveryCount)}` : null,
    event.due ? `due ${time(event.due)}` : null,
    event.reason ? `reason: ${event.reason}` : null,
    event.toTopic
      ? [
          "new offset ",
          link(`${event.toTopic}/${event.toPartition}/${event.toOffset}`, ["topics", event.toTopic, "messages"], {
            partition: event.toPartition,
            offset: event.toOffset,
          }),
        ]
      : null,
  ].filter((part) => part !== null);
  return parts.map((part, at) => (at === 0 ? part : [" · ", part]));
}

export const wordOf = (kind) => WORDS[kind] ?? kind;
export const KINDS = Object.keys(WORDS);
