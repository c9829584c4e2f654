"""Requests, replies and errors as bytes: msgpack, by the types of the requests. Pure."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import MsgspecError, Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from kompat.errors import DamagedBatch, DamagedOffsets, ErrorCode, KafkaError, ProtocolError, StorageError
from kompat.rpc.messages import Moved, Receiver
from kompat.types import Buffer, LogId


class Envelope(Struct, frozen=True):
    """A request on the wire."""

    request: str  # the name of its class
    body: Raw
    log_id: LogId | None = None  # of a LeaderRequest
    metadata: int = 0  # the sender's position in the metadata log


# -- what a receiver answers -------------------------------------------------------------------------------------------
class Failed(Struct, frozen=True, tag=True):
    code: int
    message: str
    has_begun: bool = True


class FailedOffsets(Struct, frozen=True, tag=True):
    first: int
    last: int


class FailedStorage(Struct, frozen=True, tag=True):
    message: str


class FailedBatch(Struct, frozen=True, tag=True):
    message: str
    first: int
    last: int


Failure = Failed | FailedOffsets | FailedStorage | FailedBatch


class Answer(Struct, frozen=True):
    body: Raw = Raw(b"\xc0")  # None
    failure: Failure | None = None
    metadata: int = 0  # from a controller: the end of its metadata log


def failure_of(error: KafkaError | StorageError) -> Failure:
    match error:
        case DamagedOffsets():
            return FailedOffsets(error.first, error.last)
        case KafkaError():
            return Failed(error.code, error.message, has_begun=not isinstance(error, Moved))
        case DamagedBatch():
            return FailedBatch(str(error), error.first, error.last)
        case _:
            return FailedStorage(str(error))


def error_from(failure: Failure, to: Receiver) -> KafkaError | StorageError:
    """The error as it was raised at the receiver."""
    match failure:
        case Failed(has_begun=False):
            return Moved(to, failure.message)
        case Failed():
            return KafkaError(ErrorCode(failure.code), failure.message)
        case FailedOffsets():
            return DamagedOffsets(failure.first, failure.last)
        case FailedBatch():
            return DamagedBatch(failure.message, failure.first, failure.last)
        case FailedStorage():
            return StorageError(failure.message)


# -- bytes -------------------------------------------------------------------------------------------------------------
def encode(value: object) -> bytes:
    return _encoder.encode(value)


def decode(kind: Any, body: Buffer) -> Any:
    """Raises ProtocolError."""
    try:
        return _decoder(kind).decode(body)
    except (MsgspecError, ValueError) as error:
        raise ProtocolError(f"that is no {getattr(kind, '__name__', kind)} of this version: {error}") from None


def raw(value: object) -> Raw:
    return Raw(_encoder.encode(value))


def _plain(value: object) -> object:
    """Types that msgpack does not have. Errors are also parts of replies."""
    if isinstance(value, KafkaError):
        return (value.code, value.message)
    raise NotImplementedError(f"{type(value).__name__} cannot be sent to another broker")


def _built(kind: type, plain: Any) -> object:
    if kind is KafkaError:
        code, message = plain
        return KafkaError(ErrorCode(code), message)
    raise NotImplementedError(f"{kind.__name__} cannot come from another broker")


_encoder = Encoder(enc_hook=_plain, uuid_format="bytes")


@cache
def _decoder(kind: Any) -> Decoder[Any]:
    return Decoder(kind, dec_hook=_built)
