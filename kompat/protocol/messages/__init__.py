"""Kafka's messages by name: `from kompat.protocol.messages import MetadataRequest, MetadataResponse`.

A class is made when it is first asked for: a broker that starts pays only for what its first clients use.
"""

from typing import Any

from kompat.protocol.api_keys import ApiKey
from kompat.protocol.messages.classes import Message, build_class
from kompat.protocol.messages.schema import load

__all__ = ["Message", "classes", "message_class"]


def message_class(name: str) -> type[Message]:
    """The class of a request or response; KeyError where no such message is defined."""
    known: type[Message] | None = globals().get(name)
    if known is None:
        known = globals()[name] = build_class(load(name))
    return known


def classes(key: ApiKey) -> tuple[type[Message], type[Message]]:
    """An API's request and response."""
    return message_class(f"{key.name}Request"), message_class(f"{key.name}Response")


def __getattr__(name: str) -> Any:
    if not name.endswith(("Request", "Response")):
        raise AttributeError(name)
    try:
        return message_class(name)
    except KeyError:
        raise AttributeError(name) from None
