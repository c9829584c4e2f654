/** The story of a record, or of all records of a trace. */

import { get, path } from "../api.js";
import { card, definitions, flushCard, head, link } from "../components/parts.js";
import { empty, problemBox, show } from "../components/states.js";
import { spans, story } from "../components/story.js";
import { duration, number } from "../format.js";
import { h } from "../vdom.js";

export default function trace(page) {
  const { id, topic, partition, offset } = page.params;
  const place = id === undefined ? `${topic}/${partition}/${offset}` : null;
  page.title = `Trace of ${place ?? id}`;
  const load = (signal) =>
    place === null
      ? get(path`/v1/traces/${id}`, null, { signal })
      : get(path`/v1/topics/${topic}/partitions/${partition}/messages/${offset}/trace`, null, { signal });
  const found = page.resource((signal) => load(signal).then(storiesOf), { every: 3000 });

  const draw = (stories) =>
    stories.length === 0 ? empty("No trace", "There are no events of this trace.") : stories.map(one);
  const nothing = () =>
    flushCard(
      null,
      empty(
        "This record is not traced",
        "A record is traced if it has the header kompat-trace: 1 or a sampled traceparent, or if its topic's kompat.trace.sample selects it.",
        place === null ? null : link("Back to the record", ["topics", topic, "messages"], { partition, offset }),
      ),
    );
  return () => [
    head({
      trail:
        place === null
          ? [["Traces", ["traces"]]]
          : [
              ["Topics", ["topics"]],
              [topic, ["topics", topic]],
              ["Messages", ["topics", topic, "messages"]],
            ],
      title: place === null ? `Trace ${id}` : `Trace of ${partition}/${offset}`,
    }),
    found.data === null && found.error?.status === 404
      ? nothing()
      : found.error && found.data === null
        ? problemBox(found.error, found.reload)
        : show(found, draw, 8),
  ];
}

const storiesOf = (told) => told.traces ?? [told];

function one(told) {
  const { record, events } = told;
  const total = events.at(-1).timestamp - events[0].timestamp;
  const ids = definitions([
    [
      "Record",
      link(`${record.topic}/${record.partition}/${record.offset}`, ["topics", record.topic, "messages"], {
        partition: record.partition,
        offset: record.offset,
      }),
    ],
    ["Trace", link(told.traceId, ["traces", told.traceId], {}, { class: "mono" })],
    told.messageId ? ["Message id", told.messageId] : null,
    ["Total", `${duration(total)}, ${number(events.length)} events`],
  ]);
  return h(
    "div",
    { class: "view", key: `${record.topic}/${record.partition}/${record.offset}` },
    card(null, ids),
    card("Stages", spans(events) ?? h("p", { class: "muted" }, "The record has no stages yet.")),
    card("Events", story(events)),
  );
}
