/** Looking for traces: by id, by record, or by what happened. */

import { get } from "../api.js";
import { badge, button, card, field, flushCard, head, input, link, pager, select } from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { KINDS, wordOf } from "../components/story.js";
import { table } from "../components/table.js";
import { fromInput, moment, time } from "../format.js";
import { go } from "../router.js";
import { h } from "../vdom.js";

export default function traces(page) {
  page.title = "Traces";
  const state = {
    id: "",
    topic: page.query.topic ?? "",
    group: "",
    event: page.query.event ?? "",
    from: "",
    to: "",
    cursors: [null],
    next: null,
  };
  const found = page.resource(async (signal) => {
    const query = {
      topic: state.topic,
      group: state.group,
      event: state.event,
      from: fromInput(state.from),
      to: fromInput(state.to),
      limit: 100,
      cursor: state.cursors.at(-1),
    };
    const told = await get("/v1/traces", query, { signal });
    state.next = told.nextCursor ?? null;
    return told.items;
  });
  const again = (event) => {
    event?.preventDefault();
    Object.assign(state, { cursors: [null], next: null });
    page.setQuery({ topic: state.topic, event: state.event });
    found.reload();
  };
  page.keys([{ keys: "r", label: "Reload", run: () => again() }]);

  const columns = [
    {
      name: "time",
      label: "Time",
      class: "fit",
      cell: (row) => h("time", { title: time(row.timestamp) }, moment(row.timestamp)),
    },
    {
      name: "event",
      label: "Event",
      cell: (row) =>
        badge(
          wordOf(row.kind),
          ["REJECTED", "DEAD_LETTERED", "LOCK_EXPIRED", "EXPIRED", "CANCELLED"].includes(row.kind)
            ? "bad"
            : ["ACKNOWLEDGED", "COMMITTED_PAST"].includes(row.kind)
              ? "good"
              : "",
        ),
    },
    {
      name: "record",
      label: "Record",
      class: "name",
      cell: (row) => link(`${row.topic}/${row.partition}/${row.offset}`, ["traces", row.traceId]),
    },
    { name: "who", label: "By", isWide: true, cell: (row) => row.group ?? row.clientId ?? "" },
    { name: "trace", label: "Trace", class: "clip mono", isWide: true, cell: (row) => row.traceId },
  ];
  const draw = (items) =>
    items.length === 0
      ? empty(
          "No events",
          state.next
            ? "No match in the records that were searched so far."
            : "Records are traced if they have the header kompat-trace: 1 or a sampled traceparent, or if their topic's kompat.trace.sample selects them.",
        )
      : table({
          page,
          state: null,
          label: "Events",
          columns,
          rows: items,
          key: (row) =>
            `${row.traceId} ${row.timestamp} ${row.kind} ${row.offset} ${row.group ?? ""} ${row.memberId ?? ""} ${row.clientId ?? ""}`,
          onopen: (row) => go(["traces", row.traceId]),
        });

  return () => [
    head({ title: "Traces" }),
    card(
      null,
      h(
        "form",
        { class: "toolbar", role: "search", onsubmit: (event) => (event.preventDefault(), open(state.id.trim())) },
        h(
          "label",
          { class: "field grow" },
          h("span", null, "Trace id, message id, or topic/partition/offset"),
          input(state, "id", { "data-search": true, placeholder: "orders/2/45678" }),
        ),
        h("button", { type: "submit", class: "primary align-end" }, "Show"),
      ),
      h(
        "form",
        { class: "fields thirds", onsubmit: again },
        field("Topic", input(state, "topic", { placeholder: "any" })),
        field("Group", input(state, "group", { placeholder: "any" })),
        field("Event", select(state, "event", [["", "any"], ...KINDS.map((kind) => [kind, wordOf(kind)])])),
        field("From", input(state, "from", { type: "datetime-local", step: 1 })),
        field("Until", input(state, "to", { type: "datetime-local", step: 1 })),
        h("div", { class: "actions align-end" }, h("button", { type: "submit" }, "Search events")),
      ),
    ),
    flushCard(null, show(found, draw, 6)),
    pager(state, found.reload),
  ];
}

function open(text) {
  const [, topic, partition, offset] = /^([^/]+)\/(\d+)\/(\d+)$/.exec(text) ?? [];
  if (topic) go(["topics", topic, partition, offset, "trace"]);
  else if (text !== "") go(["traces", text]);
}
