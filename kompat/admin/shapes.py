"""JSON types that routes share: names in camelCase, bytes as text or base64, times, pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kompat.admin.problems import Problem, invalid
from kompat.common.slices import sliced

T = TypeVar("T")

BASE64: Literal["base64"] = "base64"
DEFAULT_LIMIT, MOST_ITEMS = 100, 1000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_TIME = 253_402_300_799_999  # the last millisecond that RFC 3339 can write

Encoding = Literal["utf-8", "base64"]
Limit = Annotated[int, Meta(ge=1, le=MOST_ITEMS, description="maximum number of items")]
Cursor = Annotated[str, Meta(max_length=1024, description="`nextCursor` of the previous page")]
# Milliseconds since 1970, or RFC 3339.
Time = Annotated[int, Meta(ge=0, le=LATEST_TIME)] | Annotated[str, Meta(max_length=64)]


class Body(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The body of a request. Unknown fields are errors."""


class Query(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The query parameters. Unknown ones are errors."""


class PageQuery(Query):
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor | None = None


class Answer(msgspec.Struct, rename="camel", kw_only=True):
    """The body of a response. UNSET fields are left out."""


class Page(Answer, Generic[T]):
    """`nextCursor` is null on the last page."""

    items: list[T]
    next_cursor: str | None = None


async def page(items: Iterable[T], key: Callable[[T], str], limit: int, cursor: str | None) -> Page[T]:
    """The next items in the order of their keys. Items that are added or removed between two pages do not shift them."""
    after = "" if cursor is None else cursor_text(cursor)
    by_key = {name: item async for item in sliced(items) if (name := key(item)) > after or cursor is None}
    left = sorted(by_key)
    items_here = [by_key[name] for name in left[:limit]]
    return Page(items=items_here, next_cursor=to_cursor(left[limit - 1]) if len(left) > limit else None)


def to_cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def cursor_text(cursor: str) -> str:
    """The text that `to_cursor` got. Raises a problem if the cursor is invalid."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError, ValueError):
        raise invalid("The cursor does not belong to this list. Use the `nextCursor` of the previous page.") from None


# -- bytes -------------------------------------------------------------------------------------------------------------
def shown(raw: bytes | memoryview | None) -> tuple[str | None, Encoding | UnsetType]:
    """Bytes as text, and its encoding: UNSET if it is plain UTF-8."""
    if raw is None:
        return None, UNSET
    raw = bytes(raw)
    try:
        return raw.decode(), UNSET
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode(), BASE64


def raw_bytes(text: str | None, encoding: Encoding | UnsetType | None, field: str) -> bytes | None:
    """The bytes of a text. `field` is its name, for the error."""
    if text is None:
        return None
    if encoding != BASE64:
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise not_base64(field) from None


def not_base64(field: str) -> Problem:
    return invalid(f"{field} is not base64. Correct it, or omit its encoding to send text.")


# -- times -------------------------------------------------------------------------------------------------------------
def millis(time: int | str, field: str) -> int:
    """Milliseconds since 1970, of a time in milliseconds or in RFC 3339."""
    if isinstance(time, int):
        return time
    text = time.strip()
    if text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_TIME)):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            raise invalid(f"{field}: {text!r} has no time zone. Add one, such as Z for UTC.")
        since = (parsed - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        since = -1
    if not 0 <= since <= LATEST_TIME:
        raise invalid(
            f"{field}: {text!r} is not a time. Give milliseconds since 1970, or an RFC 3339 time such as 2030-01-31T12:00:00Z."
        )
    return since


def rfc3339(at: int) -> str:
    """A time in milliseconds as RFC 3339."""
    at = min(max(at, 0), LATEST_TIME)
    seconds, rest = divmod(at, 1000)  # as a float, a distant time would be a millisecond off
    found = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
