"""A broker's HTTP door, as tests use it: requests with an expected status, pages, streams of events."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

import httpx

from interop_tests.support.wait import until

SECONDS = 60.0
Json = dict[str, Any]


class Door:
    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=SECONDS)
        self._tails: list[Tail] = []

    def __call__(self, method: str, path: str, body: Any = None, *, status: int = 200, **query: Any) -> Json:
        """The answer as JSON; a status that is not the one expected is a failure."""
        answer = self.client.request(method, path, json=body, params=query or None)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        if status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
        found: Json = answer.json() if answer.content else {}
        return found

    def get(self, path: str, *, status: int = 200, **query: Any) -> Json:
        return self("GET", path, status=status, **query)

    def post(self, path: str, body: Any = None, *, status: int = 200) -> Json:
        return self("POST", path, body, status=status)

    def all(self, path: str, **query: Any) -> list[Json]:
        """All pages of a list."""
        page = self.get(path, **query)
        items = page["items"]
        while page["nextCursor"] is not None:
            page = self.get(path, cursor=page["nextCursor"], **query)
            items += page["items"]
        return list(items)

    def send(self, topic: str, *messages: Json) -> list[Json]:
        return list(self.post(f"/v1/topics/{topic}/messages", {"messages": list(messages)})["results"])

    def messages(self, topic: str, **query: Any) -> list[Json]:
        return self.all(f"/v1/topics/{topic}/messages", **query)

    def tail(self, topic: str, *, last_id: str | None = None, **query: Any) -> Tail:
        tail = Tail(self.url, f"/v1/topics/{topic}/tail", query, last_id)
        self._tails.append(tail)
        tail.open()
        return tail

    def close(self) -> None:
        for tail in self._tails:
            tail.close()
        self.client.close()


class Tail:
    """A stream of events, read by a thread."""

    def __init__(self, url: str, path: str, query: dict[str, Any], last_id: str | None) -> None:
        self.ids: list[str] = []
        self.names: list[str] = []
        self.messages: list[Json] = []
        self._is_open = threading.Event()
        self._is_closing = False
        self._client = httpx.Client(base_url=url, timeout=httpx.Timeout(SECONDS, read=1.0))
        headers = {"last-event-id": last_id} if last_id is not None else {}
        self._request = self._client.build_request("GET", path, params=query, headers=headers)
        self._request.extensions["timeout"] = {"connect": SECONDS, "read": SECONDS, "write": SECONDS, "pool": SECONDS}
        self._answer: httpx.Response | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def open(self) -> None:
        self._thread.start()
        assert self._is_open.wait(SECONDS), "the stream does not begin"

    def _read(self) -> None:
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError, OSError):  # it is cut off in the middle
            self._answer = self._client.send(self._request, stream=True)
            assert self._answer.status_code == 200, self._answer.read()
            for line in self._answer.iter_lines():
                self._take(*line.partition(": ")[::2])

    def _take(self, field: str, text: str) -> None:
        if field == "id":
            self.ids.append(text)
            self._is_open.set()
        elif field == "event":
            self.names.append(text)
        elif field == "data" and self.names[-1] == "message":
            self.messages.append(json.loads(text))

    def take(self, count: int) -> list[str]:
        """The values of so many messages, waiting for them."""
        until(lambda: len(self.messages) >= count, f"{count} messages", seconds=SECONDS)
        return [message["value"] for message in self.messages]

    def wait_end(self) -> list[str]:
        """The names of all events, once there are no more."""
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the stream does not end"
        return self.names

    def close(self) -> None:
        if self._thread.is_alive() and self._answer is not None:
            stream = self._answer.extensions["network_stream"]
            with contextlib.suppress(OSError):
                stream.get_extra_info("socket").shutdown(2)
            self._thread.join(SECONDS)
        if self._answer is not None:
            self._answer.close()
        self._client.close()


def values(items: list[Json]) -> list[str]:
    return [item["value"] for item in items]
