"""The page that documents all routes, and can try them. It uses /openapi.json, and loads nothing from other sites."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from starlette.responses import Response

from kompat.admin.route import Call, Route


@cache
def page() -> tuple[bytes, str]:
    """The page, and the content security policy that allows only its own scripts."""
    text = (files("kompat.admin") / "pages" / "docs.html").read_text(encoding="utf-8")
    hashes = {
        kind: " ".join(f"'sha256-{_hash(found)}'" for found in re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL))
        for kind in ("script", "style")
    }
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


async def docs(_: Call) -> Response:
    content, policy = await asyncio.to_thread(page)
    headers = {"content-security-policy": policy, "x-content-type-options": "nosniff", "cache-control": "no-cache"}
    return Response(content, headers=headers, media_type="text/html")


ROUTES = [
    Route(
        method="GET", path="/docs", handle=docs, summary="Show all routes, and try them", tag="health", answer=str,
        media="text/html", is_open=True,
    ),
]  # fmt: skip
