"""A network of the test's own: each broker in a network namespace, so that links can be cut, one way too, and made slow.

Needs root and `ip`; without them brokers are on loopback, where they can only be killed and paused.
"""

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from typing import Protocol

NOBODY = "02:00:00:00:00:01"  # an address that no interface has: what is sent there is lost without a word


class Network(Protocol):
    can_cut: bool

    def host(self, number: int) -> str:
        """The address of a broker."""
        ...

    def inside(self, number: int) -> Sequence[str]:
        """What to put before a command, to have it run where the broker is."""
        ...

    def cut(self, sender: int, receiver: int) -> None:
        """Nothing that one broker sends arrives at the other. The other way is left as it is."""
        ...

    def slow_down(self, number: int) -> None:
        """What a broker sends trickles out."""
        ...

    def heal(self) -> None:
        """All links are as they were."""
        ...

    def close(self) -> None: ...


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def free_subnet() -> str:
    """Of those that are set aside for tests; another test may run on this machine, whose brokers must not be taken for ours."""
    used = subprocess.run(["ip", "-4", "-o", "addr"], check=True, capture_output=True, text=True).stdout
    while True:
        subnet = f"198.{random.SystemRandom().choice((18, 19))}.{random.SystemRandom().randrange(256)}"
        if f" {subnet}." not in used:
            return subnet


class Loopback:
    can_cut = False

    def host(self, number: int) -> str:
        return "127.0.0.1"

    def inside(self, number: int) -> Sequence[str]:
        return ()

    def cut(self, sender: int, receiver: int) -> None:
        raise NotImplementedError("links on loopback cannot be cut")

    def slow_down(self, number: int) -> None:
        raise NotImplementedError("links on loopback cannot be made slow")

    def heal(self) -> None:
        pass

    def close(self) -> None:
        pass


class Namespaces:
    """A bridge with an address for this process, and a namespace for each broker."""

    can_cut = True

    def __init__(self, count: int) -> None:
        """Raises CalledProcessError where that is not possible."""
        self._name = f"{random.SystemRandom().randrange(1 << 24):06x}"
        self._subnet = free_subnet()
        self._numbers = range(1, count + 1)
        self._cuts: set[tuple[int, int]] = set()
        self._slow: set[int] = set()
        try:
            ip("link", "add", self._bridge, "type", "bridge")
            ip("addr", "add", f"{self._subnet}.254/24", "dev", self._bridge)
            ip("link", "set", self._bridge, "up")
            for number in self._numbers:
                self._add(number)
        except BaseException:
            self.close()
            raise

    @property
    def _bridge(self) -> str:
        return f"kb{self._name}"

    def _space(self, number: int) -> str:
        return f"kn{self._name}-{number}"

    def _add(self, number: int) -> None:
        space, outer = self._space(number), f"kv{self._name}-{number}"
        ip("netns", "add", space)
        ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("link", "set", outer, "master", self._bridge, "up")
        ip("-n", space, "addr", "add", f"{self.host(number)}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", space, "link", "set", "lo", "up")

    def host(self, number: int) -> str:
        return f"{self._subnet}.{number}"

    def inside(self, number: int) -> Sequence[str]:
        return "ip", "netns", "exec", self._space(number)

    def cut(self, sender: int, receiver: int) -> None:
        place = ("-n", self._space(sender), "neigh", "replace", self.host(receiver))
        ip(*place, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")
        self._cuts.add((sender, receiver))

    def slow_down(self, number: int) -> None:
        # `netem` could delay as well, but many kernels come without it.
        shape = ("rate", "8mbit", "burst", "16kb", "latency", "200ms")
        command = ["tc", "-n", self._space(number), "qdisc", "replace", "dev", "eth0", "root", "tbf", *shape]
        subprocess.run(command, check=True, capture_output=True)
        self._slow.add(number)

    def heal(self) -> None:
        while self._cuts:
            sender, receiver = self._cuts.pop()
            ip("-n", self._space(sender), "neigh", "del", self.host(receiver), "dev", "eth0")
        while self._slow:
            space = self._space(self._slow.pop())
            subprocess.run(["tc", "-n", space, "qdisc", "del", "dev", "eth0", "root"], check=True, capture_output=True)

    def close(self) -> None:
        for number in self._numbers:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", self._space(number))
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "del", self._bridge)


def network_of(count: int) -> Network:
    if os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc"):
        with contextlib.suppress(subprocess.CalledProcessError):
            return Namespaces(count)
    return Loopback()
