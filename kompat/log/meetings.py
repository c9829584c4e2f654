"""What brokers tell each other of themselves and of each other, before any Raft message passes between them.

Each says in which incarnation of its data directory it is, and in which it has seen the other before. A broker whose directory
was put back to an older state hears so before it can vote for the one that knows. While they are linked they go on to say how far
they have come: the later they have seen each other, the more recent a copy is noticed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from kompat.log.incarnation import Incarnation, Incarnations
from kompat.log.replication_ports import Peers
from kompat.types import NodeId

logger = logging.getLogger(__name__)

MEETING: Final = bytes(20)  # in the place of a log's key
AGAIN_SECONDS = 0.3


def _ignore(_: NodeId) -> None:
    pass


class Meetings:
    def __init__(
        self,
        me: NodeId,
        peers: Peers,
        incarnations: Incarnations,
        call_later: Callable[..., Any],
        patience: float,
    ) -> None:
        """`patience`: seconds after which a broker that says nothing is taken for one of an older version; 0: never."""
        self._me = me
        self._peers = peers
        self._incarnations = incarnations
        self._call_later = call_later
        self._patience = patience
        self._met: set[NodeId] = set()
        self._meeting: dict[NodeId, object] = {}  # what tells this meeting from the next
        self.on_met: Callable[[NodeId], None] = _ignore
        self.on_set_back: Callable[[NodeId], None] = _ignore

    def has_met(self, node: NodeId) -> bool:
        return node in self._met

    def begin(self, node: NodeId) -> None:
        """There is a link."""
        if node == self._me:
            return
        self._met.discard(node)
        meeting = self._meeting[node] = object()
        self._ask(node, meeting, 0.0)

    def end(self, node: NodeId) -> None:
        self._met.discard(node)
        self._meeting.pop(node, None)

    def _ask(self, node: NodeId, meeting: object, waited: float) -> None:
        if self._meeting.get(node) is not meeting or node in self._met:
            return
        if 0 < self._patience <= waited:
            self._meet(node)
            return
        self._tell(node, asks=True)
        self._call_later(AGAIN_SECONDS, self._ask, node, meeting, waited + AGAIN_SECONDS)

    def _tell(self, node: NodeId, *, asks: bool) -> None:
        told = {"me": self._incarnations.mine, "you": self._incarnations.known(node), "asks": asks}
        self._peers.send_raft(node, MEETING, json.dumps(told).encode(), ())

    def tell_all(self) -> None:
        """Those who are met hear how far this broker has come."""
        for node in self._met:
            self._tell(node, asks=False)

    def receive(self, sender: NodeId, message: bytes) -> None:
        try:
            told = json.loads(message)
            theirs, seen = Incarnation(*told["me"]), Incarnation(*told["you"]) if told["you"] else None
            asks = bool(told["asks"])
        except (ValueError, KeyError, TypeError):
            logger.warning("broker %d says something about itself that makes no sense", sender)
            return
        if seen is not None and self._incarnations.is_set_back(seen):
            self._incarnations.renew()
            self.on_set_back(sender)
            self.tell_all()
        self._incarnations.remember(sender, theirs)
        if asks:
            self._tell(sender, asks=False)
        if sender not in self._met:
            self._meet(sender)

    def _meet(self, node: NodeId) -> None:
        self._met.add(node)
        self.on_met(node)
