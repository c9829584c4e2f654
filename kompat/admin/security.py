"""Who somebody is that came by HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kompat.admin.requests import Caller

if TYPE_CHECKING:
    from starlette.requests import Request

    from kompat.admin.app import Application


class Security:
    def __init__(self) -> None:
        self.application: Application

    async def authenticate(self, request: Request) -> str:
        """The principal: everybody is the same while security is off."""
        return Caller().principal
