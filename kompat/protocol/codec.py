"""Requests and responses: bytes ↔ messages. All that the broker knows about versions on the wire is here and below."""

from collections.abc import Generator
from struct import Struct
from typing import Any, TypeVar, cast

from kompat.errors import ProtocolError
from kompat.protocol.api_keys import ApiKey
from kompat.protocol.messages.classes import Message
from kompat.protocol.messages.decoder import Decoder
from kompat.protocol.messages.encoder import Encoder
from kompat.protocol.wire import MALFORMED, Reader, Writer, read_nullable_string, skip_tags, write_nullable_string
from kompat.types import Buffer

M = TypeVar("M", bound=Message)

NEVER = 1 << 15  # above every version

# The version from which on an API's headers have tagged fields. The header has to be read before the API's class is
# known, or even built.
FLEXIBLE_SINCE = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 17: NEVER, 18: 3, 19: 5,
    20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2, 35: 2,
    36: 2, 37: 2, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: NEVER, 48: 1, 49: 1, 53: 1, 54: 1,
}  # fmt: skip
FLEXIBLE_FROM_THE_START = 50  # all keys from here on

_HEADER = Struct(">hhi")
_unpack_header = _HEADER.unpack_from
_RESPONSE = Struct(">ii")
_pack_response = _RESPONSE.pack
_pack_response_into = _RESPONSE.pack_into
_LENGTH_SIZE = 4

_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}
_step_readers: dict[tuple[type[Message], int], Any] = {}
_step_writers: dict[tuple[type[Message], int], Any] = {}


class RequestHeader:
    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


def is_flexible(api_key: int, version: int) -> bool:
    return version >= FLEXIBLE_SINCE.get(api_key, 0 if api_key >= FLEXIBLE_FROM_THE_START else NEVER)


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header, and where the body begins. Of unknown APIs and versions too: they have to be answered."""
    try:
        key, version, correlation_id = _unpack_header(frame)
        client_id, pos = read_nullable_string(frame, _HEADER.size)
        if is_flexible(key, version):
            pos = skip_tags(frame, pos)
    except MALFORMED as error:
        raise ProtocolError(f"malformed request header: {error}") from None
    return RequestHeader(key, version, correlation_id, client_id), pos


def decode_request(message: type[M], version: int, body: memoryview) -> M:
    """Raises ProtocolError, and nothing else, whatever the client has sent."""
    reader = _readers.get((message, version))
    if reader is None:
        decoder = Decoder(version, flexible=message.is_flexible(version))
        reader = _readers[message, version] = decoder.struct(message, message.SCHEMA.struct)
    try:
        decoded: M = reader(body, 0)[0]
    except MALFORMED as error:
        raise ProtocolError(f"malformed {message.__name__} v{version}: {error}") from None
    return decoded


def decode_request_in_steps(
    message: type[M], version: int, body: memoryview, most_items: int
) -> Generator[None, None, M]:
    """`decode_request` for a long one: whoever drives it may let others have a turn at every step.

    Raises ProtocolError, too, where its arrays have more items in all than `most_items`, before anything is made of them.
    """
    reader = _step_readers.get((message, version))
    if reader is None:
        decoder = Decoder(version, flexible=message.is_flexible(version), in_steps=True)
        reader = _step_readers[message, version] = decoder.struct(message, message.SCHEMA.struct)
    items = 0
    try:
        steps = reader(body, 0)
        if isinstance(steps, tuple):  # it has no arrays
            return cast("M", steps[0])
        while True:
            items += next(steps)
            if items > most_items:
                raise ProtocolError(f"{message.__name__} v{version} has more than {most_items} items")
            yield
    except StopIteration as done:
        return cast("M", done.value[0])
    except MALFORMED as error:
        raise ProtocolError(f"malformed {message.__name__} v{version}: {error}") from None


def encode_response_in_steps(
    correlation_id: int, message_type: type[Message], version: int, message: Any
) -> Generator[None, None, list[Buffer]]:
    """`encode_response` for one that may be long."""
    flexible = message_type.is_flexible(version)
    writer = _step_writers.get((message_type, version))
    if writer is None:
        encoder = Encoder(version, flexible=flexible, in_steps=True)
        writer = _step_writers[message_type, version] = encoder.struct(message_type.SCHEMA.struct)
    out = bytearray(_RESPONSE.size)
    if flexible and message_type.SCHEMA.api_key != ApiKey.ApiVersions:
        out.append(0)
    steps = writer(out, message)
    if steps is not None:
        yield from steps
    _pack_response_into(out, 0, len(out) - _LENGTH_SIZE, correlation_id)
    return [out]


def encode_response(correlation_id: int, message_type: type[Message], version: int, message: Any) -> list[Buffer]:
    """A response as it goes out: length, header, body."""
    flexible = message_type.is_flexible(version)
    writer = _writers.get((message_type, version))
    if writer is None:
        encoder = Encoder(version, flexible=flexible)
        writer = _writers[message_type, version] = encoder.struct(message_type.SCHEMA.struct)
    out = bytearray(_RESPONSE.size)
    # A client that has not learnt the versions yet could not read a newer header.
    if flexible and message_type.SCHEMA.api_key != ApiKey.ApiVersions:
        out.append(0)
    writer(out, message)
    _pack_response_into(out, 0, len(out) - _LENGTH_SIZE, correlation_id)
    return [out]


def frame_response(correlation_id: int, api_key: int, version: int, body: list[Buffer]) -> list[Buffer]:
    """Put length and header before a body that is encoded already; the buffers are not joined."""
    size = _LENGTH_SIZE
    for buffer in body:
        size += len(buffer)
    if is_flexible(api_key, version):
        return [_pack_response(size + 1, correlation_id) + b"\0", *body]
    return [_pack_response(size, correlation_id), *body]


def response_header_size(header: RequestHeader) -> int:
    """Of a response as it goes out: what stands before its body."""
    return _RESPONSE.size + (1 if is_flexible(header.api_key, header.api_version) else 0)


# -- the other way round: for requests that a broker makes itself --------------------------------------------------------
def encode_request(
    message_type: type[Message], version: int, message: Any, *, correlation_id: int = 0, client_id: str | None = None
) -> bytearray:
    """A request as a client would send it, without its length."""
    key = message_type.SCHEMA.api_key
    out = bytearray(_HEADER.pack(key, version, correlation_id))
    write_nullable_string(out, client_id)
    if is_flexible(key, version):
        out.append(0)
    writer = _writers.get((message_type, version))
    if writer is None:
        encoder = Encoder(version, flexible=message_type.is_flexible(version))
        writer = _writers[message_type, version] = encoder.struct(message_type.SCHEMA.struct)
    writer(out, message)
    return out


def decode_response(message: type[M], version: int, frame: memoryview) -> M:
    """The message of a response as it goes out, length and header included. Raises ProtocolError."""
    head = _RESPONSE.size + (1 if is_flexible(message.SCHEMA.api_key, version) else 0)
    return decode_request(message, version, frame[head:])
