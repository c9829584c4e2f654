"""Whether an answer is short enough to be encoded at once: its items are counted, but only until there are too many.

Where a message has arrays is read from its definition once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kompat.protocol.messages import Message
from kompat.protocol.messages.schema import Struct

SHORT = 100  # items of arrays, in all

Room = Callable[
    [Any, int], int
]  # how many more items there might be beside those of a message; negative: it has too many

_ROOMS: dict[type[Message], Room] = {}


def is_short(message: Message) -> bool:
    room = _ROOMS.get(message.__class__)
    if room is None:
        room = _ROOMS[message.__class__] = _room_of(message.SCHEMA.struct)
    return room(message, SHORT) >= 0


def _room_of(struct: Struct) -> Room:
    arrays = [
        (field.name, _room_of(field.struct) if field.struct is not None and _has_arrays(field.struct) else None)
        for field in struct.fields
        if field.is_array
    ]
    structs = [
        (field.name, _room_of(field.struct))
        for field in struct.fields
        if not field.is_array and field.struct is not None and _has_arrays(field.struct)
    ]

    def left(message: Any, room: int) -> int:
        for name, inner in arrays:
            items = getattr(message, name) or ()
            room -= len(items)
            if inner is not None:
                for item in items:
                    if room < 0:
                        return room
                    room = inner(item, room)
        for name, within in structs:
            value = getattr(message, name)
            room = room if value is None else within(value, room)
        return room

    return left


def _has_arrays(struct: Struct) -> bool:
    return any(field.is_array or (field.struct is not None and _has_arrays(field.struct)) for field in struct.fields)
