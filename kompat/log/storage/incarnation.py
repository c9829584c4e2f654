"""Which data directory this is, how far it has come, and in which ones other brokers were seen.

A directory gets a random id when it is made, and counts steps: one for every start, and one every few seconds while a broker runs
in it, so that a snapshot of a running one differs from what came after it, too. Brokers exchange both, and remember those of the
others. So a broker whose directory was put back to an older state meets a broker that has seen a later step of it; it then gives
its directory a new id (`renew`), as an emptied one has. Replicas keep the id of the directory that they made their promises in
(`raft/directory`): under another one they know that these may be lost.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from typing import NamedTuple

logger = logging.getLogger(__name__)

FILE = "incarnation.json"
MOST_PAST = 64


class Incarnation(NamedTuple):
    directory: str
    steps: int
    run: str  # of the process: the same step is met again when a link was lost

    def follows(self, seen: Incarnation) -> bool:
        """Whether this may come after what was seen of the same directory before."""
        return self.steps > seen.steps or (self.steps == seen.steps and self.run == seen.run)


class Incarnations:
    def __init__(self, directory: str | None) -> None:
        """Begin another run in this directory; None: there is none, and the next run begins with nothing."""
        self._path = os.path.join(directory, FILE) if directory is not None else None
        self._lock = threading.Lock()  # of `mine` and of the file: steps are written by a worker thread
        self._known: dict[int, Incarnation] = {}
        self._past: list[str] = []  # directories that this broker had before
        before = self._load()
        self._is_fresh = before is None  # the directory got its id in this run
        self.mine = Incarnation(before.directory if before else _new_id(), before.steps + 1 if before else 1, _new_id())
        if not self._store():  # what this run acknowledges must not be mixed up with what the run before has
            self.renew()

    def renew(self) -> None:
        """The directory does not have what brokers in it have promised: it is another one from now on."""
        with self._lock:
            self._note_past(self.mine.directory)
            self.mine = Incarnation(_new_id(), 1, self.mine.run)
            self._is_fresh = True
            self._write(self.mine)

    def step(self) -> bool:
        """The broker has run on for a while; whether that is written, with what was seen of others. It waits for the disk."""
        with self._lock:
            after = self.mine._replace(steps=self.mine.steps + 1)
            is_written = self._write(after)
            if is_written:  # a step must not be announced before it is on disk
                self.mine = after
        return is_written

    def is_set_back(self, seen: Incarnation) -> bool:
        """Whether another broker has seen this one as it cannot have been before this run."""
        if seen.directory == self.mine.directory:
            return not self.mine.follows(seen)
        if seen.directory in self._past:
            return False
        if self._is_fresh:  # it knows already that it has lost what it had there
            self._note_past(seen.directory)
            self._store()
            return False
        return True

    def _note_past(self, directory: str) -> None:
        self._past = [*self._past, directory][-MOST_PAST:]

    def known(self, node: int) -> Incarnation | None:
        """In which incarnation another broker was seen last."""
        return self._known.get(node)

    def remember(self, node: int, seen: Incarnation) -> None:
        """Remember it, unless the broker was set back: it has to be sent the later state that was seen before."""
        known = self._known.get(node)
        if known is not None and known.directory == seen.directory and not seen.follows(known):
            return
        self._known[node] = seen
        if (
            known is None or known.run != seen.run or known.directory != seen.directory
        ):  # else it is written with the next step
            self._store()

    def _load(self) -> Incarnation | None:
        if self._path is None or not os.path.exists(self._path):
            return None
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.load(file)
            self._known = {int(node): Incarnation(*seen) for node, seen in found["known"].items()}
            self._past = list(found["past"])
            return Incarnation(*found["mine"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s cannot be read, the directory counts as a new one: %s", self._path, error)
            return None

    def _store(self) -> bool:
        with self._lock:
            return self._write(self.mine)

    def _write(self, mine: Incarnation) -> bool:
        if self._path is None:
            return True
        content = json.dumps({"mine": mine, "past": self._past, "known": dict(self._known)})
        beside = f"{self._path}.new"
        try:
            with open(beside, "w", encoding="utf-8") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
            _sync_directory(os.path.dirname(self._path))
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._path, error)
            return False
        return True


def _new_id() -> str:
    return secrets.token_hex(16)


def _sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
