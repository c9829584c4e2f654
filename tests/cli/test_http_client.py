"""What commands make of the HTTP port's responses."""

import argparse
import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kompat.__main__ import parser_of
from kompat.cli.command import CommandError, UsageError
from kompat.cli.http_client import HttpClient, HttpError, http_client, segment


class Handler(BaseHTTPRequestHandler):
    asked: list[tuple[str, str, str | None, Any]]

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.asked.append((self.command, self.path, self.headers["Authorization"], body))
        if self.path.startswith("/pages"):
            at = int(self.path.rpartition("cursor=")[2]) if "cursor=" in self.path else 0
            found = {"items": [{"n": at}, {"n": at + 1}], "nextCursor": str(at + 2) if at < 4 else None}
            self._answer(200, json.dumps(found).encode())
        elif self.path == "/problem":
            problem = {"title": "Not there", "detail": "There is no topic x.", "code": "UNKNOWN_TOPIC_OR_PARTITION"}
            self._answer(404, json.dumps(problem).encode(), "application/problem+json")
        elif self.path == "/unknown":
            self._answer(502, b"<html>", "text/html")
        elif self.path == "/stranger":
            self._answer(401, b'{"title": "Who are you?"}')
        elif self.path == "/html":
            self._answer(200, b"<html>", "text/html")
        elif self.path == "/empty":
            self._answer(204, b"")
        else:
            self._answer(200, b"{}")

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - so they are called

    def log_message(self, *_: object) -> None:
        """Not on the test's output."""


@pytest.fixture
def served() -> Iterator[str]:
    Handler.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def flags(url: str, *more: str) -> argparse.Namespace:
    return parser_of("trace").parse_args(["trace", "x", "--http", url, *more])


def at(url: str, *more: str) -> HttpClient:
    return http_client(flags(url, *more))


def test_all_pages_are_read_or_as_many_as_are_wanted(served: str) -> None:
    assert [each["n"] for each in at(served).items("/pages")] == [0, 1, 2, 3, 4, 5]
    assert [each["n"] for each in at(served).items("/pages", 3)] == [0, 1, 2, 3]


def test_problems_are_told_in_their_own_words(served: str) -> None:
    for path, told in (
        ("/problem", "There is no topic x. (UNKNOWN_TOPIC_OR_PARTITION)"),
        ("/unknown", f"{served}/unknown returned 502 Bad Gateway: check that --http is the URL of kompat's HTTP port"),
        ("/stranger", "Who are you?; authenticate with --user and --password-file"),
    ):
        with pytest.raises(HttpError) as raised:
            at(served).get(path)
        assert str(raised.value) == told


def test_what_is_asked_arrives(served: str, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("geheim\n")
    one = at(f"{served}/", "--user", "alice", "--password-file", str(secret))

    one.get("/x", flag=True, nothing=None, text="a b&c")
    one.post("/y", {"a": 1, "b": None})
    assert one.ask("DELETE", "/empty") is None

    known = "Basic " + base64.b64encode(b"alice:geheim").decode()
    assert Handler.asked == [
        ("GET", "/x?flag=true&text=a+b%26c", known, None),
        ("POST", "/y", known, {"a": 1}),
        ("DELETE", "/empty", known, None),
    ]


def test_what_is_no_door_is_told_apart(served: str) -> None:
    with pytest.raises(CommandError, match="check that --http is the URL of kompat's HTTP port"):
        at(served).get("/html")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(CommandError, match=f"cannot be reached at http://127.0.0.1:{port}: Connection refused"):
        at(f"127.0.0.1:{port}").get("/")
    for url in ("ftp://x", "http://"):
        with pytest.raises(UsageError):
            at(url)


def test_a_part_of_a_path_stays_one() -> None:
    assert segment("a/b c?") == "a%2Fb%20c%3F"
