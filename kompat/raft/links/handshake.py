"""The handshake of two brokers: it identifies them, proves that both have the secret, and decides which link is kept.

    dialler                                   answerer
    HELLO  version, ids, cluster, nonce  ->
                                         <-   CHALLENGE  version, nonce
    PROOF  MAC                           ->
                                         <-   WELCOME  incarnation, cluster, MAC   (or REFUSED, with a reason)
    READY  last link, MAC                ->

Each MAC is an HMAC-SHA256 under the cluster's secret over all messages before, nonces and ids included, and a label
of the sender's role: none is valid in another step, between other brokers or in another handshake. The dialler proves itself
first, so that a peer without the secret gets nothing but a nonce. Nothing here does IO; nonces are arguments.

A broker that dials knows of no link. Both may dial at once, and a link may be lost on one side and not yet on the other: READY
names the last link of the dialler, and `takes_over` decides which one stays, so that both come to the same result.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from struct import Struct, error

from kompat.errors import ProtocolError
from kompat.types import NodeId

VERSION = 2  # of all messages between brokers, the requests of kompat/rpc included
LONGEST_MESSAGE = 256  # bytes that are accepted before the peer is authenticated
NONCE_SIZE = 32
LINK_ID_SIZE = 8
MAC_SIZE = 32
NO_LINK = bytes(LINK_ID_SIZE)
LONGEST_CLUSTER_ID = 100  # in bytes

_MAGIC = b"kmpt"
_OPENING = Struct(">4sH")  # magic, version: the same in every version to come
_HELLO = Struct(">4sHii8s32sB")  # magic, version, node, whom it wants, incarnation, nonce, length of the cluster id
_CHALLENGE = Struct(">4sH32s")
_WELCOME = Struct(">B8sB")  # verdict, incarnation, length of the cluster id
_REFUSED_SIZE = 8


class Verdict(IntEnum):
    WELCOME = 0
    WRONG_NODE = 1
    WRONG_CLUSTER = 2


_REASONS: dict[int, str] = {
    Verdict.WRONG_NODE: "another broker answers at this address",
    Verdict.WRONG_CLUSTER: "it belongs to another cluster",
}


class Refusal(ProtocolError):  # noqa: N818 - it is meant for the peer
    """The peer is refused, and gets the reason."""

    def __init__(self, reason: str, answer: bytes) -> None:
        super().__init__(reason)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Party:
    """The broker at one end of a link."""

    node: NodeId
    incarnation: bytes  # of the process: eight random bytes
    cluster_id: str = ""  # empty: not known yet


@dataclass(frozen=True, slots=True)
class Met:
    """A link that both sides have agreed to."""

    peer: Party
    link_id: bytes
    is_dialled_by_lower: bool
    is_mine: bool  # I dialled
    peer_had: bytes = NO_LINK  # the last link that the peer had with me, where it dialled


def takes_over(new: Met, current: Met) -> bool:
    """Whether a new link replaces the one that is there."""
    if new.peer.incarnation != current.peer.incarnation:
        return True  # the process that had the other one is gone
    if new.is_mine:
        return False  # the peer dialled meanwhile, and I can still let mine go
    # The peer dialled, so it has lost the current one, or does not know of it yet. In the latter case the link that the lower node id dialled is kept.
    return new.is_dialled_by_lower or new.peer_had == current.link_id


class Secrets:
    """What authenticates a peer: the secret, and the node ids that its certificate allows (None: any)."""

    __slots__ = ("_key", "certified")

    def __init__(self, secret: bytes, certified: frozenset[int] | None = None) -> None:
        self._key = secret
        self.certified = certified

    def mac(self, role: bytes, transcript: bytes) -> bytes:
        return hmac.digest(self._key, role + transcript, sha256)

    def check(self, role: bytes, transcript: bytes, mac: bytes) -> None:
        if not hmac.compare_digest(self.mac(role, transcript), mac):
            raise ProtocolError("its proof is wrong: it has another cluster secret")

    def check_certified(self, node: int) -> None:
        if self.certified is not None and node not in self.certified:
            raise ProtocolError(f"its certificate is not for node {node}")


class Handshake:
    """One side of a handshake: feed it frames, send what it returns, until `met`."""

    def __init__(self, me: Party, secrets: Secrets, nonce: bytes) -> None:
        self._me = me
        self._secrets = secrets
        self._nonce = nonce
        self._link_id = NO_LINK
        self._transcript = b""  # all messages so far, of both sides
        self._step: Callable[[bytes], bytes | None]
        self.is_trusted = False  # the peer has proved itself
        self.met: Met | None = None

    def receive(self, frame: memoryview) -> bytes | None:
        """The message to send, if any. Raises ProtocolError where the peer is not a broker of this cluster."""
        if self.met is not None:
            raise ProtocolError("it speaks before its turn")
        try:
            return self._step(bytes(frame))
        except (error, UnicodeDecodeError):
            raise ProtocolError("that is no handshake") from None

    def _agree(self, hello: bytes, challenge: bytes) -> None:
        self._transcript = hello + challenge
        self._link_id = sha256(self._transcript).digest()[:LINK_ID_SIZE]

    def _is_foreign(self, cluster_id: str) -> bool:
        return bool(cluster_id and self._me.cluster_id and cluster_id != self._me.cluster_id)


class Dialling(Handshake):
    def __init__(self, me: Party, target: NodeId, secrets: Secrets, nonce: bytes) -> None:
        super().__init__(me, secrets, nonce)
        self._target = target
        self._step = self._challenged

    def hello(self) -> bytes:
        """What the dialler begins with."""
        self._secrets.check_certified(self._target)
        cluster_id = self._me.cluster_id.encode()
        me = self._me
        head = _HELLO.pack(_MAGIC, VERSION, me.node, self._target, me.incarnation, self._nonce, len(cluster_id))
        self._transcript = head + cluster_id
        return self._transcript

    def _challenged(self, frame: bytes) -> bytes:
        _check_opening(frame)
        _CHALLENGE.unpack(frame)
        self._agree(self._transcript, frame)
        self._step = self._welcomed
        return self._say(b"dialler", b"")

    def _welcomed(self, frame: bytes) -> None:
        if frame[0] != Verdict.WELCOME:
            raise ProtocolError(_REASONS.get(frame[0], "it refuses"))
        body, mac = frame[:-MAC_SIZE], frame[-MAC_SIZE:]
        _, incarnation, size = _WELCOME.unpack_from(body)
        cluster_id = _text(body, _WELCOME.size, size)
        self._secrets.check(b"answerer", self._transcript + body, mac)
        if self._is_foreign(cluster_id):
            raise ProtocolError(_REASONS[Verdict.WRONG_CLUSTER])
        self._transcript += frame
        self.is_trusted = True
        peer = Party(self._target, incarnation, cluster_id)
        self.met = Met(peer, self._link_id, self._me.node < self._target, is_mine=True)

    def ready(self, had: bytes) -> bytes:
        """What the dialler ends with, if it keeps the link; `had`: the last one before it."""
        return self._say(b"ready", had)

    def _say(self, role: bytes, body: bytes) -> bytes:
        frame = body + self._secrets.mac(role, self._transcript + body)
        self._transcript += frame
        return frame


class Answering(Handshake):
    def __init__(self, me: Party, secrets: Secrets, nonce: bytes) -> None:
        super().__init__(me, secrets, nonce)
        self._step = self._greeted
        self._peer = me  # until its HELLO

    def _greeted(self, frame: bytes) -> bytes:
        try:
            _check_opening(frame)
        except WrongVersion as wrong:
            raise Refusal(str(wrong), _CHALLENGE.pack(_MAGIC, VERSION, bytes(NONCE_SIZE))) from None
        _, _, node, self._target, incarnation, _, size = _HELLO.unpack_from(frame)
        self._peer = Party(NodeId(node), incarnation, _text(frame, _HELLO.size, size))
        self._secrets.check_certified(node)
        challenge = _CHALLENGE.pack(_MAGIC, VERSION, self._nonce)
        self._agree(frame, challenge)
        self._step = self._proved
        return challenge

    def _proved(self, frame: bytes) -> bytes:
        self._secrets.check(b"dialler", self._transcript, frame)
        self._check_wanted()
        self._transcript += frame
        self.is_trusted = True
        self._step = self._confirmed
        cluster_id = self._me.cluster_id.encode()
        body = _WELCOME.pack(Verdict.WELCOME, self._me.incarnation, len(cluster_id)) + cluster_id
        welcome = body + self._secrets.mac(b"answerer", self._transcript + body)
        self._transcript += welcome
        return welcome

    def _check_wanted(self) -> None:
        peer, me = self._peer, self._me
        if self._target != me.node or peer.node == me.node:
            reason = f"node {peer.node} looks for node {self._target} here, but this is node {me.node}"
            raise Refusal(reason, _refused(Verdict.WRONG_NODE))
        if self._is_foreign(peer.cluster_id):
            reason = f"node {peer.node} belongs to cluster {peer.cluster_id}, this broker to {me.cluster_id}"
            raise Refusal(reason, _refused(Verdict.WRONG_CLUSTER))

    def _confirmed(self, frame: bytes) -> None:
        had, mac = frame[:LINK_ID_SIZE], frame[LINK_ID_SIZE:]
        self._secrets.check(b"ready", self._transcript + had, mac)
        peer = self._peer
        self.met = Met(peer, self._link_id, peer.node < self._me.node, is_mine=False, peer_had=had)


class WrongVersion(ProtocolError):  # noqa: N818 - it names what is wrong
    def __init__(self, version: int) -> None:
        super().__init__(f"it speaks version {version} of the brokers' protocol, this broker version {VERSION}")


def _refused(verdict: Verdict) -> bytes:
    return bytes([verdict]).ljust(_REFUSED_SIZE, b"\0")


def _check_opening(frame: bytes) -> None:
    magic, version = _OPENING.unpack_from(frame)
    if magic != _MAGIC:
        raise ProtocolError("it is no broker of a kompat cluster")
    if version != VERSION:
        raise WrongVersion(version)


def _text(frame: bytes, start: int, size: int) -> str:
    if len(frame) != start + size:
        raise ProtocolError("that is no handshake")
    return frame[start:].decode()
