"""The credentials by which brokers of a cluster authenticate to each other: a shared secret, certificates, or both."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kompat.config.broker import BrokerConfig
from kompat.errors import ConfigError

SHORTEST_SECRET = 16  # bytes; a MAC under a shorter one can be searched for

_TLS_SETTINGS = ("kompat.cluster.tls.cert.file", "kompat.cluster.tls.key.file", "kompat.cluster.tls.ca.file")
# A certificate with such names is for those brokers; one without is for any of the cluster.
_NODE_NAME = re.compile(r"kompat-([0-9]{1,9})(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Tls:
    """Both ends show a certificate that the cluster's authority has signed."""

    server: ssl.SSLContext
    client: ssl.SSLContext

    @classmethod
    def load(cls, cert: str, key: str, authority: str) -> Tls:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False  # brokers are known by their node ids, wherever they stand
        for context in (server, client):
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_cert_chain(cert, key)
            context.load_verify_locations(authority)
        return cls(server, client)


@dataclass(frozen=True, slots=True)
class Identity:
    secret: bytes = b""
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if not self.secret and self.tls is None:
            raise ConfigError(
                "a cluster needs kompat.cluster.secret, kompat.cluster.secret.file or kompat.cluster.tls.*:"
                " brokers do not talk to strangers"
            )
        if self.secret and len(self.secret) < SHORTEST_SECRET:
            raise ConfigError(f"the cluster's secret is shorter than {SHORTEST_SECRET} bytes")


def identity_from(config: BrokerConfig) -> Identity:
    """From the configuration. Raises ConfigError where it is incomplete or a file cannot be read."""
    return Identity(_secret(config), _tls(config))


def _secret(config: BrokerConfig) -> bytes:
    given, file = config["kompat.cluster.secret"], config["kompat.cluster.secret.file"]
    if given and file:
        raise ConfigError("kompat.cluster.secret and kompat.cluster.secret.file exclude each other")
    if not file:
        return given.encode() if given else b""
    try:
        secret = Path(file).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"kompat.cluster.secret.file: {file}: {error.strerror}") from None
    if not secret:
        raise ConfigError(f"kompat.cluster.secret.file: {file} is empty")
    return secret


def _tls(config: BrokerConfig) -> Tls | None:
    files = [config[name] for name in _TLS_SETTINGS]
    if not any(files):
        return None
    for name, file in zip(_TLS_SETTINGS, files, strict=True):
        if not file:
            raise ConfigError(f"{name} is missing: {', '.join(_TLS_SETTINGS)} go together")
    try:
        return Tls.load(*files)
    except OSError as error:  # OpenSSL's errors are OSErrors, too
        raise ConfigError(f"kompat.cluster.tls: {', '.join(files)}: {error}") from None


def certified_nodes(certificate: Mapping[str, Any]) -> frozenset[int] | None:
    """The node ids that a certificate names (as `kompat-1` or `kompat-1.example.org`); None: it names none."""
    found = frozenset(int(match[1]) for name in _names(certificate) if (match := _NODE_NAME.match(name)))
    return found or None


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    for kind, name in certificate.get("subjectAltName", ()):
        if kind == "DNS":
            yield name
    for part in certificate.get("subject", ()):
        for kind, name in part:
            if kind == "commonName":
                yield name
