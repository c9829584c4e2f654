/** What all pages of a topic begin with. */

import { to } from "../router.js";
import { head, tabs } from "./parts.js";

const PAGES = [
  ["", "Partitions"],
  ["messages", "Messages"],
  ["produce", "Produce"],
  ["delayed", "Delayed"],
  ["settings", "Settings"],
];

export function topicHead(topic, current, { badges = [], actions = [] } = {}) {
  const items = PAGES.map(([name, text]) => [name, text, to(["topics", topic, name].filter(Boolean))]);
  return [
    head({ trail: [["Topics", ["topics"]]], title: topic, badges, actions }),
    tabs(`Pages of ${topic}`, items, current),
  ];
}
