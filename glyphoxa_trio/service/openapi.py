"""The description of the service's endpoints, as an OpenAPI 3.1 document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from .endpoints import ServiceEndpoint

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def openapi_of(endpoints: Sequence[ServiceEndpoint], version: str) -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "glyphoxa", "version": version},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {
                        "error": {"type": "string"},
                        "code": {"type": "string"},
                    },
                }
            },
        },
    }


def _operation(endpoint: ServiceEndpoint) -> dict[str, Any]:
    needed = endpoint.right
    told = "Needs nothing." if needed is None else f"Needs the right to {needed}."
    operation: dict[str, Any] = {
        "operationId": _id_of(endpoint),
        "summary": endpoint.summary,
        "description": told,
        "parameters": [
            {"name": x, "in": "path", "required": True, "schema": {"type": "string"}}
            for x in _PARAMETER.findall(endpoint.path)
        ]
        + _query_of(endpoint),
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {endpoint.answer: {"schema": {}}},
            },
            "default": {
                "description": "An error.",
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/Error"}
                    }
                },
            },
        },
        "security": [] if needed is None else [{"token": []}],
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "content": {
                "application/json": {"schema": endpoint.body.model_json_schema()}
            }
        }
    return operation


def _query_of(endpoint: ServiceEndpoint) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    schema = endpoint.query.model_json_schema()
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": each,
        }
        for name, each in schema["properties"].items()
    ]


def _id_of(endpoint: ServiceEndpoint) -> str:
    words = re.findall(r"\w+", endpoint.path)
    return "_".join([endpoint.method.lower(), *words])
