"""What `kompat cluster status` tells of replicas that do not vote or count."""

from __future__ import annotations

import argparse
from typing import Any

import httpx
import pytest

import kompat.testing
from kompat.cli import cluster
from kompat.cli.command import CommandError

GIVEN = argparse.Namespace()


class Told:
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def get(self, _path: str, **_more: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _ask(monkeypatch: pytest.MonkeyPatch, answer: Any) -> Any:
    monkeypatch.setattr(cluster, "http_client", lambda _: Told(answer))
    return cluster._in_doubt(GIVEN, "ours")


def test_replicas_in_doubt_are_told_by_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = [{"id": 1, "inDoubt": 0}, {"id": 2, "inDoubt": 7}, {"id": 3, "inDoubt": None}]
    found = _ask(monkeypatch, {"clusterId": "ours", "brokers": brokers})

    assert found == [{"broker": 2, "replicas": 7}]
    assert cluster._in_doubt_text(found).startswith("7 of broker 2;")


@pytest.mark.parametrize("answer", [CommandError("nobody is there"), {"clusterId": "another", "brokers": []}])
def test_what_nobody_of_the_cluster_tells_is_not_known(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    found = _ask(monkeypatch, answer)

    assert found is None
    assert cluster._in_doubt_text(found).startswith("unknown")


def test_a_broker_tells_how_many_it_has() -> None:
    with kompat.testing.broker(http=True) as broker:
        told = httpx.get(f"{broker.http_url}/v1/cluster").json()

    assert (told["inDoubt"], told["brokers"][0]["inDoubt"]) == (0, 0)
