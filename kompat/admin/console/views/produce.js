/** Send a record: key, value, headers, where to, when, how urgent. */

import { get, path, post } from "../api.js";
import { button, card, checkbox, field, input, link, select } from "../components/parts.js";
import { problemBox } from "../components/states.js";
import { topicHead } from "../components/topic-head.js";
import { fromInput, number, time, toInput } from "../format.js";
import { h } from "../vdom.js";

const PRIORITIES = [
  ["", "default (4)"],
  ["critical", "critical (9)"],
  ["high", "high (7)"],
  ["normal", "normal (4)"],
  ["low", "low (2)"],
  ["background", "background (0)"],
  ...Array.from({ length: 10 }, (_, at) => [String(9 - at), String(9 - at)]),
];
const SENT = 8; // results that are kept in sight

export default function produce(page) {
  const topic = page.params.topic;
  page.title = `Produce to ${topic}`;
  const state = {
    key: "",
    value: "",
    kind: "text",
    keyKind: "text",
    headers: [],
    partition: "",
    when: "now",
    delay: "",
    at: toInput(Date.now() + 300_000),
    priority: "",
    ttl: "",
    messageId: "",
    scheduleId: "",
    isTraced: false,
    isBusy: false,
    problem: null,
    sent: [],
  };
  const about = page.resource((signal) => get(path`/v1/topics/${topic}`, null, { signal }));
  if (page.query.from) copy(page, topic, state);

  const send = async (event) => {
    event.preventDefault();
    Object.assign(state, { isBusy: true, problem: null });
    page.redraw();
    try {
      const { results } = await post(path`/v1/topics/${topic}/messages`, { messages: [messageOf(state)] });
      if (results[0].error) throw Object.assign(new Error(results[0].error.detail), results[0].error);
      state.sent = [{ ...results[0], isTraced: state.isTraced }, ...state.sent].slice(0, SENT);
    } catch (problem) {
      state.problem = problem;
    }
    state.isBusy = false;
    page.redraw();
  };

  return () => [
    topicHead(topic, "produce"),
    h(
      "form",
      { class: "columns", onsubmit: send },
      card(null, contents(page, state)),
      card(
        null,
        delivery(page, state, about.data),
        h(
          "div",
          { class: "actions" },
          h("button", { type: "submit", class: "primary", disabled: state.isBusy }, "Produce"),
        ),
        state.problem ? problemBox(state.problem) : null,
        results(topic, state.sent),
      ),
    ),
  ];
}

/** From another record: to send it again, perhaps changed. */
async function copy(page, topic, state) {
  const [partition, offset] = page.query.from.split("/");
  const told = await get(path`/v1/topics/${topic}/partitions/${partition}/messages/${offset}`, null, {
    signal: page.signal,
  }).catch((problem) => ((state.problem = problem), null));
  if (told !== null) {
    Object.assign(state, {
      key: told.key ?? "",
      keyKind: told.keyEncoding ?? "text",
      value: told.value ?? "",
      kind: told.value === null ? "null" : (told.encoding ?? "text"),
    });
    state.headers = told.headers.map(({ name, value, encoding }) => ({ name, value: value ?? "", encoding }));
  }
  page.redraw();
}

function messageOf(state) {
  const { kind, keyKind } = state;
  if (kind === "json") JSON.parse(state.value); // says what is wrong with it
  const headers = state.headers
    .filter(({ name }) => name !== "")
    .map(({ name, value, encoding }) => (encoding ? { name, value, encoding } : { name, value }));
  const optional = {
    key: state.key === "" ? null : state.key,
    keyEncoding: state.key !== "" && keyKind === "base64" ? "base64" : null,
    encoding: kind === "base64" ? "base64" : null,
    headers: headers.length > 0 ? headers : null,
    partition: state.partition === "" ? null : Number(state.partition),
    delay: state.when === "delay" ? state.delay.trim() : null,
    deliverAt: state.when === "at" ? new Date(fromInput(state.at)).toISOString() : null,
    priority: state.priority === "" ? null : state.priority,
    ttl: state.ttl.trim() === "" ? null : state.ttl.trim(),
    messageId: state.messageId || null,
    trace: state.isTraced || null,
    scheduleId: state.when !== "now" && state.scheduleId ? state.scheduleId : null,
  };
  const given = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== null));
  return { ...given, value: kind === "null" ? null : state.value };
}

function contents(page, state) {
  const kinds = [
    ["text", "Text"],
    ["json", "JSON"],
    ["base64", "Bytes as base64"],
    ["null", "Nothing: a tombstone"],
  ];
  const area = h("textarea", {
    rows: 9,
    spellcheck: "false",
    "data-search": true,
    disabled: state.kind === "null",
    value: state.value,
    oninput: (event) => (state.value = event.target.value),
  });
  return [
    h(
      "div",
      { class: "fields" },
      field("Key", input(state, "key", { placeholder: "none" })),
      field(
        "Key is",
        select(
          state,
          "keyKind",
          [
            ["text", "Text"],
            ["base64", "Bytes as base64"],
          ],
          page.redraw,
        ),
      ),
    ),
    field("Value is", select(state, "kind", kinds, page.redraw)),
    field("Value", area),
    headers(page, state),
  ];
}

function headers(page, state) {
  const rows = state.headers.map((header, at) => [
    input(header, "name", { placeholder: "name", "aria-label": `Name of header ${at + 1}` }),
    input(header, "value", { placeholder: "value", "aria-label": `Value of header ${at + 1}` }),
    button(null, () => (state.headers.splice(at, 1), page.redraw()), {
      symbol: "close",
      tone: "quiet icon-only",
      label: `Remove header ${at + 1}`,
    }),
  ]);
  const add = button("Add a header", () => (state.headers.push({ name: "", value: "" }), page.redraw()), {
    tone: "small",
    symbol: "plus",
  });
  return h(
    "fieldset",
    null,
    h("legend", null, "Headers"),
    rows.length > 0 ? h("div", { class: "pairs" }, rows) : null,
    h("div", null, add),
  );
}

function delivery(page, state, about) {
  const partitions = [
    ["", "by the key"],
    ...(about?.partitions ?? []).map(({ partition }) => [String(partition), `partition ${partition}`]),
  ];
  const times = [
    ["now", "now"],
    ["delay", "after a delay"],
    ["at", "at a time"],
  ];
  return h(
    "div",
    { class: "fields" },
    field("Partition", select(state, "partition", partitions)),
    field("Priority", select(state, "priority", PRIORITIES)),
    field("Deliver", select(state, "when", times, page.redraw)),
    state.when === "delay"
      ? field("Delay", input(state, "delay", { required: true, placeholder: "30s, 1m30s, 2h" }))
      : null,
    state.when === "at"
      ? field("Time", input(state, "at", { type: "datetime-local", step: 1, required: true }), {
          hint: "where you are",
        })
      : null,
    state.when === "now"
      ? null
      : field("Schedule id", input(state, "scheduleId", { placeholder: "none" }), {
          hint: "replaces what waits under it",
        }),
    field("Time to live", input(state, "ttl", { placeholder: "for ever" }), { hint: "in queues: 30s, 1m30s" }),
    field("Message id", input(state, "messageId", { placeholder: "none" }), { hint: "taken once" }),
    checkbox("Trace this record", state.isTraced, (isTraced) => ((state.isTraced = isTraced), page.redraw())),
  );
}

function results(topic, sent) {
  const rows = sent.map((result) =>
    h(
      "div",
      { class: "note good", key: `${result.partition}/${result.offset}` },
      result.deliverAt
        ? [
            `The record is delayed in partition ${result.partition} at offset ${number(result.offset)} until ${time(result.dueTimestamp)}. `,
            link("Delayed", ["topics", topic, "delayed"]),
          ]
        : [
            `Stored in partition ${result.partition} at offset ${number(result.offset)}. `,
            link("Show the record", ["topics", topic, "messages"], { partition: result.partition, offset: result.offset }),
          ],
      result.isTraced ? [" · ", link("Trace", ["topics", topic, result.partition, result.offset, "trace"])] : null,
    ),
  );
  return h("div", { class: "form", role: "status" }, rows);
}
