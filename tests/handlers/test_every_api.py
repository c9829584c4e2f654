"""Rules that hold for every API in every version."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from kompat.errors import ErrorCode, KafkaError
from kompat.handlers import APIS
from kompat.handlers.support import coverage
from kompat.handlers.support.base import Api, Context
from kompat.protocol.codec import decode_request, encode_response, frame_response
from kompat.protocol.messages import classes
from kompat.server.dispatch import Client, Dispatcher
from tests.handlers import samples, wire
from tests.server.support import NO_SERVICES

BY_SCHEMA = [api for api in APIS if api.handler.decode is None]
EVERY_VERSION = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in BY_SCHEMA
    for version in range(api.versions.low, api.versions.high + 1)
]


def test_no_two_apis_have_the_same_key() -> None:
    keys = [api.key for api in APIS]

    assert keys == sorted(set(keys))


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_the_handler_is_for_the_messages_of_its_api(api: Api) -> None:
    names = (api.handler.request.__name__, api.handler.response.__name__)

    assert names == (f"{api.name}Request", f"{api.name}Response")
    assert [made.SCHEMA.api_key for made in classes(api.key)] == [api.key, api.key]


def test_no_handler_is_imported_before_its_first_request() -> None:
    """Start-up pays for none but those that something else needs."""
    code = "import sys, kompat.handlers; print([name for name in sys.modules if name.startswith('kompat.handlers.') and '.support' not in name])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout  # noqa: S603

    assert printed.strip() == "[]"


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_failure_can_be_told_in_every_version(api: Api, version: int, code: ErrorCode) -> None:
    response = api.handler.failure(_as_received(api, version), KafkaError(code))

    codes = wire.error_codes(_as_sent(api, version, response))
    assert code in codes or (api.name, version) in NO_ROOM_FOR_AN_ERROR
    assert codes <= {code, ErrorCode.NONE}


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_a_failure_says_which_of_the_things_asked_for_failed(api: Api, version: int) -> None:
    response = api.handler.failure(_as_received(api, version), KafkaError(ErrorCode.INVALID_REQUEST))

    codes = wire.error_codes(_as_sent(api, version, response))
    assert ErrorCode.NONE not in codes or len(codes) == 1


@pytest.mark.parametrize("api", BY_SCHEMA, ids=lambda api: api.name)
def test_a_request_that_could_not_be_read_can_be_refused(api: Api) -> None:
    assert isinstance(
        api.handler.failure(api.handler.request(), KafkaError(ErrorCode.INVALID_REQUEST)), api.handler.response
    )


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_an_exception_in_a_handler_is_answered_and_logged_once(
    api: Api, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    handler = replace(api.handler, handle=_break, stamp=None)
    broken = Api(api.key, api.versions.low, api.versions.high, handler=handler)
    frame = wire.request_frame(samples.request(api.name, version), version)[4:]

    answer = Dispatcher([broken], NO_SERVICES).dispatch(CLIENT, memoryview(bytearray(frame)))

    assert isinstance(answer, list)
    codes = wire.error_codes(wire.decode_response(api.name, version, b"".join(answer)[4:]))
    assert ErrorCode.UNKNOWN_SERVER_ERROR in codes or (api.name, version) in NO_ROOM_FOR_AN_ERROR
    told = [
        record for record in caplog.records if record.name != "kompat.common.watchdog"
    ]  # a busy machine is slow to import
    assert [record.exc_info is not None for record in told] == [True]


def _break(_: Context, __: Any) -> None:
    raise ZeroDivisionError


CLIENT = Client("127.0.0.1", "a-connection", ("127.0.0.1", 9092))
NO_ROOM_FOR_AN_ERROR = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}


def _as_received(api: Api, version: int) -> Any:
    body = samples.request(api.name, version).encode(version=version)
    return decode_request(api.handler.request, version, memoryview(bytearray(body)))


def _as_sent(api: Api, version: int, response: Any) -> Any:
    if api.handler.encode is not None:
        buffers = frame_response(wire.CORRELATION_ID, api.key, version, api.handler.encode(version, response))
    else:
        buffers = encode_response(wire.CORRELATION_ID, api.handler.response, version, response)
    frame = b"".join(buffers)
    return wire.decode_response(api.name, version, frame[4:])


def test_the_coverage_page_is_current() -> None:
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page(), (
        "run python -m kompat.handlers.support.coverage"
    )
