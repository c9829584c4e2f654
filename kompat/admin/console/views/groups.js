/** All groups: of consumers, of the classic kind, and share groups. */

import { all } from "../api.js";
import { badge, flushCard, head, link, search, select } from "../components/parts.js";
import { empty, show } from "../components/states.js";
import { numbers, table, tableState } from "../components/table.js";
import { number } from "../format.js";
import { go } from "../router.js";
import { h } from "../vdom.js";

export const groupTone = (state) =>
  ({
    stable: "good",
    empty: "",
    dead: "bad",
    preparingrebalance: "warn",
    completingrebalance: "warn",
    assigning: "warn",
    reconciling: "warn",
  })[
    String(state)
      .toLowerCase()
      .replaceAll(/[^a-z]/g, "")
  ] ?? "";

export default function groups(page) {
  page.title = "Groups";
  const state = { search: page.query.search ?? "", type: "" };
  const rows = tableState("group");
  const list = page.resource((signal) => all("/v1/groups", { limit: 500 }, { signal }), { every: 5000 });
  const columns = [
    {
      name: "group",
      label: "Group",
      class: "name fill",
      value: (row) => row.group,
      cell: (row) => link(row.group === "" ? "(no name)" : row.group, ["groups", row.group]),
    },
    {
      name: "type",
      label: "Type",
      isWide: true,
      value: (row) => row.type,
      cell: (row) => badge(row.type, row.type === "share" ? "violet" : ""),
    },
    { name: "state", label: "State", value: (row) => row.state, cell: (row) => badge(row.state, groupTone(row.state)) },
    numbers("members", "Members", { isWide: true }),
    numbers("lag", "Lag"),
    {
      name: "coordinator",
      label: "Coordinator",
      isNumber: true,
      isWide: true,
      value: (row) => row.coordinator,
      cell: (row) => (row.coordinator === null ? "–" : `broker ${row.coordinator}`),
    },
  ];
  const draw = (items) => {
    const wanted = state.search.toLowerCase();
    const found = items.filter(
      (item) => item.group.toLowerCase().includes(wanted) && (state.type === "" || item.type === state.type),
    );
    if (items.length === 0)
      return empty(
        "No groups yet",
        "A group is listed when it has its first member or its first committed offset.",
      );
    if (found.length === 0) return empty("No matching groups");
    return table({
      page,
      state: rows,
      label: "Groups",
      columns,
      rows: found,
      key: (row) => row.group,
      onopen: (row) => go(["groups", row.group]),
    });
  };
  const find = (text) => {
    state.search = text;
    page.setQuery({ search: text });
    page.redraw();
  };
  return () => [
    head({ title: "Groups", badges: list.data ? [badge(number(list.data.length))] : [] }),
    h(
      "div",
      { class: "toolbar" },
      search({ value: state.search, label: "Search groups", oninput: find }),
      select(
        state,
        "type",
        [
          ["", "All types"],
          ["consumer", "consumer"],
          ["classic", "classic"],
          ["share", "share"],
        ],
        page.redraw,
        { "aria-label": "Type" },
      ),
    ),
    flushCard(null, show(list, draw, 6)),
  ];
}
