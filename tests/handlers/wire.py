"""Kafka's protocol without a client library: one request in one version over a socket, one decoded answer back.

Messages are kafka-python's and not kompat's: so its codec judges ours, and the same question can be put to Apache Kafka.
"""

from __future__ import annotations

import socket
import struct
import warnings
from functools import cache
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its definitions in a way of old
    from kafka.protocol import admin, consumer, metadata, producer, sasl
    from kafka.protocol.api_message import ApiMessage

API_VERSIONS = 18
CORRELATION_ID = 7
DEFINITIONS = "kompat.protocol.messages.definitions"


def message(name: str) -> Any:
    """kafka-python's class of a message, such as `MetadataRequest`."""
    for module in (metadata, admin, consumer, producer, sasl):
        found = getattr(module, name, None)
        if found is not None:
            return found
    return _defined_here(name)


@cache
def _defined_here(name: str) -> Any:
    """kafka-python's codec over kompat's definition, for the APIs that kafka-python does not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return type(ApiMessage)(name, (ApiMessage,), {}, load_json=DEFINITIONS)


def ask(address: tuple[str, int], request: Any, version: int, *, timeout: float = 10.0) -> Any:
    with socket.create_connection(address, timeout=timeout) as connection:
        return exchange(connection, request, version)


def exchange(connection: socket.socket, request: Any, version: int) -> Any:
    connection.sendall(request_frame(request, version))
    return decode_response(type(request).__name__.removesuffix("Request"), version, read_frame(connection))


def request_frame(request: Any, version: int) -> bytes:
    request.API_VERSION = version
    request.with_header(correlation_id=CORRELATION_ID, client_id="tests")
    return bytes(request.encode(version=version, header=True, framed=True))


def read_frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, size)


def decode_response(api: str, version: int, frame: bytes) -> Any:
    """From a frame without its length."""
    response = message(f"{api}Response")
    (correlation_id,) = struct.unpack_from(">i", frame)
    assert correlation_id == CORRELATION_ID
    is_flexible = response.API_KEY != API_VERSIONS and response.flexible_version_q(version)
    # kafka-python takes every error in ApiVersions for a v0 body; Kafka answers only UNSUPPORTED_VERSION so.
    return ApiMessage.decode.__func__(response, frame[5 if is_flexible else 4 :], version=version)


def error_codes(message: Any) -> set[int]:
    """Every error code in a message, however deep, that its version has."""
    found = set()
    for field in message._struct._fields:
        if not field.for_version_q(message.version):
            continue
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            found.add(value)
        for element in value if isinstance(value, list) else [value]:
            if hasattr(element, "_struct"):
                found |= error_codes(element)
    return found


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += chunk
    return data
