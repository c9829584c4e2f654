"""Counts the errors in a response: one for each partition, topic or group in it that has one.

The places of error codes are read from a message's definition once; for hand-written responses they are given here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from kompat.common.meters import ApiMeter
from kompat.protocol.messages import Message
from kompat.protocol.messages.schema import Struct
from kompat.protocol.produce import ProduceResponse

Counter = Callable[[ApiMeter, Any], None]
Steps = Callable[[ApiMeter, Any], Generator[None, None, None]]

CODE = "error_code"


COUNTERS: dict[type[Any], Counter] = {}  # by the answers' class, as they are needed
_STEPS: dict[type[Any], Steps] = {}


def counter_of(response: type[Any]) -> Counter:
    """What counts the errors in answers of a class."""
    counter = COUNTERS[response] = _counter(response)
    return counter


def errors_in_steps(response: type[Any], meter: ApiMeter, message: Any) -> Generator[None, None, None]:
    """Count the errors in a response that may be long, in steps between which other requests may have a turn."""
    if issubclass(response, Message):
        if response not in _STEPS:
            _STEPS[response] = _steps_of(response.SCHEMA.struct)
        yield from _STEPS[response](meter, message)
    else:
        (COUNTERS.get(response) or counter_of(response))(meter, message)


def _steps_of(struct: Struct) -> Steps:
    codes, structs = _places(struct)
    nested = [(name, is_array, _steps_of(inner)) for name, is_array, inner in structs]

    def count(meter: ApiMeter, message: Any) -> Generator[None, None, None]:
        for name in codes:
            code = getattr(message, name)
            if code:
                meter.failed(code)
        for name, is_array, inner in nested:
            value = getattr(message, name)
            for each in (value or ()) if is_array else (value,):
                if each is not None:
                    yield
                    yield from inner(meter, each)

    return count


def _places(struct: Struct) -> tuple[list[str], list[tuple[str, bool, Struct]]]:
    """Where a struct has error codes: fields, and structs in it."""
    codes = [field.name for field in struct.fields if field.name.endswith(CODE) and not field.is_array]
    nested = [
        (field.name, field.is_array, field.struct)
        for field in struct.fields
        if field.struct is not None and _has_code(field.struct)
    ]
    return codes, nested


def _counter(response: type[Any]) -> Counter:
    if response is ProduceResponse:
        return _produce
    if issubclass(response, Message):
        return _of_struct(response.SCHEMA.struct)
    return _fetch if hasattr(response, "responses") else _nothing


def _nothing(_: ApiMeter, __: Any) -> None:
    """The response has none."""


def _produce(meter: ApiMeter, response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                meter.failed(partition.error_code)


def _fetch(meter: ApiMeter, response: Any) -> None:
    """ShareFetch's answer has the same shape."""
    if response.error_code:
        meter.failed(response.error_code)
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code:
                meter.failed(partition.error_code)


def _of_struct(struct: Struct) -> Counter:
    codes, structs = _places(struct)
    nested = [(name, is_array, _of_struct(inner)) for name, is_array, inner in structs]

    def count(meter: ApiMeter, message: Any) -> None:
        for name in codes:
            code = getattr(message, name)
            if code:
                meter.failed(code)
        for name, is_array, inner in nested:
            value = getattr(message, name)
            for each in (value or ()) if is_array else (value,):
                if each is not None:
                    inner(meter, each)

    return count


def _has_code(struct: Struct) -> bool:
    return any(
        field.name.endswith(CODE) or (field.struct is not None and _has_code(field.struct)) for field in struct.fields
    )
