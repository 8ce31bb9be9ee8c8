"""Unite the forms of an object into one object, and say in words what is lost.

    {"properties": …, "anyOf": [{"required": ["content"]}, {"required": ["url"]}]}

becomes an object with the properties of all forms, and "Give one of: content, url."
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .joining import MAX_VALUES
from .values import listed, mapping

MAX_SAID: Final = 300  # characters of what is said about one schema

Node = dict[str, Any]


def united(base: Mapping[str, Any], forms: Sequence[Mapping[str, Any]]) -> Node:
    """Return an object that may have the properties of any of its forms.

    Args:
      base: the object's schema, without its forms.
      forms: schemas of objects, each flat.
    """
    properties = dict(mapping(base.get("properties")))
    more: dict[str, list[Any]] = {}
    for form in forms:
        for name, schema in mapping(form.get("properties")).items():
            if schema is not False and not _says_something(properties.get(name)):
                more.setdefault(name, []).append(schema)
    for name, schemas in more.items():
        # One that any form may have is only narrower if all of them say so.
        if name not in properties or len(schemas) == len(forms):
            properties[name] = _any_of(schemas)
    required = [*_names(base), *_always(forms)]
    return {**base, "properties": properties, "required": required}


def choice(base: Mapping[str, Any], forms: Sequence[Mapping[str, Any]]) -> str:
    """Say which fields the forms of an object require; empty if that is no choice."""
    known = {*_names(base), *_always(forms)}
    said: dict[str, None] = {}
    for form in forms:
        fixed = _fixed(form)
        names = [name for name in _names(form) if name in fixed or name not in known]
        words = (f"{x} = {fixed[x]}" if x in fixed else x for x in names)
        said[" with ".join(words)] = None
    if len(said) < 2 or "" in said:
        return ""
    return cut_to(f"Give one of: {', '.join(said)}", MAX_SAID - 1) + "."


def different(values: Iterable[Any]) -> list[Any]:
    """Return the values that differ, in their order."""
    # By their text, since comparing each with all others may take long; also, 1 and
    # True are equal in Python, and are not in JSON.
    return list({repr(value): value for value in values}.values())[:MAX_VALUES]


def cut_to(text: str, most: int) -> str:
    """Cut a text to ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _names(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of required properties."""
    names = listed(schema.get("required"))[:MAX_VALUES]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _always(forms: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the properties that all forms require."""
    first = _names(forms[0]) if forms else []
    others = [frozenset(_names(form)) for form in forms[1:]]
    return [name for name in first if all(name in other for other in others)]


def _fixed(form: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties that have one value only in a form, with that value."""
    found = {}
    for name, schema in mapping(form.get("properties")).items():
        values = _listed_values(mapping(schema))
        if len(values) == 1 and isinstance(values[0], str | int | float):
            found[name] = json.dumps(values[0], ensure_ascii=False)[:MAX_SAID]
    return found


def _listed_values(schema: Mapping[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return listed(schema.get("enum"))


def _says_something(schema: Any) -> bool:
    """Return whether the schema of a property says which values it may have."""
    return any(key not in ("title", "description") for key in mapping(schema))


def _any_of(schemas: list[Any]) -> Any:
    """Return one schema for a property of several forms."""
    first, *others = schemas
    if all(other == first for other in others):
        return first
    values = [_listed_values(mapping(schema)) for schema in schemas]
    if all(values):
        node = {k: v for k, v in mapping(first).items() if k not in ("const", "enum")}
        if any(mapping(x).get("type") != node.get("type") for x in others):
            node.pop("type", None)
        return node | {"enum": different(x for each in values for x in each)}
    return {"anyOf": different(schemas)}
