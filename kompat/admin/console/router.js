/** Which view an address means: `#/topics/orders/messages?partition=0`. */

import { Page } from "./page.js";
import { problemBox } from "./components/states.js";
import { Problem } from "./api.js";
import { render } from "./vdom.js";

let current = null;
let routes = [];
let afterwards = () => {};

export function startRouter(table, root, onChange) {
  routes = table.map(([pattern, load]) => ({ load, names: pattern.split("/").slice(1) }));
  afterwards = onChange;
  addEventListener("hashchange", () => show(root));
  show(root);
}

/** The address of a view; names are escaped, a query's empty values left out. */
export function to(names, query = {}) {
  const search = new URLSearchParams(
    Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined),
  );
  const path = names.map((name) => encodeURIComponent(name)).join("/");
  return `#/${path}${search.size > 0 ? `?${search}` : ""}`;
}

export function go(names, query) {
  location.hash = to(names, query);
}

export function section() {
  return parse().names[0] ?? "";
}

function parse() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const names = path.split("/").filter(Boolean).map(decode);
  return { names, query: Object.fromEntries(new URLSearchParams(search)) };
}

function decode(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // a stray % of somebody's
  }
}

function match(names) {
  for (const route of routes) {
    if (route.names.length !== names.length && !(names.length === 0 && route.names[0] === "")) continue;
    const params = {};
    const fits = route.names.every((part, at) => {
      if (!part.startsWith(":")) return part === (names[at] ?? "");
      params[part.slice(1)] = names[at];
      return true;
    });
    if (fits) return { ...route, params };
  }
  return null;
}

async function show(root) {
  const address = location.hash;
  const { names, query } = parse();
  const found = match(names);
  current?.leave();
  root.setAttribute("aria-busy", "true"); // until the new page stands in the place of the old one
  const page = new Page(root, { params: found?.params ?? {}, query, setQuery: (changes) => setQuery(names, changes) });
  current = page;
  afterwards(names[0] ?? "");
  if (found === null) {
    page.title = "Not found";
    render(root, problemBox(new Problem({ title: "This page does not exist", detail: location.hash })));
    return;
  }
  try {
    const view = (await found.load()).default;
    if (!page.isOpen) return;
    scrollTo(0, 0);
    page.open(view);
    root.dataset.address = address;
    root.removeAttribute("aria-busy");
  } catch (error) {
    console.error(error);
    render(root, problemBox(new Problem({ title: "This page could not be loaded", detail: String(error) })));
  }
}

/** Remember in the address what the view shows, without opening it anew: so it can be sent to somebody. */
function setQuery(names, changes) {
  const query = { ...parse().query, ...changes };
  history.replaceState(null, "", to(names, query));
  if (current) current.query = query;
}
