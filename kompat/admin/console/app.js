/** The console: its frame, its pages, its keys. */

import { get, onUnauthorized, signedInAs, signOut } from "./api.js";
import { helpDialog } from "./components/help.js";
import { icon } from "./components/icons.js";
import { signInDialog } from "./components/sign-in.js";
import { bindKeys, focusSearch, moveRow } from "./keys.js";
import { go, startRouter, to } from "./router.js";
import { h, render } from "./vdom.js";

const SECTIONS = [
  ["", "Overview", "overview", "o"],
  ["topics", "Topics", "topics", "t"],
  ["groups", "Groups", "groups", "g"],
  ["queues", "Queues", "queues", "q"],
  ["delayed", "Delayed", "delayed", "d"],
  ["dead-letters", "Dead letters", "letters", "l"],
  ["traces", "Traces", "traces", "r"],
  ["transactions", "Transactions", "transactions", "x"],
  ["cluster", "Cluster", "cluster", "c"],
  ["security", "Security", "security", "s"],
];

const ROUTES = [
  ["/", () => import("./views/overview.js")],
  ["/topics", () => import("./views/topics.js")],
  ["/topics/:topic", () => import("./views/topic.js")],
  ["/topics/:topic/messages", () => import("./views/messages.js")],
  ["/topics/:topic/produce", () => import("./views/produce.js")],
  ["/topics/:topic/delayed", () => import("./views/topic-delayed.js")],
  ["/topics/:topic/settings", () => import("./views/topic-settings.js")],
  ["/topics/:topic/:partition/:offset/trace", () => import("./views/trace.js")],
  ["/groups", () => import("./views/groups.js")],
  ["/groups/:group", () => import("./views/group.js")],
  ["/groups/:group/settings", () => import("./views/group-settings.js")],
  ["/queues", () => import("./views/queues.js")],
  ["/queues/:topic/:group", () => import("./views/queue.js")],
  ["/delayed", () => import("./views/delayed.js")],
  ["/dead-letters", () => import("./views/dead-letters.js")],
  ["/dead-letters/:topic", () => import("./views/dead-letter-topic.js")],
  ["/traces", () => import("./views/traces.js")],
  ["/traces/:id", () => import("./views/trace.js")],
  ["/transactions", () => import("./views/transactions.js")],
  ["/cluster", () => import("./views/cluster.js")],
  ["/cluster/:broker", () => import("./views/broker.js")],
  ["/security", () => import("./views/security.js")],
];

const shell = document.getElementById("shell");
const page = document.getElementById("page");
const state = { section: "", isMenuOpen: false, version: null, cluster: null, isReachable: true };

function drawShell() {
  page.classList.toggle("stale", !state.isReachable); // what is shown was true once
  const current = window.kompatTheme.current();
  const user = signedInAs();
  render(
    shell,
    h(
      "header",
      { class: "bar" },
      h(
        "button",
        {
          type: "button",
          class: "quiet icon-only menu-button",
          "aria-label": "Menu",
          "aria-expanded": String(state.isMenuOpen),
          "aria-controls": "menu",
          onclick: () => toggleMenu(),
        },
        icon(state.isMenuOpen ? "close" : "menu"),
      ),
      h(
        "a",
        { class: "brand", href: to([]) },
        h("img", { src: "console/icon.svg", alt: "", width: 22, height: 22 }),
        "kompat",
      ),
      h("span", { class: "cluster-name", title: state.cluster ?? null }, state.cluster ?? ""),
      state.isReachable ? null : h("span", { class: "badge bad", role: "status" }, "broker unreachable"),
      h(
        "div",
        { class: "bar-end" },
        user === null
          ? null
          : h(
              "button",
              { type: "button", class: "quiet", title: "Sign out", onclick: () => (signOut(), location.reload()) },
              icon("user"),
              h("span", { class: "wide-only" }, user),
            ),
        h(
          "button",
          {
            type: "button",
            class: "quiet icon-only wide-only",
            "aria-label": "Keyboard shortcuts",
            title: "Keyboard shortcuts (?)",
            onclick: helpDialog,
          },
          icon("keyboard"),
        ),
        h(
          "button",
          {
            type: "button",
            class: "quiet icon-only",
            "aria-label": current === "dark" ? "Light theme" : "Dark theme",
            title: current === "dark" ? "Light theme" : "Dark theme",
            onclick: switchTheme,
          },
          icon(current === "dark" ? "sun" : "moon"),
        ),
      ),
    ),
    h(
      "nav",
      { class: state.isMenuOpen ? "menu is-open" : "menu", id: "menu", "aria-label": "Sections" },
      SECTIONS.map(([name, label, symbol, key]) =>
        h(
          "a",
          {
            href: to(name ? [name] : []),
            "aria-current": name === state.section ? "page" : null,
            onclick: () => toggleMenu(false),
          },
          icon(symbol),
          h("span", null, label),
          h("kbd", { "aria-hidden": "true" }, `g ${key}`),
        ),
      ),
      h("footer", null, h("a", { href: "docs" }, "REST API"), h("span", { class: "muted" }, state.version ?? "")),
    ),
  );
}

function toggleMenu(isOpen = !state.isMenuOpen) {
  state.isMenuOpen = isOpen;
  drawShell();
}

function switchTheme() {
  window.kompatTheme.toggle();
  drawShell();
}

async function look() {
  try {
    const told = await get("/version");
    state.version = told.version ? `kompat ${told.version}` : null;
    state.cluster = told.clusterId ?? state.cluster;
    state.isReachable = true;
  } catch (problem) {
    state.isReachable = problem.status > 0;
  }
  drawShell();
}

function start() {
  onUnauthorized(async (wereRefused) => {
    const given = await signInDialog(wereRefused);
    setTimeout(drawShell);
    return given;
  });
  bindKeys([
    ...SECTIONS.map(([name, label, , key]) => ({ keys: `g ${key}`, label, run: () => go(name ? [name] : []) })),
    { keys: "/", label: "Search this page", run: focusSearch },
    { keys: "j", label: "Next row", run: () => moveRow(1) },
    { keys: "k", label: "Previous row", run: () => moveRow(-1) },
    { keys: "b", label: "Back", run: () => history.back() },
    { keys: "D", label: "Dark or light", run: switchTheme },
    { keys: "?", label: "This help", run: helpDialog },
    { keys: "Escape", run: () => toggleMenu(false) },
  ]);
  document.getElementById("skip").onclick = (event) => {
    event.preventDefault();
    page.focus();
  };
  startRouter(ROUTES, page, (section) => {
    state.section = section;
    drawShell();
  });
  look();
  setInterval(() => document.hidden || look(), 15_000);
}

start();
