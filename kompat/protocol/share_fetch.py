"""ShareFetch's answer by hand: batches pass through it without being joined. The request is rare enough for the schema.

Attributes are named as in the schema. A property test holds both codecs equal in every version.
"""

from collections.abc import Sequence
from struct import Struct
from uuid import UUID

from kompat.errors import ErrorCode
from kompat.protocol import wire
from kompat.protocol.produce import CurrentLeader, NodeEndpoint, encode_endpoints
from kompat.types import Buffer

_pack_int32 = Struct(">i").pack
_pack_head = Struct(">ih").pack  # also of a partition: index, error code
_pack_int16 = Struct(">h").pack
_pack_leader = Struct(">iix").pack  # the last byte: no tagged fields
_pack_acquired = Struct(">qqhx").pack

NO_LEADER = _pack_leader(0, 0)


class PartitionData:
    __slots__ = (
        "acknowledge_error_code",
        "acknowledge_error_message",
        "acquired_records",
        "current_leader",
        "error_code",
        "error_message",
        "partition_index",
        "records",
    )

    def __init__(self, partition_index: int) -> None:
        self.partition_index = partition_index
        self.error_code: int = ErrorCode.NONE
        self.error_message: str | None = None
        self.acknowledge_error_code: int = ErrorCode.NONE
        self.acknowledge_error_message: str | None = None
        self.current_leader: CurrentLeader | None = None
        self.records: Sequence[Buffer] = ()  # whole batches, one or more to a buffer
        self.acquired_records: Sequence[tuple[int, int, int]] = ()  # first offset, last offset, delivery count


class TopicData:
    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = []


class ShareFetchResponse:
    __slots__ = (
        "acquisition_lock_timeout_ms",
        "error_code",
        "error_message",
        "node_endpoints",
        "responses",
        "throttle_time_ms",
    )

    def __init__(self, error_code: int = ErrorCode.NONE, error_message: str | None = None) -> None:
        self.throttle_time_ms = 0
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = 0
        self.responses: list[TopicData] = []
        self.node_endpoints: Sequence[NodeEndpoint] = ()


def encode_share_fetch_response(_: int, message: ShareFetchResponse) -> list[Buffer]:
    """The body, without header and length, which is the same in all versions that Kafka 4.3 speaks."""
    buffers: list[Buffer] = []
    out = bytearray(_pack_head(message.throttle_time_ms, message.error_code))
    wire.write_nullable_compact_string(out, message.error_message)
    out += _pack_int32(message.acquisition_lock_timeout_ms)
    wire.write_uvarint(out, len(message.responses) + 1)
    for topic in message.responses:
        out += topic.topic_id.bytes
        wire.write_uvarint(out, len(topic.partitions) + 1)
        for partition in topic.partitions:
            _write_head(out, partition)
            if partition.records:
                buffers.append(out)
                buffers += partition.records
                out = bytearray()
            _write_acquired(out, partition)
        out.append(0)
    out += encode_endpoints(message.node_endpoints)
    out.append(0)  # no tagged fields
    buffers.append(out)
    return buffers


def _write_head(out: bytearray, partition: PartitionData) -> None:
    """Everything up to the records themselves."""
    out += _pack_head(partition.partition_index, partition.error_code)
    wire.write_nullable_compact_string(out, partition.error_message)
    out += _pack_int16(partition.acknowledge_error_code)
    wire.write_nullable_compact_string(out, partition.acknowledge_error_message)
    leader = partition.current_leader
    out += NO_LEADER if leader is None else _pack_leader(leader.leader_id, leader.leader_epoch)
    wire.write_uvarint(out, sum(map(len, partition.records)) + 1)


def _write_acquired(out: bytearray, partition: PartitionData) -> None:
    wire.write_uvarint(out, len(partition.acquired_records) + 1)
    for first, last, deliveries in partition.acquired_records:
        out += _pack_acquired(first, last, deliveries)
    out.append(0)
