/** A group's settings: of share groups and queues the locks, the limits, and where dead letters go. */

import { path } from "../api.js";
import { head } from "../components/parts.js";
import { settingsPage } from "../components/settings.js";

export default function groupSettings(page) {
  const { group } = page.params;
  page.title = `Settings of ${group}`;
  const trail = [
    ["Groups", ["groups"]],
    [group, ["groups", group]],
  ];
  return settingsPage({
    page,
    address: path`/v1/groups/${group}/configs`,
    above: () => head({ trail, title: `Settings of ${group}` }),
  });
}
