"""Connects and authenticates to a broker once, before a client does: a client retries for long, and hides why it fails.

Problems with certificates, passwords or the network show in the first few messages of a connection. Each gets its own error here.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from kompat.cli.command import CommandError

NO_ERROR: Final = 0
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_LARGEST: Final = 1 << 24
_TLS_ALERT, _TLS_HANDSHAKE = b"\x15\x03", b"\x16\x03"


def greet(host: str, port: int, settings: Mapping[str, Any], seconds: float) -> None:
    """`settings` are those of a client of kafka-python. Raises CommandError, or OSError if no broker listens there."""
    protocol = settings.get("security_protocol", "PLAINTEXT")
    where = f"{host}:{port}"
    with closing(socket.create_connection((host, port), timeout=seconds)) as plain:
        plain.settimeout(settings.get("bootstrap_timeout_ms", 1000 * seconds) / 1000)
        if protocol.endswith("SSL"):
            with closing(_encrypted(plain, host, where, settings)) as connection:
                _log_in(_Wire(connection), where, settings)
        else:
            _log_in(_Wire(plain), where, settings)


# -- TLS ---------------------------------------------------------------------------------------------------------------
def _encrypted(plain: socket.socket, host: str, where: str, settings: Mapping[str, Any]) -> ssl.SSLSocket:
    context = _context(settings)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise CommandError(
            f"the certificate of {where} is not trusted: {error.verify_message}; --tls-ca names the authority to trust"
        ) from error
    except (ssl.SSLEOFError, ConnectionError) as error:
        raise CommandError(f"{where} does not use TLS: it closed the connection") from error
    except ssl.SSLError as error:
        raise CommandError(f"{where} failed the TLS handshake: {_reason(error)}") from error


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    given: ssl.SSLContext | None = settings.get("ssl_context")
    if given is not None:
        return given
    context = ssl.create_default_context(cafile=settings.get("ssl_cafile"))
    context.check_hostname = settings.get("ssl_check_hostname", True)
    if settings.get("ssl_certfile"):
        try:
            context.load_cert_chain(settings["ssl_certfile"], settings.get("ssl_keyfile"), settings.get("ssl_password"))
        except ssl.SSLError as error:
            raise CommandError(f"--tls-cert and --tls-key cannot be used: {_reason(error)}") from error
    return context


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


# -- messages ----------------------------------------------------------------------------------------------------------
class _Wire:
    """Requests and their responses, one by one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def ask(self, request: Any, version: int) -> Any:
        """Send a request of a version that is not flexible, and return the response."""
        request.API_VERSION = version
        request.with_header(correlation_id=1, client_id="kompat-cli")
        self._connection.sendall(request.encode(header=True, framed=True))
        start = self._exactly(4)
        if start[:2] in (_TLS_ALERT, _TLS_HANDSHAKE):
            raise _SpeaksTls
        (size,) = struct.unpack(">i", start)
        if not 4 <= size <= _LARGEST:
            raise CommandError("the server is not a Kafka broker")
        return request.header.get_response_class().decode(self._exactly(size)[4:])

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            part = self._connection.recv(size - len(found))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            found += part
        return bytes(found)


class _SpeaksTls(Exception):  # noqa: N818 - it is what was found
    """The listener responds with TLS to plaintext."""


# -- authentication ----------------------------------------------------------------------------------------------------
def _log_in(wire: _Wire, where: str, settings: Mapping[str, Any]) -> None:
    is_encrypted = settings.get("security_protocol", "").endswith("SSL")
    has_login = settings.get("security_protocol", "").startswith("SASL")
    try:
        _first_request(wire)
    except _SpeaksTls:
        raise CommandError(f"{where} requires TLS: --tls or --tls-ca is missing") from None
    except ssl.SSLError as error:  # TLS 1.3 rejects a certificate after the client's handshake
        raise CommandError(_refused_certificate(where, settings, error)) from error
    except ConnectionError:
        if is_encrypted and not has_login:
            raise CommandError(_refused_certificate(where, settings, None)) from None
        hint = "" if is_encrypted else "; it may require TLS (--tls, --tls-ca)"
        raise ConnectionError(
            f"it closed the connection at once{hint}"
        ) from None  # or it is stopping: other brokers may be up
    if not has_login:
        _probe(wire, where)
    elif settings.get("sasl_mechanism") in MECHANISMS:
        _authenticate(wire, where, settings)


def _refused_certificate(where: str, settings: Mapping[str, Any], error: ssl.SSLError | None) -> str:
    if settings.get("ssl_certfile"):
        why = f": {_reason(error)}" if error is not None else ""
        return f"{where} rejected the certificate of --tls-cert{why}"
    return f"{where} requires a client certificate: --tls-cert and --tls-key are missing"


def _first_request(wire: _Wire) -> None:
    """ApiVersions: every broker of Kafka's protocol responds to it, also before authentication."""
    from kafka.protocol.metadata import ApiVersionsRequest

    wire.ask(ApiVersionsRequest(), 0)


def _probe(wire: _Wire, where: str) -> None:
    """Send a request that needs authentication: a listener that requires it closes the connection."""
    from kafka.protocol.metadata import MetadataRequest

    try:
        wire.ask(MetadataRequest(topics=[]), 1)
    except ConnectionError:
        raise CommandError(f"{where} requires SASL authentication: --user and --password-file are missing") from None


def _authenticate(wire: _Wire, where: str, settings: Mapping[str, Any]) -> None:
    from kafka.errors import for_code
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

    name, user = settings["sasl_mechanism"], settings.get("sasl_plain_username")
    try:
        offered = wire.ask(SaslHandshakeRequest(mechanism=name), 1)
        if name not in offered.mechanisms:
            raise CommandError(
                f"{where} does not support {name}: --sasl-mechanism may be {', '.join(offered.mechanisms)}"
            )
        mechanism = get_sasl_mechanism(name)(host="", **settings)
        while not mechanism.is_done():
            response = wire.ask(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()), 1)
            if response.error_code != NO_ERROR:
                reason = response.error_message or for_code(response.error_code).description
                raise CommandError(f"{where} rejected the authentication: check the password of {user} ({reason})")
            mechanism.receive(response.auth_bytes)
    except ConnectionError:
        raise CommandError(
            f"{where} does not use SASL authentication, or rejected it: it closed the connection"
        ) from None
