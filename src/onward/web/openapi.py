"""The API as OpenAPI 3.1, from the route table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from onward.version import __version__
from onward.web.answers import ErrorAnswer
from onward.web.rendering import NDJSON
from onward.web.routes import Route

__all__ = ["openapi"]

_REFERENCE = "#/components/schemas/{name}"


def openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the description.  Paths are relative to where the dashboard is mounted."""
    kinds = [kind for route in routes for kind in (route.query, route.body, route.answer) if kind not in (None, str)]
    schemas, components = msgspec.json.schema_components([ErrorAnswer, *kinds], ref_template=_REFERENCE)
    of_kind = {id(kind): schema for kind, schema in zip([ErrorAnswer, *kinds], schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = _operation(route, of_kind, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Onward dashboard", "version": __version__},
        "servers": [{"url": "."}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route, of_kind: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}_{route.path}".replace("/", "_").translate({ord(c): None for c in "{}"}),
        "parameters": [*map(_in_path, route.parameters), *_in_query(route, components)],
        "responses": {"200": _answer(route, of_kind), "default": _content("An error.", of_kind[id(ErrorAnswer)])},
        "security": [] if route.role is None else [{"token": []}],
    }
    if route.body is not None:
        content = {"application/json": {"schema": of_kind[id(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.path == "readyz":
        operation["responses"]["503"] = _content("The store does not answer.", {"type": "string"}, "text/plain")
    if route.path.endswith("pulse"):
        operation["responses"]["304"] = {"description": "As before."}
    return operation


def _answer(route: Route, of_kind: dict[int, Any]) -> dict[str, Any]:
    if route.answer is str:
        return _content(route.summary, {"type": "string"}, "text/plain")
    if route.streams:
        return _content("Lines of JSON.", {"type": "string"}, NDJSON)
    return _content(route.summary, of_kind[id(route.answer)])


def _content(description: str, schema: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema}}}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _in_query(route: Route, components: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of the query type as parameters.  What is not given is left out, so none of them may be null."""
    schema = components[route.query.__name__]
    found = []
    for name, field in schema.get("properties", {}).items():
        kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
        plain = kinds[0] if kinds else {key: value for key, value in field.items() if key != "default"}
        found.append({"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": plain})
    return found
