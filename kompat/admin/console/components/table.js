/**
 * Tables. Columns: {name, label, cell(row), value(row) to sort by, isNumber, isWide (left out on phones), width}.
 *
 * Long ones draw only the rows in sight: rows have one height then.
 */

import { number } from "../format.js";
import { h } from "../vdom.js";

const ROW = 36; // as --row in styles/parts.css
const LONG = 150; // rows from which only those in sight are drawn
const AROUND = 12; // rows more, above and below, so that scrolling finds them there

/** What a table remembers between drawings. */
export const tableState = (sort = null, isDown = false) => ({ sort, isDown, top: 0 });

/** A column of numbers: a field of the rows, as `format` tells it. */
export const numbers = (name, label, { format = number, of = (row) => row[name], ...rest } = {}) => ({
  name,
  label,
  isNumber: true,
  value: of,
  cell: (row) => format(of(row)),
  ...rest,
});

export function table({ page, state, label, columns, rows, key, onopen, isOpen }) {
  const sorted = sort(rows, columns, state);
  const isLong = state !== null && sorted.length > LONG;
  const range = isLong ? inSight(page, state, sorted.length) : { first: 0, end: sorted.length };
  const body = sorted
    .slice(range.first, range.end)
    .map((row, at) => drawRow({ row, at: range.first + at, columns, key, onopen, isOpen }));
  return h(
    "div",
    { class: "table-frame" },
    h(
      "table",
      { class: isLong ? "long" : "", "aria-label": label, "aria-rowcount": sorted.length + 1 },
      h(
        "thead",
        null,
        h(
          "tr",
          { "aria-rowindex": 1 },
          columns.map((column) => heading(column, state, page)),
        ),
      ),
      h(
        "tbody",
        { ref: (node) => state && (state.node = node) },
        isLong ? spacer("above", range.first) : null,
        body,
        isLong ? spacer("below", sorted.length - range.end) : null,
      ),
    ),
  );
}

function inSight(page, state, count) {
  page.followScroll();
  const box = state.node?.isConnected ? state.node.getBoundingClientRect() : null;
  const above = box === null ? 0 : Math.max(0, -box.top);
  const first = Math.max(0, Math.min(count, Math.floor(above / ROW)) - AROUND);
  return { first, end: Math.min(count, first + Math.ceil(innerHeight / ROW) + 2 * AROUND) };
}

function spacer(name, rows) {
  return h(
    "tr",
    { key: `spacer-${name}`, class: "spacer", "aria-hidden": "true" },
    h("td", { style: { height: `${rows * ROW}px` } }),
  );
}

function drawRow({ row, at, columns, key, onopen, isOpen }) {
  const props = {
    key: `row-${key(row)}`,
    "data-row": true,
    "aria-rowindex": at + 2,
    class: isOpen?.(row) ? "is-open" : "",
  };
  if (onopen) {
    props.class += " can-open";
    props.onclick = (event) => {
      if (!event.target.closest("a, button, input, label") && getSelection().isCollapsed) onopen(row);
    };
    // Of a row that can be chosen the box is what `j` and `k` find.
    props.onkeydown = (event) => {
      if (event.key !== "Enter" || event.target.type !== "checkbox") return;
      event.preventDefault(); // or the key would press what has the focus then
      onopen(row);
    };
  }
  return h(
    "tr",
    props,
    columns.map((column) => h("td", { class: classes(column) }, column.cell(row))),
  );
}

function classes(column) {
  return [column.isNumber ? "number" : "", column.isWide ? "wide-only" : "", column.class ?? ""].join(" ").trim();
}

function heading(column, state, page) {
  const isSorted = state?.sort === column.name;
  const props = {
    scope: "col",
    class: classes(column),
    "aria-sort": isSorted ? (state.isDown ? "descending" : "ascending") : null,
  };
  if (!state || !column.value) return h("th", props, column.label);
  const onclick = () => {
    // Numbers first from the top: that is what one looks for.
    state.isDown = isSorted ? !state.isDown : Boolean(column.isNumber);
    state.sort = column.name;
    page.redraw();
  };
  return h(
    "th",
    props,
    h(
      "button",
      { type: "button", class: "sorter", onclick },
      column.label,
      h("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (state.isDown ? "▾" : "▴") : ""),
    ),
  );
}

function sort(rows, columns, state) {
  const column = columns.find((each) => each.name === state?.sort);
  if (!column?.value) return rows;
  const sign = state.isDown ? -1 : 1;
  return rows
    .map((row) => [column.value(row), row])
    .sort(([one], [other]) => sign * compare(one, other))
    .map(([, row]) => row);
}

function compare(one, other) {
  if (typeof one === "string" || typeof other === "string")
    return String(one ?? "").localeCompare(String(other ?? ""), "en", { numeric: true });
  return (one ?? -Infinity) - (other ?? -Infinity) || 0;
}
