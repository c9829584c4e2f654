"""`listeners` and `advertised.listeners`: NAME://host:port, separated by commas, each with a security protocol."""

import re
from dataclasses import dataclass, replace
from enum import Enum

from kompat.errors import ConfigError

_LISTENER = r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%]+\]|[^:/\[\]\s]*):([0-9]{1,5})"


class SecurityProtocol(Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str  # empty: all interfaces
    port: int  # 0: any free port
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    def speaking(self, protocols: dict[str, str], setting: str) -> "Listener":
        """The same listener with its security protocol of `listener.security.protocol.map`."""
        protocol = protocols.get(self.name)
        if protocol is None:
            raise ConfigError(f"{setting}: listener.security.protocol.map has no protocol for {self.name}")
        if protocol not in SecurityProtocol.__members__:
            raise ConfigError(f"{setting}: the protocol {protocol} of {self.name} does not exist")
        return replace(self, protocol=SecurityProtocol[protocol])


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
