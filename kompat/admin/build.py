"""Puts the HTTP door together. Everything that it imports, the broker does without until somebody knocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kompat.admin.app import Application
from kompat.admin.routes import all_routes
from kompat.admin.security import Security
from kompat.admin.serving import Serving

if TYPE_CHECKING:
    from kompat.config.broker import BrokerConfig


def build(config: BrokerConfig) -> Serving:
    security = Security()
    application = Application(
        all_routes(), max_streams=config["kompat.http.max.streams"], authenticate=security.authenticate
    )
    security.application = application
    return Serving(application, config["kompat.http.max.connections"])
