"""Who is there and who leads what: told to all, heard from all, and forgotten when a broker is gone for long."""

from __future__ import annotations

import asyncio

from kompat.cluster.leaders import Announcement, Led
from kompat.cluster.leadership import GRACE, Leadership
from kompat.cluster.messages import AnnounceLeaders, DescribeLeaders
from kompat.cluster.state import Address, Broker
from kompat.errors import PeerTimeout, PeerUnavailable
from kompat.log.partition import Partition
from kompat.types import LeaderEpoch, NodeId
from tests.cluster.brokers import LOG, ME, THREE, TWO, Copy, Links, leading, network, partition, router

MINE = Led(ME, LeaderEpoch(1), (ME,))


async def test_what_this_broker_leads_is_told_to_all_that_are_there() -> None:
    links = Links()
    net = network(links, THREE)
    links.up = {TWO}
    net.linked(TWO)  # though nobody has heard of it before
    net.announce(LOG, MINE)
    await asyncio.sleep(0.005)

    assert links.announcements(TWO)[1:] == [Announcement(((LOG, MINE),))]
    assert links.announcements(THREE) == []
    net.announce(LOG, MINE)  # no news
    await asyncio.sleep(0.005)
    assert len(links.calls) == 2
    await net.close()


async def test_a_lead_that_a_replica_here_hears_of_first_is_told_all_the_same() -> None:
    links = Links()
    links.up = {TWO}
    net = network(links, TWO)
    net.linked(TWO)
    won = Led(ME, LeaderEpoch(2), (ME,))
    net.leaders.heard(TWO, Announcement(((LOG, Led(TWO, LeaderEpoch(1), (ME,))),)))
    net.elected(LOG, Led(ME, LeaderEpoch(2), ()))
    net.announce(LOG, won)
    await asyncio.sleep(0.005)

    assert links.announcements(TWO)[-1] == Announcement(((LOG, won),))
    await net.close()


async def test_a_broker_that_comes_is_told_everything() -> None:
    links = Links()
    net = network(links, TWO)
    net.announce(LOG, MINE)
    await asyncio.sleep(0)
    links.up = {TWO}
    net.linked(TWO)
    await asyncio.sleep(0.005)

    assert links.announcements(TWO)[-1] == Announcement(((LOG, MINE),), is_whole=True)
    await net.close()


async def test_who_did_not_hear_is_told_again_and_who_is_gone_is_not() -> None:
    links = Links()
    links.up = {TWO}
    net = network(links, TWO, THREE)
    net.announce(LOG, MINE)
    await asyncio.sleep(0)
    links.errors = [PeerTimeout("slow")]
    net.linked(TWO)
    assert await net.until(lambda: False, 1.2) is False
    assert links.announcements(TWO) == [Announcement(((LOG, MINE),), is_whole=True)]

    links.errors = [PeerUnavailable("gone", is_sent=True)]
    links.up.clear()
    net.linked(THREE)
    await asyncio.sleep(0.005)
    assert links.announcements(THREE) == []
    await net.close()


async def test_a_broker_without_a_link_is_there_for_a_while_yet() -> None:
    links = Links()
    net = network(links, TWO)
    assert net.is_up(TWO)  # it may just not have answered yet
    assert await net.until(lambda: not net.is_up(TWO), 5)

    links.up = {TWO}
    net.linked(TWO)
    assert net.is_up(TWO)
    net.unlinked(TWO)
    net.linked(TWO)
    assert not await net.until(lambda: not net.is_up(TWO), 0.05)
    assert net.is_up(ME)
    await net.close()


async def test_a_broker_that_only_others_reach_is_there_and_leads_what_they_say() -> None:
    links = Links()
    net = network(links, TWO, THREE)
    links.up = {THREE}
    theirs = Led(TWO, LeaderEpoch(7), (TWO, THREE))
    links.known_to_others[TWO] = Announcement(((LOG, theirs),), is_whole=True)

    assert await net.until(lambda: net.leaders.of(LOG) == theirs, 5)
    assert net.is_up(TWO)

    links.known_to_others.clear()  # the others have lost it, too
    assert await net.until(lambda: not net.is_up(TWO), 5)
    await net.close()


async def test_others_are_told_of_a_broker_that_this_one_reaches() -> None:
    links = Links()
    rpc = router(links)
    net = network(links, TWO, THREE, rpc=rpc)
    theirs = Announcement(((LOG, Led(TWO, LeaderEpoch(7), (TWO,))),), is_whole=True)
    net.leaders.heard(TWO, theirs)

    assert await rpc.call(ME, DescribeLeaders(TWO)) is None
    links.up = {TWO}
    assert await rpc.call(ME, DescribeLeaders(TWO)) == theirs
    await net.close()


async def test_who_has_lost_most_of_the_others_sends_clients_away_to_them() -> None:
    links = Links()
    links.up = {TWO, THREE}
    net = network(links, TWO, THREE, voters=lambda: [ME, TWO, THREE])
    theirs = Led(TWO, LeaderEpoch(4), (TWO,))
    net.leaders.heard(TWO, Announcement(((LOG, theirs),)))
    net.look()
    assert all(map(net.is_listed, (ME, TWO, THREE)))

    links.up = {THREE}
    net.unlinked(TWO)
    assert await net.until(lambda: not net.is_listed(TWO), 5)
    assert net.is_listed(ME)
    assert net.leaders.of(LOG) == Led(None, LeaderEpoch(4), (TWO,))

    links.up = set()
    net.unlinked(THREE)
    assert [node for node in (ME, TWO, THREE) if net.is_listed(node)] == [TWO, THREE]
    assert net.leaders.of(LOG) == theirs  # it may well lead still
    links.gone = {TWO}
    assert not net.is_listed(ME)
    before = net.stamp
    links.gone = {TWO, THREE}  # there is nobody to send them to
    assert net.is_listed(ME)
    assert net.stamp != before  # answers that are remembered are not told again
    links.gone = set()
    links.up = {TWO}
    net.linked(TWO)
    assert net.is_listed(ME)
    await net.close()


async def test_links_follow_the_brokers_that_are_registered() -> None:
    links = Links()
    net = network(links, TWO)
    net.follow(
        {ME: Broker(ME, peer=Address("me", 1)), TWO: Broker(TWO, peer=Address("moved", 9)), THREE: Broker(THREE)}
    )
    assert links.dialled == {TWO: ("moved", 9)}

    net.follow({}, gone=[TWO])
    assert links.dialled == {}
    await net.close()


async def test_what_others_announce_is_known() -> None:
    links = Links()
    rpc = router(links)
    net = network(links, TWO, rpc=rpc)
    theirs = Led(TWO, LeaderEpoch(4), (TWO,))
    await rpc.call(ME, AnnounceLeaders(TWO, Announcement(((LOG, theirs),))))

    assert net.leaders.of(LOG) == theirs
    await net.close()


# -- what is led here --------------------------------------------------------------------------------------------------
class Watcher:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def leading(self, partition: Partition, epoch: LeaderEpoch) -> None:
        self.heard.append(f"leading in {epoch}")

    def following(self, partition: Partition) -> None:
        self.heard.append("following")


async def test_a_lead_is_told_with_who_is_in_sync_and_so_is_its_loss() -> None:
    net = network(Links(), TWO)
    replica = Copy(ME, TWO)
    leadership, log = leading(net, replica)
    assert net.leaders.of(LOG) == Led(ME, LeaderEpoch(1), (ME, TWO))

    replica.synced = [ME]
    leadership.members_changed(log)
    assert net.leaders.of(LOG) == Led(ME, LeaderEpoch(1), (ME,))
    leadership.following(log, TWO, LeaderEpoch(2))
    assert net.leaders.of(LOG) == Led(TWO, LeaderEpoch(2), (ME,))
    assert not leadership.is_led(LOG)
    await net.close()


async def test_an_epoch_that_another_leads_in_is_never_claimed() -> None:
    """A broker that was paused looks at its followers before it hears that it has lost the lead: the partition is in the next
    epoch by then, and those who are in sync have changed."""
    net = network(Links(), TWO)
    replica = Copy(ME, TWO)
    leadership, log = leading(net, replica)
    replica.synced = [ME]
    replica.is_leading, replica.epoch, log.leader_epoch = False, LeaderEpoch(2), LeaderEpoch(2)
    leadership.members_changed(log)
    assert net.leaders.of(LOG) == Led(ME, LeaderEpoch(1), (ME, TWO))

    leadership.following(log, TWO, LeaderEpoch(2))
    assert net.leaders.of(LOG) == Led(TWO, LeaderEpoch(2), (ME, TWO))
    await net.close()


async def test_a_lead_that_nobody_takes_over_is_told_of_after_a_moment() -> None:
    net = network(Links(), TWO)
    leadership, log = leading(net, Copy(ME, TWO))
    leadership.following(log, None, LeaderEpoch(1))
    assert net.leaders.of(LOG) == Led(ME, LeaderEpoch(1), (ME, TWO))  # another may lead at once

    assert await net.until(lambda: net.leaders.of(LOG) == Led(None, LeaderEpoch(1), (ME, TWO)), 5)
    await net.close()


async def test_a_lead_that_is_taken_over_at_once_is_never_told_to_be_nobodys() -> None:
    net = network(Links(), TWO, lost_after=60)
    leadership, log = leading(net, Copy(ME, TWO))
    leadership.following(log, None, LeaderEpoch(2))
    leadership.following(log, TWO, LeaderEpoch(2))

    assert not await net.until(lambda: net.leaders.of(LOG) != Led(TWO, LeaderEpoch(2), (ME, TWO)), 2 * GRACE)
    await net.close()


async def test_whoever_works_for_leaders_hears_of_what_was_led_before_it_came() -> None:
    net = network(Links(), TWO)
    leadership = Leadership(net)
    log = partition()
    leadership.own(log)  # the only replica leads
    watcher = Watcher()
    leadership.watch(watcher)
    leadership.following(log, None, LeaderEpoch(1))
    leadership.drop(LOG)

    assert watcher.heard == ["leading in 0", "following"]
    assert leadership.replica(LOG) is None
    await net.close()


async def test_a_broker_that_has_no_replica_any_more_still_knows_who_leads() -> None:
    net = network(Links(), TWO)
    leadership, log = leading(net, Copy(ME, TWO))
    leadership.following(log, TWO, LeaderEpoch(2))
    leadership.drop(LOG)

    known = net.leaders.of(LOG)
    assert known is not None
    assert known.leader == NodeId(2)
    await net.close()
