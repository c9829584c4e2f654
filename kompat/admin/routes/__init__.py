"""The routes: a module for each resource, with its `ROUTES`. All routes of these modules are served and documented."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from kompat.admin.route import Route


def all_routes() -> list[Route]:
    """The routes of all modules here. Two with the same method and path are an error."""
    found: dict[tuple[str, str], Route] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        for route in import_module(f"{__name__}.{module.name}").ROUTES:
            if found.setdefault((route.method, route.path), route) is not route:
                raise ValueError(f"two routes {route.method} {route.path}")
    return list(found.values())
