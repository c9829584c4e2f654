"""One broker with a shop's data for each file, one browser, and a tab for each test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from interop_tests.support.broker import Broker, external, running
from interop_tests.support.browser import Tab, chromium
from interop_tests.support.rest import Door
from interop_tests.support.shop import Shop


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if external() is not None:
        pytest.skip("the console is kompat's own")
    with running(tmp_path_factory.mktemp("broker"), http=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def door(started: Broker) -> Iterator[Door]:
    with contextlib.closing(Door(started.http_url)) as found:
        yield found


@pytest.fixture(scope="module")
def shop(started: Broker, door: Door) -> Iterator[Shop]:
    with contextlib.closing(Shop(started.bootstrap, door).make()) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def tab(browser: Browser, started: Broker) -> Iterator[Tab]:
    """One whose browser has nothing to complain of, whatever the test does in it."""
    with contextlib.closing(Tab(browser, started.http_url)) as found:
        yield found
