"""`listeners` and `advertised.listeners`: NAME://host:port, separated by commas."""

import re
from dataclasses import dataclass

from kompat.errors import ConfigError

_LISTENER = r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]\s]*):([0-9]{1,5})"


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str  # empty: every interface
    port: int  # 0: any that is free

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listener(setting: str, text: str) -> Listener:
    found = re.fullmatch(_LISTENER, text)
    if found is None or int(found[3]) > 65535:
        raise ConfigError(f"{setting}: {text!r} is not of the form NAME://host:port")
    return Listener(found[1].upper(), found[2].strip("[]"), int(found[3]))


def parse_protocols(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: listener name to security protocol."""
    protocols = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = pair.partition(":")
        if not (name and colon and protocol):
            raise ConfigError(f"listener.security.protocol.map: {pair!r} is not of the form NAME:PROTOCOL")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols
