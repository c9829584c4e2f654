"""Debian's Prometheus, scraping brokers of a test."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from interop_tests.support.broker import free_port
from interop_tests.support.wait import until

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "kompat.json"
SECONDS = 60.0

_METRIC = re.compile(r"\b(?:kompat|process)_\w+|\bup\b")


class Prometheus:
    def __init__(self, home: Path, targets: Sequence[str]) -> None:
        self._home = home
        self._url = f"127.0.0.1:{free_port()}"
        home.mkdir(parents=True)
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "kompat", "static_configs": [{"targets": list(targets)}]}],
        }
        (home / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._client = httpx.Client(base_url=f"http://{self._url}", timeout=SECONDS)

    def start(self) -> subprocess.Popen[bytes]:
        with (self._home / "log").open("wb") as log:
            return subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._home / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._home / 'data'}",
                    f"--web.listen-address={self._url}",
                ],
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
            )

    def close(self) -> None:
        self._client.close()

    def wait_scraping(self, count: int) -> None:
        until(lambda: self._healthy() == count, f"{count} brokers are scraped", seconds=SECONDS)

    def _healthy(self) -> int:
        with contextlib.suppress(httpx.TransportError):
            found = self._get("/api/v1/targets")
            faults = [target["lastError"] for target in found["activeTargets"] if target["lastError"]]
            assert not any("parse" in fault or "invalid" in fault for fault in faults), faults
            return sum(target["health"] == "up" for target in found["activeTargets"])
        return 0

    def query(self, expression: str) -> list[Any]:
        """The samples; an expression that is wrong fails the test."""
        return list(self._get("/api/v1/query", query=expression)["result"])

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **query: str) -> Any:
        answer = self._client.get(path, params=query)
        told = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else {}
        if answer.status_code == 503:  # it is starting
            raise httpx.ConnectError("not ready")
        assert answer.status_code == 200, f"{query}: {answer.text}"
        return told["data"]


def is_installed() -> bool:
    return shutil.which("prometheus") is not None


@contextlib.contextmanager
def scraping(home: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    prometheus = Prometheus(home, targets)
    process = prometheus.start()
    try:
        prometheus.wait_scraping(len(targets))
        yield prometheus
    finally:
        prometheus.close()
        process.terminate()
        process.wait(30)


def metrics_in(expression: str) -> set[str]:
    """The names of the series that an expression is about."""
    return set(_METRIC.findall(re.sub(r'"[^"]*"', '""', expression)))
