"""The form in which a model's vendor takes tools, made once for each schema."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import ToolSpec
from glyphoxa_trio.providers.payloads import well_formed

from .gemini import reduced
from .plain import reduced_plainly

_MOST: Final = 2_048  # schemas whose forms are kept


class SchemaForm(StrEnum):
    """The forms of schemas."""

    PLAIN = "plain"
    GEMINI = "gemini"


# By the identity of a schema, which is kept beside its form so that no other gets it:
# the form, and what it has lost in words.
_made: dict[tuple[int, SchemaForm], tuple[Mapping[str, Any], dict[str, Any], str]] = {}


def tool_in(form: SchemaForm, spec: ToolSpec) -> ToolSpec:
    """Return a tool in the form that a vendor takes.

    What its schema loses is said in its description. In the `GEMINI` form, the schema
    of a tool without parameters is empty, and must not be sent.
    """
    key = id(spec.parameters), form
    known = _made.get(key)
    if known is None or known[0] is not spec.parameters:
        while len(_made) >= _MOST:
            del _made[next(iter(_made))]
        known = _made[key] = (spec.parameters, *_reduced(form, spec.parameters))
    _, parameters, said = known
    told = f"{well_formed(spec.description)} {said}".strip()
    return attrs.evolve(spec, description=told, parameters=parameters)


def _reduced(
    form: SchemaForm, parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    if form is SchemaForm.PLAIN:
        return reduced_plainly(parameters)
    node = reduced(parameters) or {}
    said = node.pop("description", "")
    return _lower(node), said


def _lower(node: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the types in lower case, as this protocol writes them."""
    low = {**node}
    if "type" in node:
        low["type"] = node["type"].lower()
    if "items" in node:
        low["items"] = _lower(node["items"])
    if "anyOf" in node:
        low["anyOf"] = [_lower(x) for x in node["anyOf"]]
    if "properties" in node:
        low["properties"] = {k: _lower(x) for k, x in node["properties"].items()}
    return low
