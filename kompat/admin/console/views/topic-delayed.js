/** What of a topic waits for its time. */

import { delayedList } from "../components/delayed-list.js";
import { topicHead } from "../components/topic-head.js";

export default function topicDelayed(page) {
  const topic = page.params.topic;
  page.title = `Delayed records of ${topic}`;
  const list = delayedList(page, () => topic);
  page.keys([{ keys: "r", label: "Reload", run: list.reload }]);
  return () => [topicHead(topic, "delayed"), list.draw()];
}
