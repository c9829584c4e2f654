/** Transactions: which are open, for how long, and the end of those that hang. */

import { all, get, path, post } from "../api.js";
import { confirm, openDialog } from "../components/dialog.js";
import { badge, button, definitions, flushCard, head, opener, search, select, topicLink } from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { table, tableState } from "../components/table.js";
import { toast } from "../components/toast.js";
import { duration, number, time } from "../format.js";
import { h } from "../vdom.js";

const TONES = {
  ongoing: "accent",
  preparecommit: "warn",
  prepareabort: "warn",
  completecommit: "good",
  completeabort: "",
  empty: "",
  dead: "bad",
};
const toneOf = (state) =>
  TONES[
    String(state)
      .toLowerCase()
      .replaceAll(/[^a-z]/g, "")
  ] ?? "";

export default function transactions(page) {
  page.title = "Transactions";
  const state = { search: "", state: "" };
  const rows = tableState("id");
  const list = page.resource((signal) => all("/v1/transactions", { limit: 500 }, { signal }), { every: 3000 });
  const look = (row) => details(row.transactionalId, list);
  const columns = [
    {
      name: "id",
      label: "Transactional id",
      class: "name fill",
      value: (row) => row.transactionalId,
      cell: (row) => opener(row.transactionalId, () => look(row)),
    },
    { name: "state", label: "State", value: (row) => row.state, cell: (row) => badge(row.state, toneOf(row.state)) },
    {
      name: "producer",
      label: "Producer",
      isNumber: true,
      isWide: true,
      value: (row) => row.producerId,
      cell: (row) => row.producerId,
    },
    {
      name: "coordinator",
      label: "Coordinator",
      isNumber: true,
      isWide: true,
      value: (row) => row.coordinator,
      cell: (row) => (row.coordinator === null || row.coordinator === undefined ? "–" : `broker ${row.coordinator}`),
    },
  ];
  const draw = (items) => {
    const wanted = state.search.toLowerCase();
    const found = items.filter(
      (item) =>
        item.transactionalId.toLowerCase().includes(wanted) && (state.state === "" || item.state === state.state),
    );
    if (items.length === 0) return empty("No transactions", "Producers with a transactional.id are listed here.");
    if (found.length === 0) return empty("No matching transactions");
    return table({
      page,
      state: rows,
      label: "Transactions",
      columns,
      rows: found,
      key: (row) => row.transactionalId,
      onopen: look,
    });
  };
  const states = () => [
    ["", "All states"],
    ...[...new Set((list.data ?? []).map((each) => each.state))].sort().map((each) => [each, each]),
  ];
  return () => [
    head({ title: "Transactions", badges: list.data ? [badge(number(list.data.length))] : [] }),
    h(
      "div",
      { class: "toolbar" },
      search({
        value: state.search,
        label: "Search transactions",
        oninput: (text) => ((state.search = text), page.redraw()),
      }),
      select(state, "state", states(), page.redraw, { "aria-label": "State" }),
    ),
    flushCard(null, show(list, draw, 5)),
  ];
}

async function details(id, list) {
  let told = null;
  const abort = async () => {
    const isDone = await confirm({
      title: `Abort ${id}?`,
      text: "Consumers with read_committed will not read its records. Its producer is fenced.",
      action: "Abort the transaction",
      run: () => post(path`/v1/transactions/${id}/abort`),
    });
    if (isDone) toast(`${id} is aborted`);
    list.reload();
  };
  const draw = (dialog) => {
    if (told === null) return h("p", { class: "muted" }, "Loading…");
    const isOpen = String(told.state).toLowerCase() === "ongoing";
    return [
      definitions([
        ["State", badge(told.state, toneOf(told.state))],
        ["Producer", `${told.producerId}, epoch ${told.producerEpoch}`],
        ["Time-out", duration(told.timeoutMs)],
        told.startTimestamp ? ["Since", time(told.startTimestamp)] : null,
      ]),
      h("h3", null, "Partitions"),
      told.topics?.length > 0
        ? h(
            "ul",
            null,
            told.topics.map((each) => h("li", null, topicLink(each.topic), ` ${each.partitions.join(", ")}`)),
          )
        : h("p", { class: "muted" }, "None at the moment."),
      isOpen
        ? h(
            "div",
            { class: "actions end" },
            button("Abort", () => (dialog.close(), abort()), { tone: "danger" }),
          )
        : null,
    ];
  };
  const dialog = openDialog({ title: id, draw });
  try {
    told = await get(path`/v1/transactions/${id}`);
  } catch (problem) {
    Object.assign(dialog, { problem });
    told = {};
  }
  dialog.redraw();
}
