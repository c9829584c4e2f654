"""Share groups under test: whoever makes their states is played by the test."""

from collections.abc import Iterable
from typing import Any

from kompat.groups.records import Assignment
from kompat.share.groups.machine.commands import ShareGroups
from kompat.share.groups.machine.group import ShareGroup
from kompat.share.groups.machine.heartbeat import ShareProtocol
from kompat.share.groups.machine.messages import DescribedShareGroup, ShareHeartbeatReply, ShareHeartbeatRequest
from tests.groups.harness import CLIENT, Groups, topic_id_of


class Sharing(Groups):
    kinds = (ShareProtocol,)

    def share(self, group_id: str = "g") -> ShareGroup:
        group = self.machine._state.groups[group_id]
        assert isinstance(group, ShareGroup)
        return group

    def share_beat(self, member_id: str, epoch: int, *, group_id: str = "g", **options: Any) -> ShareHeartbeatReply:
        options.setdefault("client", CLIENT)
        request = ShareHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **options)
        return self.run(lambda machine: ShareGroups(machine).heartbeat(request, self.now))

    def share_join(
        self, member_id: str, topics: Iterable[str] = ("orders",), *, group_id: str = "g", **options: Any
    ) -> ShareHeartbeatReply:
        return self.share_beat(member_id, 0, group_id=group_id, subscribed_topic_names=tuple(topics), **options)

    def prepare(self, member_id: str, topics: Iterable[str] = ("orders",), *, group_id: str = "g") -> Assignment:
        request = ShareHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=0, subscribed_topic_names=tuple(topics), client=CLIENT
        )
        return self.run(lambda machine: ShareGroups(machine).prepare(request, self.now))

    def made(self, partitions: Assignment, *, group_id: str = "g", ok: bool = True) -> None:
        self.run(lambda machine: ShareGroups(machine).states_made(group_id, partitions, ok=ok, now=self.now))

    def enter_share(
        self, member_id: str, topics: Iterable[str] = ("orders",), *, group_id: str = "g", **options: Any
    ) -> ShareHeartbeatReply:
        """Join as the service lets members join: with states for all partitions, and after the last assignment."""
        names = tuple(topics)
        self.advance(self.settings.share_of(group_id).assignment_interval_ms)
        missing = self.prepare(member_id, names, group_id=group_id)
        if missing:
            self.made(missing, group_id=group_id)
        return self.share_join(member_id, names, group_id=group_id, **options)

    def assigned(self, *member_ids: str, group_id: str = "g") -> list[dict[str, set[int]]]:
        """What members are told that they have, by topic name, when all of them were heard of."""
        for member_id in member_ids:
            self.share_beat(member_id, self.share(group_id).members[member_id].epoch, group_id=group_id)
        members = self.share(group_id).members
        return [named(members[member_id].assigned) for member_id in member_ids]

    def describe_share(self, group_id: str = "g") -> DescribedShareGroup:
        return self.run(lambda machine: ShareGroups(machine).describe([group_id]))[0]


def named(assignment: Assignment | None) -> dict[str, set[int]]:
    names = {topic_id_of(name): name for name in ("orders", "bills", "letters")}
    assert assignment is not None
    return {names[topic_id]: set(numbers) for topic_id, numbers in assignment.items()}
