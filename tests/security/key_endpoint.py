"""An issuer's endpoint of keys, by https on loopback."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.security.certificates import Authority
from tests.security.tokens import Issuer


class Endpoint:
    """An issuer's server of keys, which can be made to fail, to hang or to send something else."""

    def __init__(self, authority: Authority) -> None:
        self.issuers: list[Issuer] = []
        self.status = 200
        self.body: bytes | None = None  # instead of keys
        self.is_open = threading.Event()  # while it is not, nobody is answered
        self.is_open.set()
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                outer.is_open.wait(20)
                keys = json.dumps({"keys": [each.jwk() for each in outer.issuers]}).encode()
                body = keys if outer.body is None else outer.body
                self.send_response(outer.status)
                self.send_header("Location", "https://127.0.0.1:1/")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        files = authority.files("endpoint")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(files.both)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/keys?of=tests"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.is_open.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def endpoint(authority: Authority) -> Iterator[Endpoint]:
    made = Endpoint(authority)
    try:
        yield made
    finally:
        made.close()
