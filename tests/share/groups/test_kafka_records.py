"""A share group asked what Apache Kafka was asked writes down what Apache Kafka wrote down."""

from uuid import UUID

from kompat.groups.machine.messages import ClientInfo
from kompat.groups.machine.topics import TopicInfo, TopicTable
from kompat.groups.record_codec import decode, encode
from kompat.groups.records import ShareGroupTargetAssignmentMetadata, StoredRecord
from kompat.share.groups.machine.commands import ShareGroups
from kompat.types import Millis
from tests.groups.harness import replicated
from tests.share.groups.harness import Sharing
from tests.share.groups.kafka_records import STORY

GROUP, FEW, MANY = "sg-ba072f", "sp2-ba072f", "sp-ba072f"
TOPICS = TopicTable(
    [
        TopicInfo(name=MANY, topic_id=UUID("22023f18-857c-4b5e-9fd2-ddbb51a31f08"), partitions=3),
        TopicInfo(name=FEW, topic_id=UUID("82ca5ecd-16c7-4e54-960b-11c6c4307a08"), partitions=2),
    ]
)
CLIENT = ClientInfo(client_id="tests", client_host="/127.0.0.1")


def stored() -> list[StoredRecord]:
    records = (decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) for key, value in STORY)
    return [record for record in records if record is not None]


class Retold(Sharing):
    """Kafka's assignments say when they were made: the same is asked at the same times."""

    def __init__(self) -> None:
        super().__init__(topics=TOPICS)
        targets = (each for each in stored() if isinstance(each, ShareGroupTargetAssignmentMetadata))
        self._times = [each.value.assignment_timestamp for each in targets if each.value is not None]

    def next_assignment(self) -> None:
        self.now = Millis(self._times.pop(0))

    def beat_all(self, *beats: tuple[str, int]) -> None:
        for member_id, epoch in beats:
            self.share_beat(member_id, epoch, group_id=GROUP, client=CLIENT)

    def enter_as(self, member_id: str, *topics: str) -> None:
        self.next_assignment()
        reply = self.share_join(member_id, topics, group_id=GROUP, client=CLIENT)
        if reply.uninitialized:
            self.made(reply.uninitialized, group_id=GROUP)


def test_every_record_has_the_bytes_that_kafka_wrote() -> None:
    written = [encode(record) for record in stored()]

    assert [(key.hex(), value.hex() if value is not None else None) for key, value in written] == list(STORY)


def test_a_groups_whole_life_leaves_the_records_that_it_left_in_kafka() -> None:
    groups = Retold()
    groups.enter_as("m1", MANY)
    groups.next_assignment()
    groups.beat_all(("m1", 2), ("m1", 3), ("m1", 2))
    groups.enter_as("m2", MANY)
    groups.beat_all(("m2", 4), ("m1", 3), ("m1", 4), ("m2", -1), ("m1", -1))
    gone = groups.run(lambda m: ShareGroups(m).begin_offsets_deletion(GROUP, [MANY], groups.now)).partitions
    groups.run(lambda m: ShareGroups(m).end_offsets_deletion(GROUP, gone, groups.now))
    groups.enter_as("m1", MANY, FEW, "absent")
    groups.enter_as("m1", MANY, FEW, "absent")
    groups.share_beat("m1", 8, group_id=GROUP, client=CLIENT, subscribed_topic_names=(FEW,))
    groups.next_assignment()
    groups.beat_all(("m1", 8), ("m1", -1))
    groups.run(lambda m: ShareGroups(m).begin_deletion([GROUP], groups.now))
    groups.run(lambda m: m.delete_groups([GROUP], groups.now))

    assert groups.log == stored()


def test_what_kafka_wrote_down_can_be_taken_up_anywhere() -> None:
    log = stored()
    for end in range(len(log) + 1):
        groups = Retold()
        for record in log[:end]:
            groups.machine.apply(record)
        assert replicated(groups.machine) == replicated(groups.replayed(log[:end]))
        groups.run(lambda machine: machine.tick(machine.next_deadline() or Millis(0)))
        groups.now = Millis(2_000_000_000_000)
        assert groups.share_join("m9", [MANY], group_id=GROUP).member_epoch > 0
