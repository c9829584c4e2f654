"""Authorizes operations by the cluster's ACLs. Without `authorizer.class.name` every operation is allowed.

Results are cached until an ACL changes: a producer is authorized once, not with every batch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from kompat.cluster.queue_rules import SOURCE
from kompat.common.repeated import Repeated, times
from kompat.errors import ErrorCode, KafkaError
from kompat.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Acls,
    Kind,
    Operation,
    Rules,
    allows,
    allows_any,
)

if TYPE_CHECKING:
    from kompat.cluster.service import ClusterService
    from kompat.config.broker import BrokerConfig

log = logging.getLogger(__name__)

MOST_REMEMBERED = 10_000

_REFUSALS = {
    Kind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Kind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Kind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Kind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Kind.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


class Asker(Protocol):
    """The client that requests an operation: a handler's Context is one."""

    principal: str
    client_host: str


class Authorizer:
    def __init__(self, cluster: ClusterService, config: BrokerConfig) -> None:
        self._cluster = cluster
        self.is_enabled = bool(config["authorizer.class.name"])
        self._rules = Rules(
            super_users=frozenset(filter(None, (name.strip() for name in config["super.users"].split(";")))),
            is_open_without_acls=config["allow.everyone.if.no.acl.found"],
        )
        self._known: dict[Hashable, bool] = {}
        self._denials = Repeated()  # one request can be denied for 100,000 names, each of which would be logged
        self._stamp: tuple[Acls | None, int] = (None, 0)  # the ACLs that they were computed from

    # -- authorizing -----------------------------------------------------------------------------------------------
    def allows(self, who: Asker, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> bool:
        if not self.is_enabled:
            return True
        question = who.principal, who.client_host, operation, kind, name
        acls = self._current()
        known = self._known.get(question)
        if known is None:
            known = allows(acls, self._rules, *question)
            self._remember(question, known)
        if known and operation is Operation.READ and kind is Kind.TOPIC:
            return self._may_read_source(who, name)
        return known

    def _may_read_source(self, who: Asker, name: str) -> bool:
        """A queue topic delivers its source's records: a client needs the right to read the source, too."""
        topic = self._cluster.image.topics.get(name)
        source = topic.configs.get(SOURCE) if topic is not None else None
        return not source or self.allows(who, Operation.READ, Kind.TOPIC, source)

    def require(self, who: Asker, operation: Operation, kind: Kind, name: str = CLUSTER_NAME) -> None:
        """Raises Kafka's error for this type of resource."""
        if self.is_enabled and not self.allows(who, operation, kind, name):
            raise refusal(kind)

    def allowed(self, who: Asker, operation: Operation, kind: Kind, names: Iterable[str]) -> Collection[str]:
        """Those of the names that the operation is allowed on."""
        if not self.is_enabled:
            return set(names)
        return {name for name in set(names) if self.allows(who, operation, kind, name)}

    def allows_any(self, who: Asker, operation: Operation, kind: Kind) -> bool:
        """Whether the operation is allowed on some resource of the type."""
        if not self.is_enabled:
            return True
        question = who.principal, who.client_host, operation, kind
        acls = self._current()
        known = self._known.get(question)
        if known is None:
            known = allows_any(acls, self._rules, *question)
            self._keep(question, known)
        return known

    def _current(self) -> Acls:
        acls = self._cluster.image.acls
        if self._stamp[0] is not acls or self._stamp[1] != acls.version:
            self._known.clear()
            self._stamp = acls, acls.version
        return acls

    def _remember(self, question: tuple[str, str, Operation, Kind, str], known: bool) -> None:
        self._keep(question, known)
        if not known:
            self._log_denial(*question)

    def _log_denial(self, principal: str, host: str, operation: Operation, kind: Kind, name: str) -> None:
        """The first of its kind; the next line has the number of those that were left out."""
        count = self._denials.count((principal, host, operation, kind), monotonic())
        if count:
            facts = {"principal": principal, "host": host, "operation": operation.name, "on": f"{kind.name}:{name}"}
            log.info("denied" + times(count), extra=facts)

    def _keep(self, question: Hashable, known: bool) -> None:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[question] = known

    # -- changing ACLs ---------------------------------------------------------------------------------------------
    def find(self, wanted: AclFilter) -> list[Acl]:
        self._need()
        return self._cluster.image.acls.matching(wanted)

    async def create(self, wanted: Sequence[Acl]) -> list[KafkaError | None]:
        """Outcomes are in the order of the request."""
        self._need()
        return await self._cluster.run(lambda machine: machine.create_acls(wanted))

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl] | KafkaError]:
        """The ACLs that each of the filters has removed."""
        self._need()
        return await self._cluster.run(lambda machine: machine.delete_acls(filters))

    def _need(self) -> None:
        if not self.is_enabled:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def refusal(kind: Kind) -> KafkaError:
    return KafkaError(_REFUSALS[kind])
