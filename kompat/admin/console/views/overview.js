/** The broker at a glance: what comes and goes, how fast it answers, and whether anything is wrong. */

import { all, get } from "../api.js";
import "../components/line-chart.js";
import { badge, card, head, select } from "../components/parts.js";
import { show } from "../components/states.js";
import { clusterFigures } from "../components/cluster-figures.js";
import { bytes, duration, short } from "../format.js";
import { Samples } from "../samples.js";
import { h } from "../vdom.js";

const SPAN = 5 * 60_000;

export default function overview(page) {
  page.title = "";
  const state = { scope: "broker" };
  let samples = new Samples(SPAN);
  const statistics = page.resource(
    async (signal) => {
      const wanted = samples;
      const told = await get("/v1/statistics", { since: wanted.last, scope: state.scope }, { signal });
      wanted.add(told);
      return told;
    },
    { every: 2000 },
  );
  const changeScope = () => {
    samples = new Samples(SPAN);
    statistics.reload();
  };
  const scopes = [
    ["broker", "this broker"],
    ["cluster", "all brokers"],
  ];
  const cluster = page.resource((signal) => get("/v1/cluster", null, { signal }), { every: 5000 });
  const waiting = page.resource((signal) => get("/v1/delayed/statistics", null, { signal }), { every: 5000 });
  const letters = page.resource((signal) => all("/v1/dead-letters", { limit: 500 }, { signal }), { every: 10_000 });

  const chart = (title, lines, format, hint = null) =>
    card(
      hint === null ? title : [title, h("small", null, ` ${hint}`)],
      h("line-chart", {
        label: title,
        format,
        span: samples.length,
        base: format === bytes ? 1024 : 10,
        series: lines.map(([name, field]) => ({ name, points: samples.line(field) })),
      }),
    );

  return () => [
    head({
      title: "Overview",
      badges: cluster.data && cluster.error === null
        ? [
            cluster.data.brokers.every((each) => each.isAlive)
              ? badge("all brokers up", "good")
              : badge("brokers missing", "bad"),
          ]
        : [],
      actions:
        cluster.data?.brokers.length > 1
          ? [select(state, "scope", scopes, changeScope, { "aria-label": "Charts of" })]
          : [],
    }),
    show(cluster, (told) =>
      clusterFigures(told, {
        waiting: waiting.data,
        letters: letters.data,
        connections: samples.newest("connections"),
        isOfAll: state.scope === "cluster",
      }),
    ),
    show(
      statistics,
      () => [
        h(
          "div",
          { class: "charts" },
          chart(
            "Records per second",
            [
              ["in", "messagesIn"],
              ["out", "messagesOut"],
            ],
            short,
          ),
          chart(
            "Bytes per second",
            [
              ["in", "bytesIn"],
              ["out", "bytesOut"],
            ],
            bytes,
          ),
          chart(
            "Produce latency",
            [
              ["p50", "produceP50"],
              ["p99", "produceP99"],
            ],
            duration,
          ),
          chart(
            "Fetch latency",
            [
              ["p50", "fetchP50"],
              ["p99", "fetchP99"],
            ],
            duration,
            "waits included",
          ),
          chart(
            "Requests per second",
            [
              ["requests", "requests"],
              ["errors", "errors"],
            ],
            short,
          ),
          chart("Connections", [["open", "connections"]], short),
        ),
      ],
      10,
    ),
  ];
}
