"""The table of leaders: whatever the order of the news, the newest leader is known, and nobody who cannot be reached."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.cluster.leaders import Announcement, Leaders, Led
from kompat.rpc import codec
from kompat.types import LeaderEpoch, LogId, NodeId

LOG, OTHER = LogId(UUID(int=5), 0), LogId(UUID(int=5), 1)
ONE, TWO = NodeId(1), NodeId(2)

NODES = st.integers(0, 2**31 - 1).map(NodeId)
EPOCHS = st.integers(0, 2**31 - 1).map(LeaderEpoch)
LOGS = st.builds(LogId, st.uuids(), st.integers(0, 2**31 - 1))


def led(leader: int | None, epoch: int, *in_sync: int) -> Led:
    return Led(None if leader is None else NodeId(leader), LeaderEpoch(epoch), tuple(NodeId(n) for n in in_sync))


def announcement(*rows: tuple[LogId, Led], is_whole: bool = False) -> Announcement:
    return Announcement(rows, is_whole)


@settings(deadline=None)
@given(st.permutations([(1, 0), (2, 1), (3, 2), (4, 3)]))
def test_the_highest_epoch_wins_in_whatever_order_it_is_heard(news: list[tuple[int, int]]) -> None:
    table = Leaders()
    for node, epoch in news:
        table.heard(NodeId(node), announcement((LOG, led(node, epoch))))

    assert table.of(LOG) == led(4, 3)


def test_a_leader_that_steps_down_leaves_none() -> None:
    table = Leaders()
    table.heard(ONE, announcement((LOG, led(1, 3, 1, 2))))
    table.heard(ONE, announcement((LOG, led(None, 3, 1, 2))))

    assert table.of(LOG) == led(None, 3, 1, 2)


def test_a_farewell_that_comes_late_does_not_hide_the_new_leader() -> None:
    table = Leaders()
    table.heard(TWO, announcement((LOG, led(2, 4))))
    table.heard(ONE, announcement((LOG, led(None, 4)), (OTHER, led(None, 3))))

    assert table.of(LOG) == led(2, 4)


def test_an_epoch_has_one_leader_whoever_else_claims_it() -> None:
    table = Leaders()
    table.heard(TWO, announcement((LOG, led(2, 4, 2))))
    table.heard(ONE, announcement((LOG, led(1, 4, 1))))
    assert table.of(LOG) == led(2, 4, 2)

    table.heard(TWO, announcement((LOG, led(2, 4, 1, 2))))
    assert table.of(LOG) == led(2, 4, 1, 2)


def test_whom_a_replica_has_heard_of_is_known_though_nobody_led_in_that_epoch_at_first() -> None:
    table = Leaders()
    table.heard(ONE, announcement((LOG, led(1, 3))))
    table.elected(LOG, None, LeaderEpoch(4))
    assert table.elected(LOG, TWO, LeaderEpoch(4))
    assert table.of(LOG) == led(2, 4)

    assert not table.elected(LOG, None, LeaderEpoch(4))
    assert table.of(LOG) == led(2, 4)


def test_what_a_whole_announcement_leaves_out_is_led_no_more() -> None:
    table = Leaders()
    table.heard(ONE, announcement((LOG, led(1, 1)), (OTHER, led(1, 1))))
    table.heard(ONE, announcement((OTHER, led(1, 1)), is_whole=True))

    assert table.of(LOG) == led(None, 1)
    assert table.of(OTHER) == led(1, 1)
    assert [log for log, _ in table.led_by(ONE)] == [OTHER]


def test_a_broker_out_of_reach_leads_nothing_until_it_is_there_again() -> None:
    table = Leaders()
    table.heard(ONE, announcement((LOG, led(1, 1, 1))))
    table.lost(ONE)
    assert table.of(LOG) == led(None, 1, 1)
    assert not table.is_up(ONE)

    table.found(ONE)
    assert table.of(LOG) == led(1, 1, 1)


def test_a_broker_that_has_lost_its_disk_begins_anew() -> None:
    table = Leaders()
    table.heard(ONE, announcement((LOG, led(1, 7))))
    table.heard(ONE, announcement((LOG, led(1, 0))))

    assert table.of(LOG) == led(1, 0)


def test_a_replica_hears_of_an_election_first() -> None:
    table = Leaders()
    table.heard(ONE, announcement((LOG, led(1, 1, 1, 2))))

    assert table.elected(LOG, None, LeaderEpoch(2))
    assert table.of(LOG) == led(None, 2, 1, 2)
    assert not table.elected(LOG, ONE, LeaderEpoch(1))
    table.heard(TWO, announcement((LOG, led(2, 2, 2))))
    assert table.of(LOG) == led(2, 2, 2)


def test_the_version_moves_when_something_changes_and_only_then() -> None:
    table = Leaders()
    table.heard(ONE, announcement((LOG, led(1, 1, 1))))
    before = table.version
    table.heard(ONE, announcement((LOG, led(1, 1, 1)), is_whole=True))
    table.found(ONE)
    assert table.version == before

    table.heard(ONE, announcement((LOG, led(1, 1, 1, 2))))
    assert table.version > before


def test_what_is_gone_is_forgotten() -> None:
    table = Leaders()
    table.heard(ONE, announcement((LOG, led(1, 1))))
    table.forget(LOG)
    table.forget(OTHER)

    assert table.of(LOG) is None


@settings(deadline=None)
@given(NODES, st.lists(st.tuples(LOGS, EPOCHS, st.booleans(), st.lists(NODES, max_size=5))), st.booleans())
def test_an_announcement_is_read_as_it_was_written(
    sender: NodeId, rows: list[tuple[LogId, LeaderEpoch, bool, list[NodeId]]], is_whole: bool
) -> None:
    written = Announcement(
        tuple((log, Led(sender if leads else None, epoch, tuple(nodes))) for log, epoch, leads, nodes in rows), is_whole
    )

    assert codec.decode(Announcement, codec.encode(written)) == written
