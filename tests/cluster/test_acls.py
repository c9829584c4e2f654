"""ACLs in the cluster's metadata: decided, written and read back."""

from __future__ import annotations

from kompat.cluster.machine import ClusterMachine
from kompat.cluster.records import ClusterCodec
from kompat.errors import KafkaError
from kompat.security.acls import Acl, AclFilter, Kind, Operation, Pattern, Permission
from kompat.security.quotas import CLIENT_ID, USER
from tests.cluster.support import READS, Written

DENIES = Acl(Kind.GROUP, "g", Pattern.PREFIXED, "User:*", "10.0.0.1", Operation.ALL, Permission.DENY)


def test_what_is_written_down_is_read_back_and_stands_in_a_snapshot() -> None:
    written = Written()
    written.do(written.machine.create_acls([READS, DENIES]))
    written.alter([(USER, "alice"), (CLIENT_ID, None)], producer_byte_rate=5, request_percentage=0.5)

    taken_up = ClusterMachine()
    codec = ClusterCodec()
    for record in written.machine.snapshot():
        taken_up.apply(codec.decode(*codec.encode(record)))

    assert taken_up.state == written.machine.state
    assert set(taken_up.state.acls) == {READS, DENIES}
    assert taken_up.state.copy() == taken_up.state


def test_what_is_there_already_is_neither_refused_nor_written_again() -> None:
    written = Written()
    assert written.do(written.machine.create_acls([READS, READS])) == [None, None]

    again = written.machine.create_acls([READS])

    assert (again.records, again.reply) == ([], [None])


def test_filters_that_match_the_same_both_tell_of_it_and_it_is_removed_once() -> None:
    written = Written()
    written.do(written.machine.create_acls([READS, DENIES]))

    decision = written.machine.delete_acls([AclFilter(kind=Kind.TOPIC), AclFilter(name="a"), AclFilter(kind=Kind(0))])

    assert [*decision.reply[:2]] == [[READS], [READS]]
    assert isinstance(decision.reply[2], KafkaError)
    assert len(decision.records) == 1
    written.do(decision)
    assert set(written.image.acls) == {DENIES}
