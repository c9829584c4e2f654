"""Backups of this broker's data, made while it runs. docs/operations.md describes their use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from kompat.admin.problems import Problem
from kompat.admin.route import Call, Route
from kompat.admin.shapes import Answer, Body, Page, PageQuery, page
from kompat.backup.service import BackupExists
from kompat.security.acls import Kind, Operation

if TYPE_CHECKING:
    from kompat.backup.copying import Manifest

CONFLICT = 409


class NewBackup(Body):
    name: Annotated[
        str, Meta(min_length=1, max_length=128, description="name of the directory below `kompat.backup.dir`")
    ]


class Backup(Answer):
    name: str
    created: int
    node_id: int
    cluster_id: str
    version: str
    files: int
    bytes: int


async def create(call: Call) -> Backup:
    call.require(Operation.ALTER, Kind.CLUSTER)
    body: NewBackup = call.body
    try:
        return _backup(body.name, await call.services.backups.create(body.name))
    except BackupExists as error:
        raise Problem(CONFLICT, f"{error}: choose another name.", name="backup-exists") from None


async def list_backups(call: Call) -> Page[Backup]:
    call.require(Operation.DESCRIBE, Kind.CLUSTER)
    query: PageQuery = call.query
    found = [_backup(name, manifest) for name, manifest in await call.services.backups.list()]
    return await page(found, lambda each: each.name, query.limit, query.cursor)


def _backup(name: str, manifest: Manifest) -> Backup:
    return Backup(
        name=name,
        created=manifest.created,
        node_id=manifest.node_id,
        cluster_id=manifest.cluster_id,
        version=manifest.version,
        files=len(manifest.files),
        bytes=manifest.size,
    )


ROUTES = [
    Route(
        method="GET", path="/v1/backups", handle=list_backups, summary="List the backups of this broker",
        tag="backups", query=PageQuery, answer=Page[Backup],
    ),
    Route(
        method="POST", path="/v1/backups", handle=create, summary="Back up this broker while it runs", tag="backups",
        body=NewBackup, answer=Backup, status=201, problems=(409, 507),
        description="The backup has all data that was acknowledged before the request. The response comes when the backup is complete and on the disk.",
    ),
]  # fmt: skip
