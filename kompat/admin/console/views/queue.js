/** A queue: how deep it is, by class; what is in flight; how often it was delivered; over time. */

import { all, get, path } from "../api.js";
import "../components/line-chart.js";
import { bars, button, card, figures, head, link, topicLink } from "../components/parts.js";
import { show } from "../components/states.js";
import { takeOne } from "../components/take.js";
import { number, plural, short } from "../format.js";
import { lengthOf, sampled, samplesOf } from "../samples.js";
import { h } from "../vdom.js";

const NAMES = { 9: "critical", 7: "high", 4: "normal", 2: "low", 0: "background" };
const LETTERS = "errors.deadletterqueue.topic.name";
const USUAL_LETTERS = "dlq.<topic>"; // of queues, unless their group asks for another topic, or for none
const SPAN = 10 * 60_000;

export default function queue(page) {
  const { topic, group } = page.params;
  page.title = `Queue ${group}`;
  const samples = samplesOf(`queue ${topic} ${group}`);
  const found = page.resource(
    async (signal) => {
      const told = await get(path`/v1/queues/${topic}/groups/${group}`, null, { signal });
      sampled(samples, told, SPAN);
      return told;
    },
    { every: 2000 },
  );
  const letters = page.resource((signal) => lettersOf(topic, group, signal), { every: 10_000 });
  const take = () => takeOne(topic, group, found.reload);
  page.keys([{ keys: "t", label: "Acquire a record", run: take }]);
  const line = (name, field) => ({ name, points: samples.map(([at, told]) => [at, told[field]]) });

  return () => [
    head({
      trail: [["Queues", ["queues"]]],
      title: group,
      actions: [
        h(
          "span",
          { class: "muted" },
          "of topic ",
          topicLink(topic),
          found.data?.queueTopic ? [", by ", topicLink(found.data.queueTopic)] : null,
        ),
        link("Settings", ["groups", group, "settings"], {}, { class: "button" }),
        button("Acquire a record", take, { keys: "t" }),
      ],
    }),
    show(
      found,
      (told) => [
        totals(told, letters.data),
        h(
          "div",
          { class: "columns" },
          card("Depth by class", depth(told.depthByClass ?? {})),
          card("Deliveries of unacknowledged records", deliveries(told.deliveries ?? {})),
        ),
        card(
          ["Over time", h("small", null, " while this page is open")],
          h("line-chart", {
            label: "Depth",
            format: short,
            span: lengthOf(samples),
            series: [line("available", "available"), line("in flight", "inFlight"), line("backing off", "backingOff")],
          }),
        ),
      ],
      8,
    ),
  ];
}

/** Where this group's dead letters go, and how many are there. */
async function lettersOf(topic, group, signal) {
  const { items: settings } = await get(path`/v1/groups/${group}/configs`, { search: LETTERS }, { signal });
  const setting = settings.find((each) => each.name === LETTERS);
  const name = setting && !setting.isDefault ? setting.value : USUAL_LETTERS;
  const found = await all("/v1/dead-letters", { limit: 500 }, { signal });
  return found.filter((each) => each.topic === name.replace("<topic>", topic));
}

function totals(told, letters) {
  const known = letters ?? [];
  const count = known.reduce((sum, each) => sum + each.records - each.redriven, 0);
  return figures(
    ["Available", number(told.available)],
    ["In flight", number(told.inFlight), "acquired, not acknowledged"],
    ["Backing off", number(told.backingOff), "to come again later"],
    ["Archiving", number(told.archiving)],
    [
      "Dead letters",
      known.length > 0 ? link(number(count), ["dead-letters", known[0].topic]) : link("see all", ["dead-letters"]),
      known.length > 0 ? "not redriven" : null,
      count > 0 ? "warn" : "",
    ],
  );
}

function depth(classes) {
  const counts = Object.entries(classes).sort(([one], [other]) => Number(other) - Number(one));
  if (counts.length === 0) return h("p", { class: "muted" }, "There are no available records.");
  return bars(
    counts.map(([level, count]) => [
      NAMES[level] ? `${level} ${NAMES[level]}` : level,
      count,
      `Class ${level}: ${plural(count, "record")}`,
    ]),
  );
}

function deliveries(counts) {
  const known = Object.entries(counts).sort(([one], [other]) => Number(one) - Number(other));
  if (known.length === 0) return h("p", { class: "muted" }, "There are no unacknowledged deliveries.");
  return bars(
    known.map(([times, count]) => [
      times === "0" ? "never" : times === "1" ? "once" : `${times} times`,
      count,
      `${times}: ${plural(count, "record")}`,
      Number(times) > 1 ? "warn" : "",
    ]),
  );
}
