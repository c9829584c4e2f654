/** A topic's settings. */

import { path } from "../api.js";
import { settingsPage } from "../components/settings.js";
import { topicHead } from "../components/topic-head.js";

export default function topicSettings(page) {
  const { topic } = page.params;
  page.title = `Settings of ${topic}`;
  return settingsPage({
    page,
    address: path`/v1/topics/${topic}/configs`,
    above: () => topicHead(topic, "settings"),
  });
}
