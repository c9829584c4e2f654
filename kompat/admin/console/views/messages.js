/** The records of a topic: from the newest or the oldest, an offset or a time, by key or by text; and as they come. */

import { get, path, stream } from "../api.js";
import { keyOf, preview, valueOf } from "../components/bytes.js";
import { messageDialog } from "../components/message.js";
import { badge, button, flushCard, input, link, opener, search, select } from "../components/parts.js";
import { empty, loading, problemBox } from "../components/states.js";
import { table } from "../components/table.js";
import { topicHead } from "../components/topic-head.js";
import { bytes, fromInput, moment, number, plural, time } from "../format.js";

import { h } from "../vdom.js";

const PAGE = 50;
const MOST_LIVE = 500; // rows that are kept of what comes

export default function messages(page) {
  const topic = page.params.topic;
  page.title = `Messages of ${topic}`;
  const { query } = page;
  const state = {
    partition: query.partition ?? "",
    from: query.from ?? (query.offset !== undefined ? "offset" : query.time !== undefined ? "time" : "newest"),
    offset: query.offset ?? "",
    time: query.time ?? "",
    until: query.until ?? "",
    key: query.key ?? "",
    search: query.search ?? "",
    cursors: [null], // of the pages up to this one
    next: null,
    isLive: false,
    live: { items: [], state: "waiting", received: 0, isPaused: false, stop: null },
    looked: 0,
  };
  const about = page.resource((signal) => get(path`/v1/topics/${topic}`, null, { signal }));
  const found = page.resource((signal) => load(topic, state, signal));

  const again = () => {
    Object.assign(state, { cursors: [null], next: null });
    remember(page, state);
    if (state.isLive) tail(page, topic, state);
    else found.reload();
  };
  const newer = () => state.cursors.length > 1 && (state.cursors.pop(), found.reload());
  const older = () => {
    if (state.next === null) return;
    state.cursors.push(state.next);
    state.next = null; // that page's is not known yet
    found.reload();
  };
  const live = () => {
    state.isLive = !state.isLive;
    if (state.isLive) tail(page, topic, state);
    else again();
    page.redraw();
  };
  page.signal.addEventListener("abort", () => state.live.stop?.abort());
  page.keys([
    { keys: "n", label: "Next page", run: older },
    { keys: "p", label: "Previous page", run: newer },
    { keys: "l", label: "Toggle live", run: live },
    { keys: "r", label: "Reload", run: again },
  ]);

  return () => [
    topicHead(topic, "messages", {
      actions: [
        button(state.isLive ? "Stop" : "Live", live, { tone: state.isLive ? "danger" : "", keys: "l" }),
        h("a", { class: "button primary", href: `#/topics/${encodeURIComponent(topic)}/produce` }, "Produce"),
      ],
    }),
    toolbar(page, state, about.data, again),
    state.isLive ? liveList(page, topic, state) : list(page, topic, state, found, { newer, older }),
  ];
}

// -- what is asked for -----------------------------------------------------------------------------------------------
async function load(topic, state, signal) {
  const query = {
    partition: state.partition,
    limit: PAGE,
    cursor: state.cursors.at(-1),
    key: state.key,
    search: state.search,
  };
  if (state.from === "newest") query.direction = "backward";
  if (state.from === "oldest") query.offset = "earliest";
  if (state.from === "offset") query.offset = state.offset || "earliest";
  if (state.from === "time") Object.assign(query, { fromTime: fromInput(state.time), toTime: fromInput(state.until) });
  const told = await get(path`/v1/topics/${topic}/messages`, query, { signal });
  state.next = told.nextCursor ?? null;
  return told.items;
}

function remember(page, { partition, from, offset, time: at, until, key, search: text }) {
  page.setQuery({
    partition,
    from: from === "newest" ? null : from,
    offset: from === "offset" ? offset : null,
    time: from === "time" ? at : null,
    until: from === "time" ? until : null,
    key,
    search: text,
  });
}

function toolbar(page, state, about, again) {
  const partitions = [
    ["", "All partitions"],
    ...(about?.partitions ?? []).map(({ partition }) => [String(partition), `Partition ${partition}`]),
  ];
  if (state.partition !== "" && !about) partitions.push([state.partition, `Partition ${state.partition}`]);
  const submit = (event) => (event.preventDefault(), again());
  const origins = [
    ["newest", "Newest first"],
    ["oldest", "Oldest first"],
    ["offset", "From offset"],
    ["time", "From time"],
  ];
  return h(
    "form",
    { class: "toolbar", role: "search", onsubmit: submit },
    select(state, "partition", partitions, again, { "aria-label": "Partition" }),
    state.isLive
      ? null
      : select(state, "from", origins, () => (page.redraw(), ["newest", "oldest"].includes(state.from) && again()), {
          "aria-label": "Begin",
        }),
    state.isLive || state.from !== "offset"
      ? null
      : input(state, "offset", {
          type: "number",
          min: 0,
          class: "offset-input",
          placeholder: "offset",
          "aria-label": "Offset",
          onchange: again,
        }),
    state.isLive || state.from !== "time"
      ? null
      : [
          input(state, "time", {
            type: "datetime-local",
            step: 1,
            class: "time-input",
            "aria-label": "From time",
            onchange: again,
          }),
          input(state, "until", {
            type: "datetime-local",
            step: 1,
            class: "time-input",
            "aria-label": "Until time",
            onchange: again,
          }),
        ],
    state.isLive
      ? null
      : input(state, "key", {
          type: "search",
          class: "key-input",
          placeholder: "key is",
          "aria-label": "Key",
          onchange: again,
        }),
    state.isLive
      ? null
      : search({
          value: state.search,
          label: "Search in values, keys and headers",
          placeholder: "contains",
          oninput: (text) => (state.search = text),
        }),
    state.isLive ? null : h("button", { type: "submit" }, "Find"),
  );
}

// -- what is found ---------------------------------------------------------------------------------------------------
function columnsOf(topic, isNew) {
  return [
    { name: "partition", label: "Part.", isNumber: true, class: "fit", cell: (row) => row.partition },
    {
      name: "offset",
      label: "Offset",
      isNumber: true,
      class: "fit",
      cell: (row) => opener(number(row.offset), () => messageDialog(topic, row)),
    },
    {
      name: "time",
      label: "Time",
      isWide: true,
      class: "fit",
      cell: (row) => h("time", { title: time(row.timestamp) }, moment(row.timestamp)),
    },
    {
      name: "key",
      label: "Key",
      class: "clip key-cell mono",
      cell: (row) => (row.key === null ? h("span", { class: "muted" }, "–") : preview(keyOf(row), 80)),
    },
    {
      name: "value",
      label: "Value",
      class: "clip fill mono",
      cell: (row) => (row.value === null ? badge("tombstone") : preview(valueOf(row))),
    },
    { name: "marks", label: "Headers", isWide: true, class: "fit", cell: (row) => marks(row) },
    { name: "size", label: "Size", isNumber: true, isWide: true, class: "fit", cell: (row) => bytes(row.size) },
  ];
}

function marks({ headers = [] }) {
  const named = Object.fromEntries(headers.map(({ name, value }) => [name, value]));
  const told = [
    "kompat-priority" in named ? badge(`priority ${named["kompat-priority"]}`, "accent") : null,
    "kompat-original-offset" in named ? badge("was delayed", "violet") : null,
    "kompat-trace" in named || "traceparent" in named ? badge("traced", "good") : null,
    Object.keys(named).some((name) => name.startsWith("__dlq.") || name.startsWith("kafka_dlt-"))
      ? badge("dead letter", "bad")
      : null,
  ].filter(Boolean);
  if (told.length === 0 && headers.length > 0) told.push(badge(headers.length));
  return h("span", { class: "badges" }, told);
}

function list(page, topic, state, found, { newer, older }) {
  if (found.error && !found.data) return problemBox(found.error, found.reload);
  if (found.data === null) return flushCard(null, loading(8));
  const isFiltered = state.key !== "" || state.search !== "";
  const pager = h(
    "div",
    { class: "toolbar pager" },
    h(
      "span",
      { class: "muted", role: "status" },
      found.isLoading
        ? "Loading…"
        : `Page ${state.cursors.length}, ${plural(found.data.length, "record")}${isFiltered && state.next ? "; there are more records to search" : ""}`,
    ),
    button("Before", newer, { isDisabled: state.cursors.length === 1, keys: "p" }),
    button(isFiltered && found.data.length === 0 ? "Search on" : "Next", older, {
      isDisabled: state.next === null,
      keys: "n",
    }),
  );
  const isEmpty = found.data.length === 0;
  const rows = isEmpty
    ? isFiltered || state.from === "offset" || state.from === "time"
      ? empty("No records", state.next ? "No match in the records that were searched so far." : "No record matches.")
      : empty(
          "This topic is empty",
          "Records appear here as soon as they are committed.",
          h("a", { class: "button", href: `#/topics/${encodeURIComponent(topic)}/produce` }, "Produce one"),
          link("Show delayed records", ["topics", topic, "delayed"]),
        )
    : table({
        page,
        state: null,
        label: "Records",
        columns: columnsOf(topic),
        rows: found.data,
        key: (row) => `${row.partition}-${row.offset}`,
        onopen: (row) => messageDialog(topic, row),
      });
  return [found.error ? problemBox(found.error, found.reload) : null, flushCard(null, rows), pager];
}

// -- as they come ----------------------------------------------------------------------------------------------------
function tail(page, topic, state) {
  state.live.stop?.abort();
  const stop = new AbortController();
  const live = (state.live = { items: [], state: "waiting", received: 0, isPaused: false, error: null, stop });
  const onEvent = ({ data }) => {
    live.received += 1;
    if (live.isPaused) return;
    live.items.unshift(JSON.parse(data));
    live.items.length = Math.min(live.items.length, MOST_LIVE);
    page.redraw();
  };
  const onState = (told) => ((live.state = told), page.redraw());
  stream(path`/v1/topics/${topic}/tail`, {
    query: { partition: state.partition, from: "latest" },
    signal: stop.signal,
    onEvent,
    onState,
  }).catch((error) => {
    live.error = error;
    page.redraw();
  });
}

function liveList(page, topic, state) {
  const { live } = state;
  if (live.error) return problemBox(live.error, () => (tail(page, topic, state), page.redraw()));
  const bar = h(
    "div",
    { class: "toolbar" },
    badge(
      live.state === "open" ? (live.isPaused ? "paused" : "live") : "connecting",
      live.state === "open" && !live.isPaused ? "good" : "warn",
    ),
    h("span", { class: "muted", role: "status" }, `${plural(live.received, "record")} since the start`),
    button(live.isPaused ? "Continue" : "Pause", () => ((live.isPaused = !live.isPaused), page.redraw())),
  );
  const rows =
    live.items.length === 0
      ? empty("Waiting for records", "New records appear here.")
      : table({
          page,
          state: (live.table ??= {}),
          label: "New records",
          columns: columnsOf(topic),
          rows: live.items,
          key: (row) => `${row.partition}-${row.offset}`,
          onopen: (row) => messageDialog(topic, row),
        });
  return [bar, flushCard(null, rows)];
}
