"""APIs whose module is imported when the first request for it arrives.

A broker that starts must not pay for forty message classes before it can answer: what it needs at once is only which
keys and versions there are. So the table of APIs restates those, and a test holds it equal to the modules.
"""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any, cast

from kompat.handlers.base import Api, Versions


class LateApi:
    """Stands for the `API` of a module; any attribute but key, name and versions imports it."""

    def __init__(self, module: str, key: int, name: str, versions: Versions) -> None:
        self.module = module
        self.key = key
        self.name = name
        self.versions = versions
        self.advertised: Versions | None = None

    def load(self) -> Api[Any, Any]:
        return cast("Api[Any, Any]", import_module(self.module).API)

    def __getattr__(self, name: str) -> Any:
        # Python asks here only for what is not set, so after the first request every look-up is a plain one.
        if name.startswith("__"):
            raise AttributeError(name)
        api = self.load()
        for field in fields(api):
            setattr(self, field.name, getattr(api, field.name))
        return getattr(api, name)


def late(key: int, name: str, low: int, high: int) -> Api[Any, Any]:
    """The API of the handler module that is named like it: DescribeLogDirs lives in describe_log_dirs."""
    module = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")
    return cast("Api[Any, Any]", LateApi(f"{__package__}.{module}", key, name, Versions(low, high)))
