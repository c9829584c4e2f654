/** Topics of dead letters: what queues gave up. */

import { all } from "../api.js";
import { badge, flushCard, head, link } from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { numbers, table, tableState } from "../components/table.js";
import { number } from "../format.js";
import { go } from "../router.js";

export default function deadLetters(page) {
  page.title = "Dead letters";
  const rows = tableState("topic");
  const list = page.resource((signal) => all("/v1/dead-letters", { limit: 500 }, { signal }), { every: 5000 });
  const columns = [
    {
      name: "topic",
      label: "Topic",
      class: "name fill",
      value: (row) => row.topic,
      cell: (row) => link(row.topic, ["dead-letters", row.topic]),
    },
    {
      name: "open",
      label: "Open",
      isNumber: true,
      value: (row) => row.records - row.redriven,
      cell: (row) => badge(number(row.records - row.redriven), row.records > row.redriven ? "warn" : "good"),
    },
    numbers("redriven", "Redriven"),
    numbers("records", "All", { isWide: true }),
  ];
  const draw = (items) => {
    if (items.length === 0)
      return empty(
        "No dead-letter records",
        "Records that a queue or share group rejects, or has delivered too often, go to dlq.<topic> and are listed here.",
      );
    return table({
      page,
      state: rows,
      label: "Dead letters",
      columns,
      rows: items,
      key: (row) => row.topic,
      onopen: (row) => go(["dead-letters", row.topic]),
    });
  };
  return () => [head({ title: "Dead letters" }), flushCard(null, show(list, draw, 5))];
}
