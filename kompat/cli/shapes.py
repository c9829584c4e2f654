"""Records as the HTTP door tells them. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kompat.cli.formats import Shown


def record_of(topic: str, told: Mapping[str, Any]) -> Shown:
    return Shown(
        topic=told.get("topic") or topic,
        partition=told["partition"],
        offset=told["offset"],
        timestamp=told.get("timestamp") or 0,
        key=bytes_of(told, "key", "keyEncoding"),
        value=bytes_of(told, "value", "encoding"),
        headers=[(each["name"], bytes_of(each, "value", "encoding")) for each in told.get("headers") or ()],
    )


def bytes_of(told: Mapping[str, Any], name: str, encoding: str) -> bytes | None:
    value = told.get(name)
    if value is None:
        return None
    return base64.b64decode(value) if told.get(encoding) == "base64" else str(value).encode()
