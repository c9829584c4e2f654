/** All queues: topics whose records are acknowledged one by one, by share groups, REST or queue topics. */

import { all } from "../api.js";
import { badge, flushCard, head, link, search, topicLink } from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { numbers, table, tableState } from "../components/table.js";
import { number } from "../format.js";
import { go } from "../router.js";
import { h } from "../vdom.js";

export default function queues(page) {
  page.title = "Queues";
  const state = { search: "" };
  const rows = tableState("topic");
  const list = page.resource((signal) => all("/v1/queues", { limit: 500 }, { signal }), { every: 3000 });
  const columns = [
    {
      name: "group",
      label: "Group",
      class: "name",
      value: (row) => row.group,
      cell: (row) => link(row.group, ["queues", row.topic, row.group]),
    },
    { name: "topic", label: "Topic", class: "name", value: (row) => row.topic, cell: (row) => topicLink(row.topic) },
    numbers("available", "Available"),
    numbers("inFlight", "In flight"),
    numbers("backingOff", "Backing off", { isWide: true }),
    {
      name: "again",
      label: "Redelivered",
      isNumber: true,
      isWide: true,
      value: again,
      cell: (row) => number(again(row)),
    },
  ];
  const draw = (items) => {
    const wanted = state.search.toLowerCase();
    const found = items.filter((item) => `${item.group} ${item.topic}`.toLowerCase().includes(wanted));
    if (items.length === 0)
      return empty(
        "No queues yet",
        "A queue exists when a share group reads a topic, when a client acquires records by REST, or when a topic has kompat.queue.source.",
      );
    if (found.length === 0) return empty("No matching queues");
    return table({
      page,
      state: rows,
      label: "Queues",
      columns,
      rows: found,
      key: (row) => `${row.topic} ${row.group}`,
      onopen: (row) => go(["queues", row.topic, row.group]),
    });
  };
  return () => [
    head({ title: "Queues", badges: list.data ? [badge(number(list.data.length))] : [] }),
    h(
      "div",
      { class: "toolbar" },
      search({
        value: state.search,
        label: "Search queues",
        oninput: (text) => ((state.search = text), page.redraw()),
      }),
    ),
    flushCard(null, show(list, draw, 6)),
  ];
}

/** Records that were delivered twice or more, and are not done with. */
const again = (row) =>
  Object.entries(row.deliveries ?? {}).reduce((sum, [times, count]) => sum + (Number(times) > 1 ? count : 0), 0);
