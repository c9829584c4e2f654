"""The OpenAPI document, generated from the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from kompat import __version__
from kompat.admin.decoding import NUMBERS
from kompat.admin.problems import MEDIA_TYPE, TITLES, ProblemShape
from kompat.admin.route import Route

PROBLEM = "ProblemShape"
ALWAYS = (400, 401, 403, 421, 500, 503)
WITH_BODY = (408, 413, 415)
SECURITY = "basic"


def describe(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The document of /openapi.json."""
    known = sorted(routes, key=lambda route: (route.tag, route.path))
    schemas, components = _schemas(known)
    paths: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for route in known:
        operation = _operation(route, schemas)
        if operation["operationId"] in names:  # the same path without /v1 has another operation
            operation["operationId"] += "".join(route.tag.title().split())
        names.add(operation["operationId"])
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kompat",
            "version": version,
            "description": "The REST API of a Kafka broker. Errors are problem details (RFC 9457); lists are paged.",
        },
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in known)],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                str(status): {
                    "description": title,
                    "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{PROBLEM}"}}},
                }
                for status, title in TITLES.items()
            },
            "securitySchemes": {SECURITY: {"type": "http", "scheme": "basic"}},
        },
    }


def _schemas(routes: Sequence[Route]) -> tuple[dict[int, Any], dict[str, Any]]:
    """The schema of each type by its id, and the components that they refer to."""
    types = {id(kind): kind for route in routes for kind in (route.body, route.answer) if kind not in (None, bytes)}
    types[id(ProblemShape)] = ProblemShape
    found, components = msgspec.json.schema_components(types.values(), ref_template="#/components/schemas/{name}")
    return dict(zip(types, found, strict=True)), components


def _operation(route: Route, schemas: dict[int, Any]) -> dict[str, Any]:
    statuses = {*ALWAYS, *route.problems, *(WITH_BODY if route.body is not None else ())}
    if "{" in route.path:
        statuses.add(404)
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {
            **_success(route, schemas),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)},
        },
        "security": [] if route.is_open else [{}, {SECURITY: []}],
    }
    if route.description:
        operation["description"] = route.description
    if route.body is not None:
        schema = schemas.get(id(route.body), {})
        content = {media: {"schema": schema} for media in route.takes}
        operation["requestBody"] = {"required": not route.is_body_optional, "content": content}
    return operation


def _success(route: Route, schemas: dict[int, Any]) -> dict[str, Any]:
    if route.answer is None and route.media == "application/json":
        return {"204": {"description": "Done"}}
    schema = schemas.get(id(route.answer), {"type": "string"})
    return {str(route.status): {"description": "Done", "content": {route.media: {"schema": schema}}}}


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    found = []
    for name in re.findall(r"{(\w+)}", route.path):
        number = {"type": "integer", "minimum": 0, "maximum": NUMBERS.get(name)}
        schema = number if name in NUMBERS else {"type": "string", "minLength": 1}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    return found


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    name = route.query.__name__
    _, components = msgspec.json.schema_components([route.query], ref_template="#/components/schemas/{name}")
    shape = components.get(name) or next(iter(components.values()))
    found = []
    for parameter, schema in shape["properties"].items():
        plain = {key: value for key, value in schema.items() if key != "description"}
        entry = {"name": parameter, "in": "query", "schema": plain, "required": parameter in shape.get("required", ())}
        if "description" in schema:
            entry["description"] = schema["description"]
        found.append(entry)
    return found


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z0-9]+", route.path.removeprefix("/v1"))
    return route.method.lower() + "".join(word[:1].upper() + word[1:] for word in words)


@cache
def document() -> bytes:
    """The document of all routes, as it is served."""
    from kompat.admin.routes import all_routes  # one of the routes serves this document

    return msgspec.json.encode(describe(all_routes(), __version__))
