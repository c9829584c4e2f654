"""Certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
ADDRESSES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Files:
    certificate: str
    key: str
    both: str  # in one file, as Kafka's settings want them
    authority: str

    def broker_settings(self) -> dict[str, str]:
        """Of a broker that shows this certificate, and takes those of the same authority."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.both,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
        }


class Authority:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.certificate = str(directory / "ca.pem")
        self._key = str(directory / "ca.key")
        _openssl("req", "-x509", *CURVE, "-keyout", self._key, "-out", self.certificate, "-subj", "/CN=authority")

    def files(self, name: str, subject: str = "") -> Files:
        cert, key, both = (str(self._directory / f"{name}.{kind}") for kind in ("crt", "key", "pem"))
        signed_by = ("-CA", self.certificate, "-CAkey", self._key, "-addext", ADDRESSES)
        named = ("-multivalue-rdn", "-utf8", "-subj", subject or f"/CN={name}")
        _openssl("req", "-x509", *signed_by, *CURVE, "-keyout", key, "-out", cert, *named)
        Path(both).write_text(Path(key).read_text() + Path(cert).read_text())
        return Files(cert, key, both, self.certificate)


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)  # noqa: S603, S607
