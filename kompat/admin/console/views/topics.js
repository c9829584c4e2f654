/** All topics: found, sorted, made. A thousand and more are all here, and only those in sight are drawn. */

import { all, get, post } from "../api.js";
import { openDialog } from "../components/dialog.js";
import {
  badge,
  button,
  checkbox,
  field,
  flushCard,
  formEnd,
  head,
  input,
  search,
  select,
  topicLink,
} from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { numbers, table, tableState } from "../components/table.js";
import { toast } from "../components/toast.js";
import { bytes, number, plural } from "../format.js";
import { go } from "../router.js";
import { h } from "../vdom.js";

const MOST = 10_000; // beyond this the search asks the broker

export default function topics(page) {
  page.title = "Topics";
  const state = { search: page.query.search ?? "", isInternal: page.query.internal === "true" };
  const rows = tableState("name");
  const list = page.resource(
    async (signal) => {
      const query = { limit: 500, internal: state.isInternal, search: state.isMore ? state.search : null };
      let isMore = false;
      const items = await all("/v1/topics", query, { signal, most: MOST, onPage: (_, more) => (isMore = more) });
      state.isMore = isMore || state.isMore;
      return items;
    },
    { every: 15_000 },
  );

  const find = (text) => {
    state.search = text;
    page.setQuery({ search: text });
    if (state.isMore) list.reload();
    page.redraw();
  };
  const create = async () => {
    const made = await createDialog();
    if (made) go(["topics", made]);
  };
  page.keys([{ keys: "c", label: "Create a topic", run: create }]);

  const columns = [
    {
      name: "name",
      label: "Topic",
      class: "name fill",
      value: (row) => row.name,
      cell: (row) => [topicLink(row.name), " ", marks(row)],
    },
    numbers("partitions", "Partitions"),
    numbers("replicationFactor", "Replicas", { isWide: true }),
    numbers("records", "Records"),
    numbers("bytes", "Size", { isWide: true, format: bytes }),
  ];

  const draw = (items) => {
    const wanted = state.search.toLowerCase();
    const found = items.filter((item) => item.name.toLowerCase().includes(wanted));
    if (items.length === 0 && wanted === "")
      return empty(
        "No topics yet",
        "Create a topic here, with Kafka's tools, or by producing to it.",
        button("Create a topic", create, { tone: "primary" }),
      );
    if (found.length === 0)
      return empty(
        "No matching topics",
        `Searched for “${state.search}” in ${plural(items.length, "topic")}.`,
      );
    return table({
      page,
      state: rows,
      label: "Topics",
      columns,
      rows: found,
      key: (row) => row.name,
      onopen: (row) => go(["topics", row.name]),
    });
  };

  return () => [
    head({
      title: "Topics",
      badges: list.data ? [badge(number(list.data.length))] : [],
      actions: [button("Create a topic", create, { tone: "primary", symbol: "plus", keys: "c" })],
    }),
    h(
      "div",
      { class: "toolbar" },
      search({ value: state.search, label: "Search topics", oninput: find }),
      checkbox(
        "Include internal",
        state.isInternal,
        (isInternal) => (
          (state.isInternal = isInternal),
          page.setQuery({ internal: isInternal || null }),
          list.reload()
        ),
      ),
    ),
    flushCard(null, show(list, draw, 8)),
  ];
}

function marks(row) {
  return [
    row.underReplicated > 0 ? badge(`${row.underReplicated} under-replicated`, "bad") : null,
    row.isQueue ? badge("queue", "violet") : null,
    row.order === "priority" ? badge("by priority", "accent") : null,
    row.internal ? badge("internal") : null,
  ]
    .filter(Boolean)
    .flatMap((mark) => [mark, " "]);
}

async function createDialog() {
  const given = { name: "", partitions: "1", replicas: "", cleanup: "", retention: "", order: "", queue: "" };
  const brokers = await get("/v1/cluster").then(
    (told) => told.brokers.length,
    () => 1,
  );
  const draw = (dialog) =>
    h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), dialog.submit(() => create(given))) },
      field(
        "Name",
        input(given, "name", {
          required: true,
          maxlength: 249,
          pattern: "[a-zA-Z0-9._\\-]+",
          title: "letters, digits, dots, underscores and hyphens",
          "data-first": true,
        }),
      ),
      h(
        "div",
        { class: "fields" },
        field(
          "Partitions",
          input(given, "partitions", { type: "number", min: 1, required: true, inputmode: "numeric" }),
        ),
        field(
          "Replicas",
          input(given, "replicas", {
            type: "number",
            min: 1,
            max: brokers,
            placeholder: "default",
            inputmode: "numeric",
          }),
          { hint: `of ${plural(brokers, "broker")}` },
        ),
        field(
          "Keep for (retention.ms)",
          input(given, "retention", { type: "number", min: -1, placeholder: "default", inputmode: "numeric" }),
        ),
        field(
          "Clean up",
          select(given, "cleanup", [
            ["", "default"],
            ["delete", "delete"],
            ["compact", "compact"],
            ["compact,delete", "compact, then delete"],
          ]),
        ),
        field(
          "Deliver",
          select(given, "order", [
            ["", "in the order of offsets"],
            ["priority", "by priority"],
          ]),
        ),
        field("Queue of topic", input(given, "queue", { placeholder: "none" }), {
          hint: "consumers acknowledge each record",
        }),
      ),
      formEnd(dialog, "Create"),
    );
  const isMade = await openDialog({ title: "Create a topic", draw }).closed;
  return isMade ? given.name : null;
}

async function create(given) {
  const configs = Object.fromEntries(
    [
      ["retention.ms", given.retention],
      ["cleanup.policy", given.cleanup],
      ["kompat.delivery.order", given.order],
      ["kompat.queue.source", given.queue],
    ].filter(([, value]) => value !== ""),
  );
  await post("/v1/topics", {
    name: given.name,
    partitions: Number(given.partitions),
    replicationFactor: given.replicas === "" ? -1 : Number(given.replicas),
    configs,
  });
  toast(`${given.name} is created`);
}
