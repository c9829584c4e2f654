/** Everything that waits for its time, topic by topic. */

import { all, get } from "../api.js";
import { delayedList } from "../components/delayed-list.js";
import { button, figures, flushCard, head, link, opener } from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { numbers, table, tableState } from "../components/table.js";
import { bytes, due, number } from "../format.js";
import { h } from "../vdom.js";

export default function delayed(page) {
  page.title = "Delayed";
  const state = { topic: page.query.topic ?? null };
  const rows = tableState("waiting", true);
  const totals = page.resource((signal) => get("/v1/delayed/statistics", null, { signal }), { every: 3000 });
  const topics = page.resource((signal) => all("/v1/delayed", { limit: 500 }, { signal }), { every: 3000 });
  const list = delayedList(page, () => state.topic);
  const choose = (topic) => {
    state.topic = topic;
    page.setQuery({ topic });
    list.reload();
  };
  const columns = [
    {
      name: "topic",
      label: "Topic",
      class: "name fill",
      value: (row) => row.topic,
      cell: (row) => opener(row.topic, () => choose(row.topic)),
    },
    numbers("waiting", "Waiting"),
    numbers("nextDueTimestamp", "Next", { format: due }),
    numbers("bytes", "Size", { isWide: true, format: bytes }),
  ];
  const draw = (items) => {
    if (items.length === 0)
      return empty(
        "No delayed records",
        "Records with a kompat-delay-ms or kompat-deliver-at header are appended to the log when they are due.",
      );
    return table({
      page,
      state: rows,
      label: "Topics with delayed records",
      columns,
      rows: items,
      key: (row) => row.topic,
      onopen: (row) => choose(row.topic),
      isOpen: (row) => row.topic === state.topic,
    });
  };
  const sum = (told) =>
    figures(
      ["Waiting", number(told.waiting)],
      ["In open transactions", number(told.undecided)],
      ["Size", bytes(told.bytes)],
      ["Next", told.nextDueTimestamp ? due(told.nextDueTimestamp) : "–"],
    );
  return () => [
    head({ title: "Delayed" }),
    show(totals, sum, 2),
    flushCard(null, show(topics, draw, 4)),
    state.topic === null
      ? null
      : [
          h(
            "div",
            { class: "toolbar" },
            h("h2", { class: "grow" }, link(state.topic, ["topics", state.topic, "delayed"])),
            button("Close", () => choose(null), { tone: "small" }),
          ),
          list.draw(),
        ],
  ];
}
