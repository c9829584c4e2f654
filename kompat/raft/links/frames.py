"""The frames between brokers after the handshake. `kompat.protocol.frames` splits the stream; this is the content.

Every frame begins with eight bytes: kind, flags, code, number. Bodies are slices of the received frame, and lists of buffers
when they are sent: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

from kompat.errors import ProtocolError
from kompat.types import Buffer

# A body above this is sent in pieces, so that urgent frames can pass between them.
PIECE = 256 * 1024

HEAD_SIZE = 8
MORE = 1  # flag: the rest of the body follows in another frame

_LEAD = Struct(">IBBHI")  # length, then the head: what a frame begins with on the wire
_pack_lead = _LEAD.pack
_unpack_head = Struct(">BBHI").unpack_from
_FEW_SIZES = tuple(Struct(f">{count}I") for count in range(17))


class Kind(IntEnum):
    RAFT = 1
    HEARTBEATS = 2
    REQUEST = 3
    RESPONSE = 4
    CANCEL = 5  # of a call: its caller no longer waits
    OPEN = 6  # a stream; its first chunk is its head
    CHUNK = 7
    END = 8  # of a stream, all of it was sent
    ABORT = 9  # of a stream, its sender gave up
    CREDIT = 10  # the bytes that the receiver of a stream has taken
    BEAT = 11  # a sign of life, where nothing else is sent


_RAFT = int(Kind.RAFT)  # a plain number is packed faster


class Status(IntEnum):
    """How a call or stream ended, in the code of its response."""

    OK = 0
    KAFKA_ERROR = 1  # the body: error code and message
    FAILED = 2  # the body: the reason
    UNKNOWN = 3  # the peer knows no such kind
    BUSY = 4


class Head(NamedTuple):
    kind: int
    flags: int
    code: int
    number: int


Parcel = tuple[list[Buffer], int]  # a frame to be sent: its buffers, their size


def parcel(kind: Kind, number: int, body: Sequence[Buffer] = (), *, code: int = 0, flags: int = 0) -> Parcel:
    size = HEAD_SIZE + sum(map(len, body))
    return [_pack_lead(size, kind, flags, code, number), *body], size + 4


def head_of(frame: memoryview) -> Head:
    return Head._make(_unpack_head(frame))


def raft_parcel(group: bytes, header: bytes, payloads: Sequence[Buffer]) -> Parcel:
    """One Raft message. The small parts are one buffer, the payloads are sent as they are."""
    sizes = [len(payload) for payload in payloads]
    count = len(sizes)
    size = HEAD_SIZE + 4 * count + len(group) + len(header) + sum(sizes)
    try:
        lead = _pack_lead(size, _RAFT, len(group), count, len(header))
    except error:
        raise ValueError(f"no Raft message: a group of {len(group)} bytes, {count} payloads, {size} bytes") from None
    return [b"".join((lead, _sizes(count).pack(*sizes), group, header)), *payloads], size + 4


def read_raft(frame: memoryview) -> tuple[bytes, memoryview, list[memoryview]]:
    """Group, header and payloads; the last two are slices of the frame."""
    _, group_size, count, header_size = _unpack_head(frame)
    start = HEAD_SIZE + 4 * count
    end = start + group_size + header_size
    if end > len(frame):
        raise ProtocolError("a Raft message that ends too soon")
    group = bytes(frame[start : start + group_size])
    header = frame[start + group_size : end]
    payloads = []
    for size in _sizes(count).unpack_from(frame, HEAD_SIZE):
        payloads.append(frame[end : end + size])
        end += size
    if end != len(frame):
        raise ProtocolError("a Raft message whose parts do not fill it")
    return group, header, payloads


def _sizes(count: int) -> Struct:
    return _FEW_SIZES[count] if count < len(_FEW_SIZES) else Struct(f">{count}I")


def pieces(body: Sequence[Buffer], most: int = PIECE) -> Iterator[tuple[list[Buffer], bool]]:
    """Cut a body into pieces of at most `most` bytes, without copying; each with whether more follow."""
    piece: list[Buffer] = []
    room = most
    for buffer in body:
        rest = memoryview(buffer)
        while len(rest) > room:
            piece.append(rest[:room])
            rest = rest[room:]
            yield piece, True
            piece, room = [], most
        if len(rest):
            piece.append(rest)
            room -= len(rest)
    yield piece, False
