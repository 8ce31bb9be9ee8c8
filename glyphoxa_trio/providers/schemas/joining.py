"""Interpret and join keywords of JSON schemas; helpers of `schema`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .values import is_number, listed, mapping

MAX_VALUES: Final = 1_000  # of an enum, which is ignored beyond; of required

_TYPES: Final = ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT")
# The type that a schema without one is likely to mean, by its keywords.
_HINTS: Final[Mapping[str, frozenset[str]]] = {
    "OBJECT": frozenset({"properties", "required", "additionalProperties"}),
    "ARRAY": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "STRING": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "NUMBER": frozenset(
        {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    ),
}


def values_of(schema: Mapping[str, Any]) -> list[Any]:
    """Return all values that fit, if the schema lists them; otherwise none."""
    values = listed(schema.get("enum"))
    if "const" in schema:
        return [schema["const"]]
    return values if len(values) <= MAX_VALUES else []


def kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names, or else means, without null.

    An empty list means any type.
    """
    known = _types(schema.get("type"))
    kinds = [kind for kind in dict.fromkeys(known) if kind in _TYPES]
    if not kinds and "NULL" not in known:
        kinds = _meant(schema)
    return [kind for kind in kinds if kind != "INTEGER" or "NUMBER" not in kinds]


def _types(said: Any) -> list[str]:
    """Return the names in a ``type``, in upper case."""
    names = listed(said)[:16] or [said]
    return [name.upper() for name in names if isinstance(name, str)]


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Join two schemas, as far as possible; where they conflict the first one wins."""
    both = {**other, **one}
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        match key:
            case "properties":
                both[key] = _both_properties(mapping(a), mapping(b))
            case "required":
                both[key] = [*listed(a), *listed(b)][:MAX_VALUES]
            case "enum":
                allowed = values_of({key: b})
                both[key] = [v for v in values_of({key: a}) if v in allowed] or a
            case "type":
                both[key] = _common(_types(a), _types(b)) or a
            case "minimum" | "exclusiveMinimum" | "minLength" | "minItems":
                both[key] = max(a, b) if is_number(a) and is_number(b) else a
            case "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems":
                both[key] = min(a, b) if is_number(a) and is_number(b) else a
            case "items" if isinstance(a, Mapping) and isinstance(b, Mapping):
                both[key] = {"allOf": [a, b]}
            case "prefixItems" | "items" if listed(a) and listed(b):
                longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
                joint = [{"allOf": pair} for pair in zip(a, b, strict=False)]
                both[key] = [*joint, *longer[len(shorter) :]]
            case "description":
                both[key] = a or b
    return both


def _both_properties(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Join two sets of properties."""
    shared = {name: {"allOf": [a[name], b[name]]} for name in a.keys() & b.keys()}
    return {**a, **b, **shared}


def _common(a: list[str], b: list[str]) -> list[str]:
    """Return the types that both allow; an integer is a number."""
    wider = {"INTEGER": "NUMBER"}
    kinds = [kind for kind in a if kind in b or wider.get(kind) in b]
    return kinds + [kind for kind in b if kind not in a and wider.get(kind) in a]


def _meant(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema without ``type`` means."""
    found = [_kind(value) for value in values_of(schema)]
    kinds = [kind for kind in dict.fromkeys(found) if kind]
    hinted = (k for k, hints in _HINTS.items() if not hints.isdisjoint(schema))
    kinds = kinds or [*hinted][:1] or [_kind(schema.get("default"))]
    return [kind for kind in kinds if kind]


def _kind(value: Any) -> str:
    """Return the type of a value."""
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "INTEGER"
        case float():
            return "NUMBER"
        case str():
            return "STRING"
        case list() | tuple():
            return "ARRAY"
        case Mapping():
            return "OBJECT"
    return ""
