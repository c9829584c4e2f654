"""Brokers exchange the incarnations of their data directories, before any Raft message passes between them.

Each sends its own incarnation, and the one in which it has seen the other before. So a broker whose directory was put back to
an older state learns that before it can vote. While they are linked they send their steps again and again: the later they have
seen each other, the more recent a restored copy is noticed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from kompat.log.storage.incarnation import Incarnation, Incarnations
from kompat.raft.ports import Peers
from kompat.types import NodeId

logger = logging.getLogger(__name__)

MEETING: Final = bytes(20)  # in the place of a log's key
AGAIN_SECONDS = 0.3


class Meetings:
    def __init__(
        self,
        me: NodeId,
        peers: Peers,
        incarnations: Incarnations,
        call_later: Callable[..., Any],
        patience: float,
        on_met: Callable[[NodeId], None],
        on_set_back: Callable[[NodeId], None],
    ) -> None:
        """`on_set_back`: a broker has seen a later state of this broker's data directory. `patience`: seconds after which a broker
        that has not answered is taken for one of an older version; 0: never."""
        self._me = me
        self._peers = peers
        self._incarnations = incarnations
        self._call_later = call_later
        self._patience = patience
        self._met: set[NodeId] = set()
        self._meeting: dict[NodeId, object] = {}  # identifies the exchange under way
        self._on_met = on_met
        self._on_set_back = on_set_back

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
        greeting = {"me": self._incarnations.mine, "you": self._incarnations.known(node), "asks": asks}
        self._peers.send_raft(node, MEETING, json.dumps(greeting).encode(), ())

    def tell_all(self) -> None:
        """Send the present step to all brokers that have been met."""
        for node in self._met:
            self._tell(node, asks=False)

    def receive(self, sender: NodeId, message: bytes) -> None:
        try:
            greeting = json.loads(message)
            theirs, seen = Incarnation(*greeting["me"]), Incarnation(*greeting["you"]) if greeting["you"] else None
            asks = bool(greeting["asks"])
        except (ValueError, KeyError, TypeError):
            logger.warning("broker %d has sent an invalid incarnation", sender)
            return
        if seen is not None and self._incarnations.is_set_back(seen):
            self._incarnations.renew()
            self._on_set_back(sender)
            self.tell_all()
        self._incarnations.remember(sender, theirs)
        if asks:
            self._tell(sender, asks=False)
        if sender not in self._met:
            self._meet(sender)

    def _meet(self, node: NodeId) -> None:
        self._met.add(node)
        self._on_met(node)
