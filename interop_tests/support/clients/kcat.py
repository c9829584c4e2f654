"""kcat, as a user runs it: one process per call."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence

from interop_tests.support.clients.base import CALL_SECONDS, MAX_REQUEST_BYTES, Fetched, Message, SendError

# kcat prints librdkafka's text for an error, never its number.
REFUSALS = {"Message size too large": 10}
KEY_DELIMITER = "\x01"
MESSAGE_DELIMITER = "\x02"


def run(*arguments: str, stdin: bytes = b"", seconds: float = CALL_SECONDS) -> subprocess.CompletedProcess[bytes]:
    assert shutil.which("kcat"), "kcat is missing: run interop_tests/setup.sh"
    return subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, timeout=seconds, check=False)


def _headers(message: Message) -> tuple[str, ...]:
    """kcat's -H cannot say null or empty values apart from "no value"; the rule tests know."""
    return tuple(
        part
        for name, value in message.headers
        for part in ("-H", name if value is None else f"{name}={value.decode()}")
    )


class Kcat:
    name = "kcat"

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        """Takes messages of one partition and one set of headers, with keys and values that are text."""
        [partition] = {message.partition for message in messages}
        [headers] = {_headers(message) for message in messages}
        lines = [(message.key or b"") + KEY_DELIMITER.encode() + (message.value or b"") for message in messages]
        options = [f"compression.codec={codec}", f"acks={acks}", f"enable.idempotence={str(idempotent).lower()}"]
        options += [f"message.max.bytes={MAX_REQUEST_BYTES}", "linger.ms=5"]
        done = run(
            *(
                "-P",
                "-b",
                bootstrap,
                "-t",
                topic,
                "-p",
                str(partition),
                "-Z",
                "-K",
                KEY_DELIMITER,
                "-D",
                MESSAGE_DELIMITER,
            ),
            *headers,
            *[part for option in options for part in ("-X", option)],
            stdin=MESSAGE_DELIMITER.encode().join(lines),
        )
        for text, code in REFUSALS.items():
            if text in done.stderr.decode():
                raise SendError(code, done.stderr.decode())
        assert done.returncode == 0, done.stderr.decode()
        return [-1] * len(messages)

    def consume(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        *,
        start: int,
        count: int,
        seconds: float = CALL_SECONDS,
        read_committed: bool = False,
    ) -> list[Fetched]:
        isolation = "read_committed" if read_committed else "read_uncommitted"
        done = run(
            *("-C", "-b", bootstrap, "-t", topic, "-p", str(partition), "-o", str(start), "-c", str(count), "-J", "-q"),
            *("-X", f"isolation.level={isolation}", "-X", "fetch.wait.max.ms=200"),
            seconds=seconds,
        )
        assert done.returncode == 0, done.stderr.decode()
        return [_fetched(json.loads(line)) for line in done.stdout.splitlines()]

    def watermarks(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        # -Q takes a timestamp, and librdkafka passes the special ones on.
        return self._query(bootstrap, topic, partition, -2), self._query(bootstrap, topic, partition, -1)

    def offset_for_time(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        found = self._query(bootstrap, topic, partition, timestamp)
        return None if found == -1 else found

    def _query(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int:
        done = run("-Q", "-b", bootstrap, "-t", f"{topic}:{partition}:{timestamp}")
        found = re.search(r"offset (-?\d+)", done.stdout.decode())
        assert found, done.stderr.decode()
        return int(found[1])


def _fetched(record: dict[str, object]) -> Fetched:
    """The JSON form is for text; it is all that kcat prints completely."""
    listed = record.get("headers") or []
    assert isinstance(listed, list)
    names, values = listed[::2], listed[1::2]
    headers = tuple(
        (name, None if value is None else value.encode()) for name, value in zip(names, values, strict=True)
    )
    key, value = record["key"], record["payload"]
    assert isinstance(record["offset"], int)
    assert isinstance(record["ts"], int)
    return Fetched(
        offset=record["offset"],
        value=None if value is None else str(value).encode(),
        key=None if key is None else str(key).encode(),
        headers=headers,
        timestamp=record["ts"],
        timestamp_type=0 if record["tstype"] == "create" else 1,
    )
