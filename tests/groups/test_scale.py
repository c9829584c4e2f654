"""A thousand members in one group: measured 0.1 s of CPU for a classic rebalance, 0.25 s for consumers to share.

The limits leave room for a busy machine; work that grows with the square of the members would break them.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kompat.errors import ErrorCode
from tests.groups.harness import Groups, replicated, table, topic_id_of

MEMBERS = 1_000
ORDERS = topic_id_of("orders")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


def test_a_thousand_classic_members_rebalance() -> None:
    groups = Groups()
    with within(1):
        members = [groups.joined(groups.join()).member_id for _ in range(MEMBERS)]
        tokens = [groups.join(member_id=each) for each in members]
        groups.advance(2 * groups.settings.initial_rebalance_delay_ms)
        generation = groups.joined(tokens[0]).generation_id
        groups.sync(members[0], generation, dict.fromkeys(members, b"assignment"))
        syncs = [groups.sync(each, generation) for each in members[1:]]

    assert len(groups.joined(tokens[0]).members) == MEMBERS
    assert all(groups.synced(token).assignment == b"assignment" for token in syncs)

    with within(1):  # one more comes: all rejoin
        groups.join_with_id()
        assert groups.heartbeat(members[1], generation) is ErrorCode.REBALANCE_IN_PROGRESS
        rejoined = [groups.join(member_id=each) for each in members]
    assert groups.joined(rejoined[0]).generation_id == generation + 1


def test_a_thousand_consumers_come_and_share() -> None:
    groups = Groups(topics=table(orders=2 * MEMBERS))
    names = [f"member-{number}" for number in range(MEMBERS)]
    with within(1.5):
        epochs = {name: groups.enter(name).member_epoch for name in names}
        groups.advance(1_000)
        owned: dict[str, tuple[int, ...]] = dict.fromkeys(names, ())
        for _ in range(4):
            for name in names:
                reply = groups.beat(name, epochs[name], topic_partitions={ORDERS: owned[name]})
                epochs[name] = reply.member_epoch
                if reply.assignment is not None:
                    owned[name] = tuple(reply.assignment.get(ORDERS, ()))

    assert groups.consumer().state == "Stable"
    assert sorted(number for part in owned.values() for number in part) == list(range(2 * MEMBERS))
    assert {len(part) for part in owned.values()} == {2}
    with within(1):
        assert replicated(groups.replayed(groups.log)) == replicated(groups.machine)


def test_heartbeats_without_news_are_cheap() -> None:
    groups = Groups()
    reply = groups.enter("a")
    (member,) = groups.stable(1, "classic")
    with within(2):
        for _ in range(10_000):
            groups.beat("a", reply.member_epoch)
            groups.heartbeat(member, 1, group_id="classic")


def test_commits_are_cheap() -> None:
    groups = Groups()
    with within(2):
        for number in range(10_000):
            groups.commit(number, group_id=f"g{number % 1_000}")


def test_a_thousand_sessions_that_end_together_are_one_change_of_the_group() -> None:
    groups = Groups()
    for number in range(MEMBERS):
        groups.enter(f"member-{number}")
    epoch = groups.consumer().epoch
    groups.restart()
    with within(1):
        groups.advance(45_000)

    assert groups.consumer().is_empty
    assert groups.consumer().epoch == epoch + 1
