"""What a broker alone knows of itself, for the HTTP doors of the others: a command and its answer, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kompat.cluster.calls import Call
from kompat.errors import ErrorCode, KafkaError, PeerError
from kompat.types import Buffer, NodeId

if TYPE_CHECKING:
    from kompat.admin.sampling import Sampler
    from kompat.handlers.services import Services
    from kompat.log.partition import Partition

SECONDS = 5.0  # for an answer


class Telling:
    def __init__(self, services: Services, http: str, sampler: Sampler) -> None:
        """`http`: where this broker's door is; empty: it has none."""
        self._services = services
        self._http = http
        self._sampler = sampler
        self._commands: dict[str, Callable[[Any], Any]] = {
            "broker": self._broker,
            "raft": self._raft,
            "statistics": sampler.told,
        }
        member = services.cluster.member
        if member is not None:
            member.peers.on_call[Call.TELL] = self._serve

    async def ask(self, node: NodeId, command: str, arguments: Any = None) -> Any:
        """Of another broker, or of this one. Raises BROKER_NOT_AVAILABLE."""
        member = self._services.cluster.member
        if member is None or node == self._services.node_id:
            return self._commands[command](arguments)
        body = json.dumps([command, arguments]).encode()
        try:
            return json.loads(bytes(await member.peers.call(node, Call.TELL, [body], SECONDS)))
        except PeerError as lost:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {node} has not answered: {lost}") from lost

    async def _serve(self, _: NodeId, body: memoryview) -> Sequence[Buffer]:
        command, arguments = json.loads(bytes(body))
        known = self._commands.get(command)
        if known is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"this broker knows no command {command}")
        return [json.dumps(known(arguments)).encode()]

    # -- what there is to tell -------------------------------------------------------------------------------------
    def _broker(self, _: Any) -> dict[str, Any]:
        return {"http": self._http, "version": self._services.version}

    def _raft(self, wanted: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
        """Of those of the partitions that are led here."""
        found = ((topic, index, self._partition(topic, index)) for topic, index in wanted)
        return [self._described(topic, index, partition) for topic, index, partition in found if partition is not None]

    def _partition(self, topic: str, index: int) -> Partition | None:
        cluster = self._services.cluster
        if topic == cluster.log.topic and index == 0:
            return cluster.log
        return self._services.logs.find(topic, index)

    def _described(self, topic: str, index: int, partition: Partition) -> dict[str, Any]:
        from kompat.log.replica import Replica  # a broker that is alone does without it

        replica = partition.replica
        row: dict[str, Any] = {"topic": topic, "partition": index, "leader": self._services.node_id}
        if not isinstance(replica, Replica):
            last = partition.state.next_index - 1
            alone = {"id": self._services.node_id, "match_index": last, "lag": 0, "state": "leader", "is_voter": True}
            numbers = {"commit_index": last, "applied_index": last, "last_index": last}
            return {**row, "term": partition.leader_epoch, "role": "leader", **numbers, "peers": [alone]}
        status = replica.group.status()
        voters = set(replica.voters)
        peers = [
            {
                "id": peer.id,
                "match_index": status.last if peer.id == status.id else peer.matched,
                "lag": 0 if peer.id == status.id else max(0, status.last - peer.matched),
                "state": "leader" if peer.id == status.id else peer.state,
                "is_voter": peer.id in voters,
            }
            for peer in status.peers
        ]
        return {
            **row,
            "leader": status.leader or None,
            "term": status.term,
            "role": replica.role.name.lower(),
            "commit_index": status.commit,
            "applied_index": status.applied,
            "last_index": status.last,
            "peers": peers,
        }
