"""Fixtures for pytest, found by their entry point. Loaded by every pytest run, so nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kompat.testing import RunningBroker, Setting


@pytest.fixture(scope="session")
def kompat_settings() -> Mapping[str, Setting]:
    """The settings of `kompat_broker`; override this fixture to change them."""
    return {}


@pytest.fixture(scope="session")
def kompat_broker(kompat_settings: Mapping[str, Setting]) -> Iterator[RunningBroker]:
    """One broker in memory for the whole test session."""
    from kompat.testing import broker

    with broker(kompat_settings) as running:
        yield running


@pytest.fixture
def kompat_fresh_broker(kompat_settings: Mapping[str, Setting]) -> Iterator[RunningBroker]:
    """An empty broker in memory for this test alone."""
    from kompat.testing import broker

    with broker(kompat_settings) as running:
        yield running


@pytest.fixture(scope="session")
def kompat_bootstrap_servers(kompat_broker: RunningBroker) -> str:
    return kompat_broker.bootstrap_servers
