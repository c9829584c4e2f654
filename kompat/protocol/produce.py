"""Produce by hand: it is what a broker does all day, and the compiled schema codec would take half as long again.

Attributes are named as in the schema. Property tests hold both codecs equal in every version.
"""

from collections.abc import Sequence
from struct import Struct
from uuid import UUID

from kompat.errors import ErrorCode, ProtocolError
from kompat.protocol import wire
from kompat.protocol.wire import MALFORMED
from kompat.types import ZERO_UUID, Buffer

FLEXIBLE = 9
WITH_TOPIC_IDS = 13
# Topics and partitions of a request. A producer with 1 MiB for it has room for fewer: the smallest batch is of some 70 bytes.
MOST_ITEMS = 20_000
WITH_LOG_START = 5
WITH_RECORD_ERRORS = 8
WITH_LEADERS = 10

_unpack_int32 = Struct(">i").unpack_from
_unpack_acks = Struct(">hi").unpack_from
_pack_int32 = Struct(">i").pack
_pack_v3 = Struct(">ihqq").pack
_pack_v5 = Struct(">ihqqq").pack


class PartitionData:
    __slots__ = ("index", "records")

    def __init__(self, index: int, records: memoryview | None) -> None:
        self.index = index
        self.records = records


class TopicData:
    __slots__ = ("name", "partition_data", "topic_id")

    def __init__(self, name: str, topic_id: UUID, partition_data: list[PartitionData]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = partition_data


class ProduceRequest:
    __slots__ = ("acks", "timeout_ms", "topic_data", "transactional_id")

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicData] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data if topic_data is not None else []


class RecordError:
    __slots__ = ("batch_index", "batch_index_error_message")

    def __init__(self, batch_index: int, batch_index_error_message: str | None = None) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class CurrentLeader:
    __slots__ = ("leader_epoch", "leader_id")

    def __init__(self, leader_id: int, leader_epoch: int) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class NodeEndpoint:
    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int, host: str, port: int, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class PartitionResponse:
    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        index: int,
        error_code: int = ErrorCode.NONE,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors: Sequence[RecordError] = ()
        self.error_message: str | None = None
        self.current_leader: CurrentLeader | None = None

    def refuse(self, code: ErrorCode, message: str = "") -> None:
        """Turn what looked like a success into an error."""
        self.error_code = code
        self.base_offset = self.log_append_time_ms = self.log_start_offset = -1
        self.error_message = message or None


class TopicResponse:
    __slots__ = ("name", "partition_responses", "topic_id")

    def __init__(self, name: str, topic_id: UUID, partition_responses: list[PartitionResponse]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = partition_responses


class ProduceResponse:
    __slots__ = ("node_endpoints", "responses", "throttle_time_ms")

    def __init__(self, responses: list[TopicResponse] | None = None, throttle_time_ms: int = 0) -> None:
        self.responses = responses if responses is not None else []
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints: Sequence[NodeEndpoint] = ()


# -- requests --------------------------------------------------------------------------------------------------------
def decode_produce_request(version: int, body: memoryview) -> ProduceRequest:
    """The partitions' records are slices of `body`: writable if it is, and never copied. ProtocolError if malformed."""
    try:
        return _read_flexible(version, body) if version >= FLEXIBLE else _read_plain(body)
    except MALFORMED as error:
        raise ProtocolError(f"malformed ProduceRequest v{version}: {error}") from None


def _read_flexible(version: int, body: memoryview) -> ProduceRequest:
    transactional_id, pos = wire.read_nullable_compact_string(body, 0)
    acks, timeout_ms = _unpack_acks(body, pos)
    count, pos = wire.read_compact_count(body, pos + 6)
    topics = []
    left, tags = _less(MOST_ITEMS, count), wire.ItemTags()
    for _ in range(_not_null(count)):
        name, topic_id = "", ZERO_UUID
        if version >= WITH_TOPIC_IDS:
            topic_id, pos = wire.read_uuid(body, pos)
        else:
            name, pos = wire.read_compact_string(body, pos)
        partition_count, pos = wire.read_compact_count(body, pos)
        left = _less(left, partition_count)
        partitions = []
        for _ in range(_not_null(partition_count)):
            index = _unpack_int32(body, pos)[0]
            records, pos = wire.read_compact_records(body, pos + 4)
            partitions.append(PartitionData(index, records))
            pos = pos + 1 if body[pos] == 0 else tags.skip(body, pos)
        topics.append(TopicData(name, topic_id, partitions))
        pos = pos + 1 if body[pos] == 0 else tags.skip(body, pos)
    wire.skip_tags(body, pos)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_plain(body: memoryview) -> ProduceRequest:
    transactional_id, pos = wire.read_nullable_string(body, 0)
    acks, timeout_ms = _unpack_acks(body, pos)
    count, pos = wire.read_count(body, pos + 6)
    left = _less(MOST_ITEMS, count)
    topics = []
    for _ in range(_not_null(count)):
        name, pos = wire.read_string(body, pos)
        partition_count, pos = wire.read_count(body, pos)
        left = _less(left, partition_count)
        partitions = []
        for _ in range(_not_null(partition_count)):
            index = _unpack_int32(body, pos)[0]
            records, pos = wire.read_records(body, pos + 4)
            partitions.append(PartitionData(index, records))
        topics.append(TopicData(name, ZERO_UUID, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _less(left: int, count: int) -> int:
    """How many more items there may be, after so many."""
    if count > left:
        raise ProtocolError(f"more than {MOST_ITEMS} topics and partitions")
    return left - count


def _not_null(count: int) -> int:
    if count < 0:
        raise ProtocolError("null where an array has to be")
    return count


# -- responses -------------------------------------------------------------------------------------------------------
def encode_produce_response(version: int, message: ProduceResponse) -> list[Buffer]:
    """The body, without header and length."""
    out = bytearray()
    if version >= FLEXIBLE:
        _write_flexible(out, version, message)
    else:
        _write_plain(out, version, message)
    return [out]


def _write_flexible(out: bytearray, version: int, message: ProduceResponse) -> None:
    wire.write_uvarint(out, len(message.responses) + 1)
    for topic in message.responses:
        if version >= WITH_TOPIC_IDS:
            out += topic.topic_id.bytes
        else:
            wire.write_compact_string(out, topic.name)
        wire.write_uvarint(out, len(topic.partition_responses) + 1)
        for p in topic.partition_responses:
            out += _pack_v5(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset)
            if p.error_code == 0 and p.current_leader is None and not p.record_errors and p.error_message is None:
                out += b"\x01\x00\x00"  # no record errors, no message, no tagged fields
            else:
                _write_flexible_error(out, version, p)
        out.append(0)
    out += _pack_int32(message.throttle_time_ms)
    if message.node_endpoints and version >= WITH_LEADERS:
        wire.write_tags(out, [(0, encode_endpoints(message.node_endpoints))])
    else:
        out.append(0)


def _write_flexible_error(out: bytearray, version: int, p: PartitionResponse) -> None:
    wire.write_uvarint(out, len(p.record_errors) + 1)
    for error in p.record_errors:
        out += _pack_int32(error.batch_index)
        wire.write_nullable_compact_string(out, error.batch_index_error_message)
        out.append(0)
    wire.write_nullable_compact_string(out, p.error_message)
    if p.current_leader is not None and version >= WITH_LEADERS:
        wire.write_tags(out, [(0, encode_leader(p.current_leader))])
    else:
        out.append(0)


_pack_leader = Struct(">iix").pack  # the last byte: no tagged fields inside


def encode_leader(leader: CurrentLeader) -> bytes:
    """What stands in the tagged field `current_leader`, in Fetch as well."""
    return _pack_leader(leader.leader_id, leader.leader_epoch)


def encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytearray:
    """What stands in the tagged field `node_endpoints`, in Fetch as well."""
    out = bytearray()
    wire.write_uvarint(out, len(endpoints) + 1)
    for node in endpoints:
        out += _pack_int32(node.node_id)
        wire.write_compact_string(out, node.host)
        out += _pack_int32(node.port)
        wire.write_nullable_compact_string(out, node.rack)
        out.append(0)
    return out


def _write_plain(out: bytearray, version: int, message: ProduceResponse) -> None:
    out += _pack_int32(len(message.responses))
    for topic in message.responses:
        wire.write_string(out, topic.name)
        out += _pack_int32(len(topic.partition_responses))
        for p in topic.partition_responses:
            if version < WITH_LOG_START:
                out += _pack_v3(p.index, p.error_code, p.base_offset, p.log_append_time_ms)
                continue
            out += _pack_v5(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset)
            if version >= WITH_RECORD_ERRORS:
                _write_plain_error(out, p)
    out += _pack_int32(message.throttle_time_ms)


def _write_plain_error(out: bytearray, p: PartitionResponse) -> None:
    out += _pack_int32(len(p.record_errors))
    for error in p.record_errors:
        out += _pack_int32(error.batch_index)
        wire.write_nullable_string(out, error.batch_index_error_message)
    wire.write_nullable_string(out, p.error_message)
