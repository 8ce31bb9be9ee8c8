"""Knowledge that no store keeps is refused when it is made; its field is named."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.memory.checks import MOST_ATTRIBUTES, as_json
from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import (
    MOST_NAME,
    MOST_TEXT,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Relationship,
    slug,
)

DEEP: Any = {}
for _ in range(2000):
    DEEP = {"in": DEEP}
ENTITY = {"id": "x", "kind": "npc", "name": "X"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, r"entity 'X': id: it is empty; give 1 to 200"),
        ({"name": " \n"}, r"entity 'x': name: it is empty"),
        ({"name": "n" * (MOST_NAME + 1)}, r"name: it has 201 characters; shorten"),
        ({"name": "a\0b"}, r"name: it has a NUL"),
        ({"name": "a\ud800"}, r"name: .*half a surrogate pair"),
        ({"name": 5}, r"name: 5 is no text"),
        ({"aliases": ["ok", ""]}, r"aliases: it is empty"),
        ({"aliases": "Bo"}, r"'Bo' is one text; give a list"),
        ({"aliases": [str(x) for x in range(201)]}, r"aliases: there are 201"),
        ({"summary": "s" * (MOST_TEXT + 1)}, r"summary: it has 4001 characters"),
        ({"kind": "dragon"}, r"kind: 'dragon' is none of npc, player, .*; choose one"),
        ({"attributes": {"x": object()}}, r"attributes: .* type object"),
        ({"attributes": {"x": {1}}}, r"attributes: .* type set"),
        ({"attributes": {5: 1}}, r"attributes: the name 5 is no text"),
        ({"attributes": {"x": math.nan}}, r"attributes: nan is no number in JSON"),
        ({"attributes": [1]}, r"attributes: it is no mapping"),
        ({"attributes": {"x": "y" * MOST_ATTRIBUTES}}, r"attributes: they are 163\d\d"),
        ({"attributes": DEEP}, r"attributes: .* more than 16 levels deep"),
        ({"attributes": {"x": 10**5000}}, r"attributes: a number is too long"),
        ({"attributes": {"x": "\0"}}, r"attributes: a text has a NUL"),
    ],
)
def test_a_bad_field_of_an_entity_is_named(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(KnowledgeRefused, match=message) as caught:
        Entity(**(ENTITY | fields))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fact(text=""), r"fact: text: it is empty"),
        (lambda: Fact(text="Hm.", about=("",)), r"fact 'Hm.': about: it is empty"),
        (lambda: Fact(text="Hm.", standing="no"), r"standing: 'no' is none of"),
        (lambda: Fact(text="Hm.", lines=[("x", 0)]), r"lines: .* is no session with"),
        (lambda: Fact(text="Hm.", lines=["x"]), r"lines: .* no pairs"),
        (lambda: Fact(text="Hm.", lines=5), r"lines: 5 are no pairs"),  # type: ignore[arg-type]
        (lambda: Fact(text="Hm.", about=5), r"5 is no list"),  # type: ignore[arg-type]
        (lambda: Relationship(source="a", type="", target="b"), r"type: it is empty"),
        (lambda: Provenance(confidence=1.01), r"confidence: 1.01 is no number from 0"),
        (lambda: Provenance(confidence=math.nan), r"confidence: nan"),
        (lambda: Provenance(at=math.inf), r"at: inf is no Unix time"),
        (lambda: Provenance(basis="told"), r"basis: 'told' is none of authored"),
        (lambda: Provenance(by="b" * 201), r"by: it has 201 characters"),
    ],
)
def test_a_bad_field_of_anything_else_is_named(make: Any, message: str) -> None:
    with pytest.raises(KnowledgeRefused, match=message):
        make()


def test_lists_and_names_of_kinds_are_converted() -> None:
    one = Entity(id="x", kind="npc", name="X", aliases=["a", "b", "a"])
    assert one.kind is EntityKind.NPC
    assert one.aliases == ("a", "b")
    fact = Fact(text="x", about=["b", "a", "b"], lines=[("t", 2), ("s", 3), ("t", 2)])
    assert fact.about == ("b", "a")
    assert fact.lines == (("s", 3), ("t", 2))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), JSON))
def test_attributes_that_are_kept_come_back_as_they_were(data: dict[str, Any]) -> None:
    try:
        one = Entity(id="x", kind=EntityKind.ITEM, name="X", attributes=data)
    except KnowledgeRefused:
        return
    assert json.loads(as_json(one.attributes)) == data
    as_json(one.attributes).encode()


@given(st.text())
def test_a_slug_of_a_name_is_an_id(name: str) -> None:
    try:
        Entity(id="x", kind=EntityKind.ITEM, name=name)
    except KnowledgeRefused:
        return
    Entity(id=slug(name), kind=EntityKind.ITEM, name=name)
