"""Parses records in the JSON of the HTTP port. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kompat.cli.formats import Shown


def record_of(topic: str, message: Mapping[str, Any]) -> Shown:
    return Shown(
        topic=message.get("topic") or topic,
        partition=message["partition"],
        offset=message["offset"],
        timestamp=message.get("timestamp") or 0,
        key=bytes_of(message, "key", "keyEncoding"),
        value=bytes_of(message, "value", "encoding"),
        headers=[(each["name"], bytes_of(each, "value", "encoding")) for each in message.get("headers") or ()],
    )


def bytes_of(message: Mapping[str, Any], name: str, encoding: str) -> bytes | None:
    value = message.get(name)
    if value is None:
        return None
    return base64.b64decode(value) if message.get(encoding) == "base64" else str(value).encode()
