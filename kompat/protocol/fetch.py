"""Fetch by hand: requests come in long polls without end, and the answers pass batches through without joining them.

Attributes are named as in the schema. Property tests hold both codecs equal in every version.
"""

from collections.abc import Generator, Sequence
from struct import Struct
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from kompat.errors import ErrorCode, ProtocolError
from kompat.protocol import wire
from kompat.protocol.produce import CurrentLeader, NodeEndpoint, encode_endpoints, encode_leader
from kompat.protocol.wire import MALFORMED, Reader
from kompat.types import ZERO_UUID, Buffer

STEP = 500  # partitions that are read or written before others may have a turn

FLEXIBLE = 12
WITH_LOG_START = 5
WITH_SESSIONS = 7
WITH_LEADER_EPOCH = 9
WITH_RACK = 11
WITH_TOPIC_IDS = 13
WITH_REPLICA_STATE = 15
WITH_ENDPOINTS = 16

_unpack_int32 = Struct(">i").unpack_from
_pack_int16 = Struct(">h").pack
_pack_int32 = Struct(">i").pack
_THROTTLE = Struct(">i")
_REQUEST = Struct(">iiib")
_SESSION = Struct(">ii")
_REPLICA_STATE = Struct(">iq")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_pack_answer_v4 = Struct(">ihqq").pack
_pack_answer_v5 = Struct(">ihqqq").pack
_pack_session = Struct(">ihi").pack
_pack_aborted = Struct(">qq").pack
_pack_diverging = Struct(">iqx").pack  # the last byte: no tagged fields inside

P = TypeVar("P")


class FetchPartition:
    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
    )

    def __init__(
        self,
        partition: int,
        fetch_offset: int,
        partition_max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes


class Topic(Generic[P]):
    """By name up to v12, by id from v13 on."""

    __slots__ = ("partitions", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: UUID, partitions: list[P]) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions


class FetchTopic(Topic[FetchPartition]):
    __slots__ = ()


class ForgottenTopic(Topic[int]):
    __slots__ = ()


class FetchRequest:
    __slots__ = (
        "cluster_id",
        "forgotten_topics_data",
        "is_long",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(self, topics: list[FetchTopic] | None = None) -> None:
        self.cluster_id: str | None = None
        self.is_long = False  # it may name very many partitions
        self.replica_id = -1  # from v15 on out of `replica_state`
        self.max_wait_ms = 0
        self.min_bytes = 0
        self.max_bytes = 0x7FFFFFFF
        self.isolation_level = 0
        self.session_id = 0
        self.session_epoch = -1
        self.topics = topics if topics is not None else []
        self.forgotten_topics_data: list[ForgottenTopic] = []
        self.rack_id = ""


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class EpochEndOffset(NamedTuple):
    epoch: int
    end_offset: int


class PartitionResponse:
    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition_index",
        "preferred_read_replica",
        "records",
    )

    def __init__(self, partition_index: int, error_code: int = ErrorCode.NONE) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.diverging_epoch: EpochEndOffset | None = None
        self.current_leader: CurrentLeader | None = None
        # None and none are different: None goes to those who read uncommitted.
        self.aborted_transactions: Sequence[AbortedTransaction] | None = None
        self.preferred_read_replica = -1
        self.records: Sequence[Buffer] = ()  # whole batches, one or more to a buffer


class TopicResponse(Topic[PartitionResponse]):
    __slots__ = ()


class FetchResponse:
    __slots__ = ("encoded", "error_code", "node_endpoints", "responses", "session_id", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = ErrorCode.NONE,
        session_id: int = 0,
        responses: list[TopicResponse] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses if responses is not None else []
        self.node_endpoints: Sequence[NodeEndpoint] = ()
        self.encoded: list[Buffer] | None = None  # what `encode_fetch_response_in_steps` has made of it


# -- requests --------------------------------------------------------------------------------------------------------
def decode_fetch_request(version: int, body: memoryview) -> FetchRequest:
    """Raises ProtocolError where the body is malformed."""
    try:
        request, pos = _read_head(version, body)
        topics, pos = _read_topic_count(version, body, pos)
        tags = wire.ItemTags()
        for _ in range(topics):
            topic, count, pos = _read_topic(version, body, pos)
            pos = _read_partitions(version, body, pos, count, tags, topic.partitions)
            request.topics.append(topic)
            if version >= FLEXIBLE:
                pos = tags.skip(body, pos)
        _read_rest(version, body, pos, request)
    except MALFORMED as error:
        raise ProtocolError(f"malformed FetchRequest v{version}: {error}") from None
    return request


def decode_fetch_request_in_steps(version: int, body: memoryview) -> Generator[None, None, FetchRequest]:
    """As `decode_fetch_request`."""
    try:
        request, pos = _read_head(version, body)
        request.is_long = True
        topics, pos = _read_topic_count(version, body, pos)
        tags = wire.ItemTags()
        for _ in range(topics):
            topic, count, pos = _read_topic(version, body, pos)
            for left in range(count, 0, -STEP):
                pos = _read_partitions(version, body, pos, min(left, STEP), tags, topic.partitions)
                yield
            request.topics.append(topic)
            if version >= FLEXIBLE:
                pos = tags.skip(body, pos)
            yield
        _read_rest(version, body, pos, request)
    except MALFORMED as error:
        raise ProtocolError(f"malformed FetchRequest v{version}: {error}") from None
    return request


def _read_head(version: int, body: memoryview) -> tuple[FetchRequest, int]:
    request = FetchRequest()
    pos = 0
    if version < WITH_REPLICA_STATE:
        request.replica_id = _unpack_int32(body, 0)[0]
        pos = 4
    request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level = _REQUEST.unpack_from(body, pos)
    pos += _REQUEST.size
    if version >= WITH_SESSIONS:
        request.session_id, request.session_epoch = _SESSION.unpack_from(body, pos)
        pos += _SESSION.size
    return request, pos


def _read_rest(version: int, body: memoryview, pos: int, request: FetchRequest) -> None:
    if version >= WITH_SESSIONS:
        request.forgotten_topics_data, pos = _read_forgotten(version, body, pos)
    if version >= FLEXIBLE:
        request.rack_id, pos = wire.read_compact_string(body, pos)
        _read_tags(body, pos, request)
    elif version >= WITH_RACK:
        request.rack_id, pos = wire.read_string(body, pos)


def _read_tags(body: memoryview, pos: int, request: FetchRequest) -> None:
    if body[pos] == 0:
        return
    found, _ = wire.read_tags(body, pos, _TAGS)
    request.cluster_id = found.get("cluster_id")
    request.replica_id = found.get("replica_id", request.replica_id)


def _read_replica_state(data: memoryview, pos: int) -> tuple[int, int]:
    replica_id: int = _REPLICA_STATE.unpack_from(data, pos)[0]
    return replica_id, wire.skip_tags(data, pos + _REPLICA_STATE.size)


_TAGS: dict[int, tuple[str, Reader]] = {
    0: ("cluster_id", wire.read_nullable_compact_string),
    1: ("replica_id", _read_replica_state),
}


def _read_topic_count(version: int, body: memoryview, pos: int) -> tuple[int, int]:
    count, pos = wire.read_compact_count(body, pos) if version >= FLEXIBLE else wire.read_count(body, pos)
    return _not_null(count), pos


def _read_topic(version: int, body: memoryview, pos: int) -> tuple[FetchTopic, int, int]:
    """A topic, and how many partitions of it follow."""
    name, topic_id = "", ZERO_UUID
    if version >= FLEXIBLE:
        if version >= WITH_TOPIC_IDS:
            topic_id, pos = wire.read_uuid(body, pos)
        else:
            name, pos = wire.read_compact_string(body, pos)
        count, pos = wire.read_compact_count(body, pos)
    else:
        name, pos = wire.read_string(body, pos)
        count, pos = wire.read_count(body, pos)
    return FetchTopic(name, topic_id, []), _not_null(count), pos


def _read_partitions(
    version: int, body: memoryview, pos: int, count: int, tags: wire.ItemTags, partitions: list[FetchPartition]
) -> int:
    for _ in range(count):
        partition, pos = _read_partition(version, body, pos, tags)
        partitions.append(partition)
    return pos


def _read_partition(version: int, body: memoryview, pos: int, tags: wire.ItemTags) -> tuple[FetchPartition, int]:
    if version >= FLEXIBLE:
        index, epoch, offset, fetched, start, most = _PARTITION_V12.unpack_from(body, pos)
        pos = tags.skip(body, pos + _PARTITION_V12.size)
        return FetchPartition(index, offset, most, epoch, fetched, start), pos
    if version >= WITH_LEADER_EPOCH:
        index, epoch, offset, start, most = _PARTITION_V9.unpack_from(body, pos)
        return FetchPartition(index, offset, most, epoch, -1, start), pos + _PARTITION_V9.size
    if version >= WITH_LOG_START:
        index, offset, start, most = _PARTITION_V5.unpack_from(body, pos)
        return FetchPartition(index, offset, most, -1, -1, start), pos + _PARTITION_V5.size
    index, offset, most = _PARTITION_V4.unpack_from(body, pos)
    return FetchPartition(index, offset, most), pos + _PARTITION_V4.size


def _read_forgotten(version: int, body: memoryview, pos: int) -> tuple[list[ForgottenTopic], int]:
    count, pos = _read_topic_count(version, body, pos)
    topics = []
    tags = wire.ItemTags()
    for _ in range(count):
        topic, partition_count, pos = _read_topic(version, body, pos)
        partitions = list(Struct(f">{partition_count}i").unpack_from(body, pos))
        pos += 4 * partition_count
        topics.append(ForgottenTopic(topic.topic, topic.topic_id, partitions))
        if version >= FLEXIBLE:
            pos = tags.skip(body, pos)
    return topics, pos


def _not_null(count: int) -> int:
    if count < 0:
        raise ProtocolError("null where an array has to be")
    return count


# -- responses -------------------------------------------------------------------------------------------------------
def encode_fetch_response(version: int, message: FetchResponse) -> list[Buffer]:
    """The body, without header and length. The records' buffers stand in the list as they came."""
    if message.encoded is not None:
        head = bytearray(message.encoded[0])
        head[: _THROTTLE.size] = _THROTTLE.pack(message.throttle_time_ms)  # it may be known only now
        return [head, *message.encoded[1:]]
    buffers: list[Buffer] = []
    out = _write_head(version, message)
    for topic in message.responses:
        _write_topic(out, version, topic)
        out = _write_partitions(out, version, topic.partitions, buffers)
        if version >= FLEXIBLE:
            out.append(0)
    return _write_end(out, version, message, buffers)


def encode_fetch_response_in_steps(version: int, message: FetchResponse) -> Generator[None, None, list[Buffer]]:
    """As `encode_fetch_response`."""
    buffers: list[Buffer] = []
    out = _write_head(version, message)
    for topic in message.responses:
        _write_topic(out, version, topic)
        for begin in range(0, len(topic.partitions), STEP):
            out = _write_partitions(out, version, topic.partitions[begin : begin + STEP], buffers)
            yield
        if version >= FLEXIBLE:
            out.append(0)
    return _write_end(out, version, message, buffers)


def _write_head(version: int, message: FetchResponse) -> bytearray:
    out = bytearray()
    if version >= WITH_SESSIONS:
        out += _pack_session(message.throttle_time_ms, message.error_code, message.session_id)
    else:
        out += _pack_int32(message.throttle_time_ms)
    _write_count(out, len(message.responses), is_flexible=version >= FLEXIBLE)
    return out


def _write_partitions(
    out: bytearray, version: int, partitions: Sequence[PartitionResponse], buffers: list[Buffer]
) -> bytearray:
    """What follows goes into the array that is returned."""
    is_flexible = version >= FLEXIBLE
    for partition in partitions:
        _write_partition(out, version, partition)
        if partition.records:
            buffers.append(out)
            buffers += partition.records
            out = bytearray()
        if is_flexible:
            _write_partition_tags(out, partition)
    return out


def _write_end(out: bytearray, version: int, message: FetchResponse, buffers: list[Buffer]) -> list[Buffer]:
    if version >= FLEXIBLE:
        _write_tags(out, version, message)
    if out:
        buffers.append(out)
    return buffers


def _write_count(out: bytearray, count: int, *, is_flexible: bool) -> None:
    if is_flexible:
        wire.write_uvarint(out, count + 1)
    else:
        out += _pack_int32(count)


def _write_topic(out: bytearray, version: int, topic: TopicResponse) -> None:
    if version >= WITH_TOPIC_IDS:
        out += topic.topic_id.bytes
    elif version >= FLEXIBLE:
        wire.write_compact_string(out, topic.topic)
    else:
        wire.write_string(out, topic.topic)
    _write_count(out, len(topic.partitions), is_flexible=version >= FLEXIBLE)


def _write_partition(out: bytearray, version: int, p: PartitionResponse) -> None:
    """Everything up to the records themselves."""
    is_flexible = version >= FLEXIBLE
    if version >= WITH_LOG_START:
        out += _pack_answer_v5(
            p.partition_index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset
        )
    else:
        out += _pack_answer_v4(p.partition_index, p.error_code, p.high_watermark, p.last_stable_offset)
    if p.aborted_transactions is None:
        _write_count(out, -1, is_flexible=is_flexible)
    else:
        _write_count(out, len(p.aborted_transactions), is_flexible=is_flexible)
        for aborted in p.aborted_transactions:
            out += _pack_aborted(aborted.producer_id, aborted.first_offset)
            if is_flexible:
                out.append(0)
    if version >= WITH_RACK:
        out += _pack_int32(p.preferred_read_replica)
    size = 0
    for buffer in p.records:
        size += len(buffer)
    _write_count(out, size, is_flexible=is_flexible)


def _write_partition_tags(out: bytearray, p: PartitionResponse) -> None:
    if p.diverging_epoch is None and p.current_leader is None:
        out.append(0)
        return
    tags: list[tuple[int, Buffer]] = []
    if p.diverging_epoch is not None:
        tags.append((0, _pack_diverging(p.diverging_epoch.epoch, p.diverging_epoch.end_offset)))
    if p.current_leader is not None:
        tags.append((1, encode_leader(p.current_leader)))
    wire.write_tags(out, tags)


def _write_tags(out: bytearray, version: int, message: FetchResponse) -> None:
    if message.node_endpoints and version >= WITH_ENDPOINTS:
        wire.write_tags(out, [(0, encode_endpoints(message.node_endpoints))])
    else:
        out.append(0)
