"""Kafka's requests that another broker has to answer: they are forwarded as they are, with the client's identity."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from kompat.rpc.messages import BrokerRequest, ControllerRequest


class ForwardedClient(Struct, frozen=True):
    host: str
    connection_id: str
    local_address: tuple[str, int]
    principal: str
    listener: str = ""


class ControllerFrame(ControllerRequest[memoryview], frozen=True):
    client: ForwardedClient
    frame: memoryview


class BrokerFrame(BrokerRequest[memoryview], frozen=True):
    client: ForwardedClient
    frame: memoryview


class LongPollFrame(BrokerRequest[memoryview], frozen=True):
    """A request whose answer waits for something to happen."""

    is_long_poll: ClassVar[bool] = True
    client: ForwardedClient
    frame: memoryview
