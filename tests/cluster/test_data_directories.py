"""Which replicas a broker may begin from nothing: none that it may have had before, in another data directory."""

from uuid import UUID

from kompat.cluster.machine import ClusterMachine
from kompat.cluster.records import BrokerRegistered, BrokerUnregistered, ClusterCodec, TopicCreated
from kompat.cluster.state import Broker, ClusterState, PartitionState, Topic
from kompat.types import LogId, NodeId

ME, OTHER = NodeId(1), NodeId(2)


def topic(number: int) -> Topic:
    partition = PartitionState(0, (ME, OTHER))
    return Topic(f"t{number}", UUID(int=number), (partition,))


def log(number: int) -> LogId:
    return LogId(UUID(int=number), 0)


def test_what_was_made_while_a_directory_was_registered_is_founded_there_and_nowhere_else() -> None:
    state = ClusterState()
    assert not state.may_found(ME, "a", log(1))  # nobody knows it yet
    for record in (BrokerRegistered(Broker(ME, directory="a")), TopicCreated(topic(1))):
        record.change(state)
    assert state.may_found(ME, "a", log(1))
    assert not state.may_found(ME, "b", log(1))

    for record in (BrokerRegistered(Broker(ME, directory="b")), TopicCreated(topic(2))):
        record.change(state)

    assert not state.may_found(ME, "b", log(1))  # it may have promised something for it
    assert state.may_found(ME, "b", log(2))
    assert state.copy() == state


def test_a_broker_that_was_forgotten_founds_nothing_that_it_may_have_had() -> None:
    state = ClusterState()
    records = (
        BrokerRegistered(Broker(ME, directory="a")),
        TopicCreated(topic(1)),
        BrokerUnregistered(ME),
        BrokerRegistered(Broker(ME, directory="b")),
    )
    for record in records:
        record.change(state)
    assert not state.may_found(ME, "b", log(1))


def test_a_directory_that_an_older_version_did_not_tell_of_is_taken_as_it_is() -> None:
    state = ClusterState()
    for record in (BrokerRegistered(Broker(ME)), TopicCreated(topic(1)), BrokerRegistered(Broker(ME, directory="a"))):
        record.change(state)
    assert state.may_found(ME, "a", log(1))


def test_the_directory_is_written_down() -> None:
    codec = ClusterCodec()
    for broker in (Broker(ME, directory="a"), Broker(ME)):
        assert codec.decode(*codec.encode(BrokerRegistered(broker))) == BrokerRegistered(broker)


def test_a_snapshot_of_the_metadata_knows_what_a_broker_may_have_had() -> None:
    codec, machine, copy = ClusterCodec(), ClusterMachine(), ClusterMachine()
    for record in (
        BrokerRegistered(Broker(ME, directory="a")),
        TopicCreated(topic(1)),
        BrokerRegistered(Broker(ME, directory="b")),
        TopicCreated(topic(2)),
    ):
        machine.apply(record)

    for each in machine.snapshot():
        copy.apply(codec.decode(*codec.encode(each)))

    assert copy.state == machine.state
    assert not copy.state.may_found(ME, "b", log(1))
    assert copy.state.may_found(ME, "b", log(2))
