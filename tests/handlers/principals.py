"""Two who ask a broker: an administrator, who may do everything, and Alice, who may do what she has been allowed.

The administrator comes by a plaintext listener, as ANONYMOUS, which has to be a super user; Alice by SASL PLAIN, on a
listener by the name of CLIENTS.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from kompat.security.acls import Kind, Operation, Pattern, Permission
from tests.handlers import rights, wire
from tests.handlers.conftest import build

ALICE, PASSWORD = "alice", "alice-secret"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{ALICE}="{PASSWORD}";'
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
Address = tuple[str, int]


class Parties:
    def __init__(self, plain: Address, sasl: Address) -> None:
        self._plain = plain
        self._sasl = sasl
        self.topic_id = UUID(int=0)

    def prepare(self) -> None:
        """The topic that the cases are about."""
        topic = {"name": rights.TOPIC, "num_partitions": 1, "replication_factor": 1}
        self.admin("CreateTopics", 7, topics=[topic], timeout_ms=10_000)
        described = self.admin("Metadata", 12, topics=[{"name": rights.TOPIC}], allow_auto_topic_creation=False)
        self.topic_id = described.topics[0].topic_id

    def has_coordinators(self) -> bool:
        """Kafka makes their topics when somebody asks for the first time."""
        keys = {0: rights.GROUP, 1: rights.TRANSACTION}
        return all(
            self.admin("FindCoordinator", 3, key=key, key_type=kind).error_code == 0 for kind, key in keys.items()
        )

    def admin(self, api: str, version: int, /, **fields: Any) -> Any:
        return wire.ask(self._plain, build(f"{api}Request", fields), version)

    def alice(self, api: str, version: int, /, **fields: Any) -> Any:
        [answer] = self.alice_goes_on((api, version, fields))
        return answer

    def alice_goes_on(self, *requests: tuple[str, int, dict[str, Any]]) -> list[Any]:
        """One request after the other, on one connection."""
        with socket.create_connection(self._sasl, timeout=10) as connection:
            wire.exchange(connection, build("SaslHandshakeRequest", {"mechanism": "PLAIN"}), 1)
            token = f"\0{ALICE}\0{PASSWORD}".encode()
            proven = wire.exchange(connection, build("SaslAuthenticateRequest", {"auth_bytes": token}), 2)
            assert proven.error_code == 0, proven
            return [
                wire.exchange(connection, build(f"{api}Request", fields), version) for api, version, fields in requests
            ]

    def asks(self, case: rights.Case) -> Any:
        return self.alice(case.api, case.version, **case.fields(self.topic_id))

    # -- rights ----------------------------------------------------------------------------------------------------
    def allow(self, *granted: rights.Right, permission: Permission = Permission.ALLOW, **other: Any) -> None:
        made = self.admin("CreateAcls", 3, creations=[_acl(right, permission, other) for right in granted])
        assert [each.error_code for each in made.results] == [0] * len(granted), made

    def deny(self, *denied: rights.Right) -> None:
        self.allow(*denied, permission=Permission.DENY)

    def revoke_all(self) -> None:
        everything = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
        numbers = dict.fromkeys(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"), 1)
        self.admin("DeleteAcls", 3, filters=[everything | numbers])


def _acl(right: rights.Right, permission: Permission, other: dict[str, Any]) -> dict[str, Any]:
    operation, kind, name = right
    usual = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": Pattern.LITERAL,
        "principal": f"User:{ALICE}",
        "host": "*",
        "operation": operation,
        "permission_type": permission,
    }
    return usual | other


def every_right_on(kind: Kind, names: Iterable[str]) -> tuple[rights.Right, ...]:
    return tuple((Operation.ALL, kind, name) for name in names)
