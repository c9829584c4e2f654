"""A broker with a listener of every security protocol, and how each client is told to use them."""

from dataclasses import dataclass
from pathlib import Path

from interop_tests.support.broker import free_port
from tests.security.certificates import Authority, Files
from tests.security.tokens import Issuer

ADMIN, ALICE = ("admin", "admin-secret"), ("alice", "alice-secret")
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
TOKENS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
FIRST_USERS = " ".join(
    f"SCRAM-SHA-{size}=[name={name},password={password}]" for name, password in (ADMIN, ALICE) for size in (256, 512)
)
JAVA_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM": "scram.ScramLoginModule"}


@dataclass(frozen=True)
class Way:
    """One way to come to a broker, as somebody."""

    protocol: str
    bootstrap: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    files: Files | None = None  # of TLS; its own certificate is shown on SSL listeners only

    @property
    def has_certificate(self) -> bool:
        return self.protocol == "SSL"

    def librdkafka(self) -> dict[str, str]:
        told = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol, "log_level": "0"}
        if self.mechanism:
            told |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        if self.files is not None:
            told["ssl.ca.location"] = self.files.authority
            if self.has_certificate:
                told |= {"ssl.certificate.location": self.files.certificate, "ssl.key.location": self.files.key}
        return told

    def kafka_python(self) -> dict[str, str]:
        told = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.mechanism:
            told |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        if self.files is not None:
            told["ssl_cafile"] = self.files.authority
            if self.has_certificate:
                told |= {"ssl_certfile": self.files.certificate, "ssl_keyfile": self.files.key}
        return told

    def java(self, file: Path) -> str:
        """A file for --command-config."""
        told = {"security.protocol": self.protocol}
        if self.mechanism:
            module = JAVA_MODULES[self.mechanism.partition("-")[0]]
            told["sasl.mechanism"] = self.mechanism
            told["sasl.jaas.config"] = (
                f'org.apache.kafka.common.security.{module} required username="{self.user}" password="{self.password}";'
            )
        if self.files is not None:
            told |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.files.authority}
            if self.has_certificate:
                told |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.files.both}
        file.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        return str(file)


class Secured:
    """The settings of such a broker. Nobody but those who are known may do anything."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.authority = Authority(home / "certificates")
        self.issuer = Issuer(home / "issuer")
        self.broker_files = self.authority.files("broker")
        self.client_files = self.authority.files("client", "/O=Acme/CN=Carol")
        self.ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SSL", "SASL_SSL")}

    def settings(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:0,{listeners}",
            "sasl.enabled.mechanisms": f"{MECHANISMS},OAUTHBEARER",
            "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": TOKENS,
            "sasl.oauthbearer.jwks.endpoint.url": self.issuer.keys.as_uri(),
            "sasl.oauthbearer.expected.audience": "kompat",
            "kompat.bootstrap.scram": FIRST_USERS,
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/L,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:alice;User:carol",
            **self.broker_files.broker_settings(),
        }

    def way(self, protocol: str, mechanism: str = "", user: str = ALICE[0], password: str = ALICE[1]) -> Way:
        files = self.client_files if protocol.endswith("SSL") else None
        if not mechanism:
            return Way(protocol, f"127.0.0.1:{self.ports[protocol]}", files=files)
        return Way(protocol, f"127.0.0.1:{self.ports[protocol]}", mechanism, user, password, files)
