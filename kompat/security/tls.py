"""TLS of a listener, from Kafka's settings: certificates and keys as PEM, in files or in the settings themselves."""

from __future__ import annotations

import re
import ssl
import textwrap
from collections.abc import Callable
from tempfile import NamedTemporaryFile
from typing import Any

from kompat.errors import ConfigError

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_CONVERT = "kompat reads PEM; `openssl pkcs12 -in STORE -out FILE.pem -nodes` makes it of a PKCS12 store"

Setting = Callable[[str], Any]  # of the listener, by Kafka's name


def context(setting: Setting) -> ssl.SSLContext:
    """The TLS context of a listener. ConfigError if settings are missing or files cannot be read."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version, made.maximum_version = _versions(setting("ssl.enabled.protocols"))
    made.verify_mode = _CLIENTS[setting("ssl.client.auth")]
    _take_ciphers(made, setting("ssl.cipher.suites"))
    load_key(made, setting)
    if made.verify_mode is not ssl.CERT_NONE and not _load_trusted(made, setting):
        raise ConfigError("ssl.client.auth: ssl.truststore.location says whose certificates are taken, and is missing")
    return made


def client_context(setting: Setting) -> ssl.SSLContext:
    """The TLS context of connections to other brokers. Without a truststore, the system's authorities are trusted."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version, made.maximum_version = _versions(setting("ssl.enabled.protocols"))
    if not _load_trusted(made, setting):
        made.load_default_certs()
    return made


def load_key(into: ssl.SSLContext, setting: Setting) -> None:
    """Load the broker's certificate and key, for new connections."""
    chain, key, file = (setting(f"ssl.keystore.{part}") for part in ("certificate.chain", "key", "location"))
    _check_type("ssl.keystore.type", setting, is_given=bool(chain or key or file))
    password = setting("ssl.key.password") or ""  # with None OpenSSL would prompt on the terminal
    if chain and key:
        with NamedTemporaryFile(
            "w", suffix=".pem"
        ) as both:  # OpenSSL reads only files; only the owner can read this one
            both.write(_lines(key) + _lines(chain))
            both.flush()
            _load("ssl.keystore.key", lambda: into.load_cert_chain(both.name, password=password))
    elif file:
        _load(f"ssl.keystore.location: {file}", lambda: into.load_cert_chain(file, password=password))
    else:
        raise ConfigError("ssl.keystore.location, or ssl.keystore.certificate.chain and ssl.keystore.key, is missing")


def _load_trusted(into: ssl.SSLContext, setting: Setting) -> bool:
    """Load the trusted authorities. False if the settings have none."""
    given, file = setting("ssl.truststore.certificates"), setting("ssl.truststore.location")
    _check_type("ssl.truststore.type", setting, is_given=bool(given or file))
    if given:
        _load("ssl.truststore.certificates", lambda: into.load_verify_locations(cadata=_lines(given)))
    elif file:
        _load(f"ssl.truststore.location: {file}", lambda: into.load_verify_locations(file))
    return bool(given or file)


def _check_type(name: str, setting: Setting, *, is_given: bool) -> None:
    if is_given and setting(name).upper() != "PEM":
        raise ConfigError(f"{name}={setting(name)}: {_CONVERT}")


def _versions(names: tuple[str, ...]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise ConfigError(f"ssl.enabled.protocols: {', '.join(unknown) or 'none'}: only TLSv1.2 and TLSv1.3 are spoken")
    found = sorted(_VERSIONS[name] for name in names)
    return found[0], found[-1]


def _take_ciphers(made: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Set the cipher suites. Those of TLS 1.3 are always enabled; OpenSSL has other names for the rest."""
    older = [_openssl_name(suite) for suite in suites if not suite.startswith(("TLS_AES_", "TLS_CHACHA20_"))]
    if older:
        _load("ssl.cipher.suites", lambda: made.set_ciphers(":".join(older)))


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "_").replace("POLY1305_SHA256", "POLY1305")
    return re.sub(r"AES_(\d+)", r"AES\1", name).removeprefix("RSA_").replace("_", "-")


def _load(what: str, load: Callable[[], None]) -> None:
    try:
        load()
    except OSError as error:  # OpenSSL's errors are OSErrors, too
        raise ConfigError(f"{what}: {error.strerror or error}") from None


def _lines(text: str) -> str:
    """PEM with the line breaks that OpenSSL needs: in a setting it may be one line."""
    return "".join(_block(kind, body) for kind, body in _PEM.findall(text))


def _block(kind: str, body: str) -> str:
    data = "\n".join(textwrap.wrap(re.sub(r"\\n|\s", "", body), 64))
    return f"-----BEGIN {kind}-----\n{data}\n-----END {kind}-----\n"
