"""The dead-letter topics of share groups: the topic for a group's records, and the profile of their headers."""

from __future__ import annotations

import logging

from kompat.cluster import dead_letters
from kompat.cluster.service import ClusterService
from kompat.cluster.state import Topic
from kompat.extensions.dead_letters.share_groups import Profile
from kompat.share.settings import dead_letter_topic

logger = logging.getLogger(__name__)


class DeadLetterTopics:
    def __init__(self, cluster: ClusterService) -> None:
        self._cluster = cluster
        self._impossible: set[str] = set()  # topics that cannot be created, and were logged

    async def find(self, group_id: str, topic: str) -> Topic | None:
        """The dead-letter topic for a group's records from a topic, created if it does not exist. None: there is none."""
        name = dead_letters.topic_for(dead_letter_topic(self._cluster, group_id), topic)
        if name is None or self._is_impossible(name, group_id):
            return None
        refusals = await self._cluster.auto_create([name])
        if name in refusals:
            raise refusals[name]
        return self._cluster.topic(name)

    def profile(self, group_id: str) -> Profile:
        return Profile(self._cluster.group_setting(group_id, "kompat.deadletter.headers"))

    def _is_impossible(self, name: str, group_id: str) -> bool:
        """A name may become too long with the topic's, and older versions accepted every name. Records do not wait for such a topic."""
        wrong = dead_letters.impossible(name)
        if wrong is not None and name not in self._impossible:
            logger.warning("records that group %s gives up have no dead-letter records: %s", group_id, wrong)
            self._impossible.add(name)
        return wrong is not None
