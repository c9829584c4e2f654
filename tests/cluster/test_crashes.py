"""A broker that dies at any turn of its loop: what was answered stays, what was not is there whole or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cluster.requests import NewTopic
from kompat.cluster.service import ClusterService
from kompat.errors import KafkaError
from kompat.log.commit import Fsync
from tests.cluster.support import replacing, service_on, topic
from tests.coordination.support import Disk, Node

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("alter"), NAMES),
        st.tuples(st.just("full"), st.just("")),
        st.tuples(st.just("broken"), st.just("")),
        st.tuples(st.just("crash"), st.just("")),
    ),
    max_size=25,
)


class Client:
    """Knows what it was told of each topic: its settings, None where there is none, or that it cannot know."""

    def __init__(self) -> None:
        self.known: dict[str, str | None] = {}
        self.unsure: Counter[str] = Counter()  # requests without an answer, by topic
        self.count = 0

    async def act(self, service: ClusterService, what: str, name: str) -> None:
        self.count += 1
        value = str(self.count)
        self.unsure[name] += 1
        try:
            if what == "create":
                done = (await service.create_topics([NewTopic(name, configs={"flush.ms": value})]))[name]
                changed = {} if isinstance(done, KafkaError) else {name: value}
            elif what == "delete":
                gone = (await service.delete_topics([name]))[name]
                changed = {} if isinstance(gone, KafkaError) else {name: None}
            else:
                [refused] = await service.alter_configs([replacing(topic(name), ("flush.ms", value))])
                changed = {} if refused is not None else {name: value}
        except KafkaError:  # of the disk: it may have happened
            return
        self.known |= changed
        self.unsure[name] -= 1

    def check(self, service: ClusterService) -> None:
        for name in (name for name in self.known if not self.unsure[name]):
            found = service.topic(name)
            assert (found.configs["flush.ms"] if found else None) == self.known[name], name


@given(STEPS, st.integers(0, 4), st.sampled_from(["never", "always"]))
@settings(max_examples=40, deadline=None)
def test_what_was_answered_survives_every_crash(steps: list[tuple[str, str]], turns: int, fsync: Fsync) -> None:
    asyncio.run(_live(steps, turns, fsync))


async def _live(steps: list[tuple[str, str]], turns: int, fsync: Fsync) -> None:
    disk, client = Disk(), Client()
    node = Node(disk, fsync=fsync)
    service = await service_on(node)
    under_way: list[asyncio.Task[None]] = []
    for what, name in [*steps, ("crash", "")]:
        if what == "full":
            disk.is_full = not disk.is_full
        elif what == "broken":
            disk.is_broken = not disk.is_broken
        elif what == "crash":
            disk = disk.crash()
            for task in under_way:  # their clients never hear
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            under_way.clear()
            await _end(service, node)
            node = Node(disk, fsync=fsync)
            service = await service_on(node)
            client.check(service)
            client.unsure.clear()
            client.known = {each.name: each.configs["flush.ms"] for each in service.topics()}
        else:
            under_way.append(asyncio.ensure_future(client.act(service, what, name)))
            for _ in range(turns):
                await asyncio.sleep(0)
    assert len(service.topics()) <= 3
    await _end(service, node)


async def _end(service: ClusterService, node: Node) -> None:
    """A task that starts when the loop is closing would never run, and be complained of in whichever test comes next."""
    await service.close()
    await node.close()
