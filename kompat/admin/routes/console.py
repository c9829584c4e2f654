"""The console: a page and its files. They are part of the package; nothing is loaded from other sites."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.responses import Response

from kompat.admin.problems import NOT_FOUND, Problem
from kompat.admin.route import Call, Route

KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PAGE: Final = "index.html"
# Contents of records are hostile. Even if they became markup, they could not run scripts or send requests.
POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",  # revalidated each time, so that a new version is seen at once
}


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    media: str
    tag: str


@cache
def console_files() -> dict[str, File]:
    """The files by name under /console/. They are few and small, and cached after the first request."""
    return dict(_read(files("kompat.admin") / "console", ""))


def _read(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    found: list[tuple[str, File]] = []
    for entry in folder.iterdir():
        media = KINDS.get(entry.name.rpartition(".")[2])
        if entry.is_dir():
            found += _read(entry, f"{prefix}{entry.name}/")
        elif media is not None:
            content = entry.read_bytes()
            found.append((prefix + entry.name, File(content, media, f'"{sha256(content).hexdigest()[:32]}"')))
    return found


async def page(call: Call) -> Response:
    return _answer(call, PAGE)


async def file(call: Call) -> Response:
    return _answer(call, call.path["file"])


async def file_in_folder(call: Call) -> Response:
    return _answer(call, f"{call.path['folder']}/{call.path['file']}")


def _answer(call: Call, name: str) -> Response:
    found = console_files().get(name)
    if found is None:
        raise Problem(NOT_FOUND, f"The console has no file {name[:100]}. Its start page is /.")
    headers = {**HEADERS, "etag": found.tag}
    if found.tag in call.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media)


ROUTES = [
    Route(
        method="GET", path="/", handle=page, summary="The console", tag="console", answer=str, media="text/html",
        is_open=True,
    ),
    Route(
        method="GET", path="/console/{file}", handle=file, summary="A file of the console", tag="console", answer=str,
        media="*/*", problems=(404,), is_open=True,
    ),
    Route(
        method="GET", path="/console/{folder}/{file}", handle=file_in_folder, summary="A file of the console, in a folder",
        tag="console", answer=str, media="*/*", problems=(404,), is_open=True,
    ),
]  # fmt: skip
