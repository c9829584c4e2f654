"""Builds the HTTP server. The broker imports this module and its dependencies at the first connection."""

from __future__ import annotations

import socket
from functools import cache
from typing import TYPE_CHECKING

from kompat.admin.app import Application
from kompat.admin.route import Route
from kompat.admin.routes import all_routes
from kompat.admin.serving import Serving
from kompat.admin.sites import Sites

if TYPE_CHECKING:
    from kompat.config.broker import BrokerConfig


@cache
def routes() -> list[Route]:
    return all_routes()


def build(config: BrokerConfig) -> Serving:
    application = Application(routes(), config, Sites(config, socket.gethostname()))
    return Serving(application, config["kompat.http.max.connections"])
