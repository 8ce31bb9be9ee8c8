"""Follow the references of a schema and join its ``allOf``, within a budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import attrs

from .joining import joined, kinds_of
from .values import listed, mapping

NODE: Final = 24  # characters of a node besides its contents
_NESTING: Final = 16  # of nested allOf and references

Node = dict[str, Any]


@attrs.define(eq=False)
class Flattener:
    """One reduction of a schema.

    Args:
      root: the whole schema, inside which references are followed.
      left: the characters, approximately, that the result may still have.
    """

    root: Mapping[str, Any]
    left: int

    def flat(
        self, schema: Mapping[str, Any], refs: frozenset[str], nesting: int = 0
    ) -> tuple[Node, frozenset[str]]:
        """Return ``schema`` with its references followed and its ``allOf`` joined.

        A reference to a schema that contains it becomes only its type.

        Args:
          refs: the references that contain the schema. They are returned with those
            that were followed.
        """
        flat = {k: v for k, v in schema.items() if k not in ("$ref", "allOf")}
        parts = listed(schema.get("allOf"))
        opened = refs
        if isinstance(ref := schema.get("$ref"), str):
            target = self._target(ref)
            parts = [self.outline(target) if ref in refs else target, *parts]
            opened |= {ref}
        inside = opened
        for part in map(mapping, parts):
            self.left -= NODE + len(part) + len(mapping(part.get("properties")))
            if self.left <= 0 or nesting >= _NESTING:
                break
            more, others = self.flat(part, opened, nesting + 1)
            flat = joined(flat, more)
            inside |= others
        return flat, inside

    def objects(
        self, forms: list[Any], refs: frozenset[str], nesting: int = 0
    ) -> tuple[list[Node], frozenset[str]]:
        """Return those of the forms that an object may have, flat and without forms.

        The references that were followed are returned with them.
        """
        found: list[Node] = []
        inside = refs
        for form in forms:
            self.left -= NODE
            if self.left <= 0 or nesting >= _NESTING:
                found.append({})  # the others allow anything
                break
            if form is False:
                continue
            flat, others = self.flat(mapping(form), refs, nesting)
            self.left -= len(mapping(flat.get("properties")))
            self.left -= len(listed(flat.get("required")))
            if kinds_of(flat) not in ([], ["OBJECT"]):
                continue
            inside |= others
            if inner := forms_of(flat):
                objects, others = self.objects(inner, others, nesting + 1)
                inside |= others
                found += [joined(flat, each) for each in objects]
            else:
                found.append(flat)
        return found, inside

    def outline(self, target: Mapping[str, Any]) -> Node:
        """Return what is left of a schema inside itself."""
        return {
            "type": kinds_of(target)[:1] or "object",
            "description": target.get("description"),
        }

    def _target(self, ref: str) -> Mapping[str, Any]:
        """Return the target of a reference inside the schema; anything, if none."""
        found: Any = self.root if ref == "#" or ref.startswith("#/") else None
        for step in unquote(ref[1:]).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                number = int(step) if re.fullmatch("[0-9]{1,6}", step) else -1
                found = found[number] if 0 <= number < len(found) else None
            else:
                found = mapping(found).get(step)
        return mapping(found)


def forms_of(flat: Node) -> list[Any]:
    """Take the forms out of a flat schema, and return them."""
    forms = listed(flat.pop("anyOf", None)), listed(flat.pop("oneOf", None))
    return forms[0] or forms[1]
