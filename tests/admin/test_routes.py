"""The table of routes, and the OpenAPI document that is made of it."""

import json
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from schemathesis.core.result import Ok

from kompat.admin.openapi import document
from kompat.admin.problems import TITLES
from kompat.admin.route import Route
from kompat.admin.routes import all_routes

ROUTES = all_routes()
API: dict[str, Any] = json.loads(document())


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_a_route_says_what_it_is(route: Route) -> None:
    assert route.method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    assert route.path.startswith("/")
    assert route.summary
    assert not route.summary.endswith(".")
    assert route.tag
    assert set(route.problems) <= set(TITLES)
    assert route.body is None or route.method != "GET"


def test_every_route_is_in_the_document_under_a_name_of_its_own() -> None:
    documented = {
        (method.upper(), path): operation
        for path, methods in API["paths"].items()
        for method, operation in methods.items()
    }
    assert documented.keys() == {(route.method, route.path) for route in ROUTES}
    names = [operation["operationId"] for operation in documented.values()]
    assert len(names) == len(set(names))


def test_the_document_is_openapi() -> None:
    found = list(schemathesis.openapi.from_dict(API).get_all_operations())

    assert len(found) == len(ROUTES)
    assert all(isinstance(each, Ok) for each in found)


@pytest.mark.parametrize("name", API["components"]["schemas"])
def test_a_schema_is_a_schema_and_knows_what_it_refers_to(name: str) -> None:
    whole = {"$ref": f"#/components/schemas/{name}", "components": API["components"]}

    jsonschema_rs.meta.validate(API["components"]["schemas"][name])
    assert jsonschema_rs.validator_for(whole) is not None
