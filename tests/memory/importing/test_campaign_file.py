"""A campaign file of ours: its shape, and every problem of it with its place (G38)."""

from __future__ import annotations

import inspect

import pytest

from glyphoxa_trio.memory.importing import ImportRefused, campaign_file
from glyphoxa_trio.memory.knowledge import Entity, EntityKind
from glyphoxa_trio.memory.visibility import Reach

from .support import edges, entity, facts_about, read

WORLD = """
campaign: Saltmarsh
entities:
  - name: Greymantle the Sage
    kind: npc
    aliases: [Greymantle]
    attributes: {race: human, age: 71}
    facts:
      - He fears fire.
      - {text: He was a lich., secret: true, known_to: [Mirela], about: [Tower]}
  - {name: Tower, topics: [Arcana]}
relationships:
  - {from: Greymantle, type: lives_in, to: tower, attributes: {since: 12}}
facts:
  - {text: "${HOME} is no variable here.", about: [Tower]}
"""


def test_it_is_read_by_names() -> None:
    got = read(WORLD, "world.yaml")
    assert got.campaign == "Saltmarsh"
    sage = entity(got, "greymantle-the-sage")
    assert (sage.kind, sage.aliases) == (EntityKind.NPC, ("Greymantle",))
    assert sage.attributes == {"race": "human", "age": 71}
    assert entity(got, "tower").reach == Reach(topics=frozenset({"arcana"}))
    assert edges(got) == {("greymantle-the-sage", "lives_in", "tower")}
    assert facts_about(got, "tower") == [
        "He was a lich.",
        "${HOME} is no variable here.",
    ]
    reach = {x.text: x.reach for x in got.facts}
    assert reach["He was a lich."] == Reach(frozenset({"Mirela"}), secret=True)


def test_the_example_of_its_documentation_is_one() -> None:
    doc = inspect.getdoc(campaign_file) or ""
    example = doc.split("\n\n")[1]
    lines = [x.removeprefix("    ") for x in example.splitlines()]
    got = read("\n".join(lines), "world.yaml")
    assert len(got.entities) == 2
    assert len(got.facts) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("entities:\n  - name: A\n    knd: npc\n", "did you mean 'kind'?, line 3 @"),
        ("entities:\n  - name: A\n    kind: ncp\n", "did you mean npc?, line 3"),
        ("entities:\n  - kind: npc\n", "name is missing, line 2"),
        ("entities: 3\n", "expected a list, got a number, line 1"),
        ("relationships:\n  - {from: A, to: B}\n", "type is missing, line 2"),
        ("relationships:\n  - {type: x, to: B}\n", "from is missing, line 2"),
        ("entities: [{name: A}]\nrelationships:\n  - {from: A, type: x, to: Zed}\n",
         "there is no entity 'Zed' @ world.yaml.relationships[0]"),
        ("entities: [{name: Tower}]\nfacts: [{text: x, about: [Towr]}]\n",
         "there is no entity 'Towr', did you mean Tower? @ world.yaml.facts[0]"),
        ("entities: [{name: A}, {name: a}]\n", "is taken @ world.yaml.entities[1]"),
        ("entities: [{name: A, aliases: [X]}, {name: X}]\n", "the name 'X' is taken"),
        ("entities: [{name: '!', id: ' . '}]\n", ""),
        ("entities:\n - name: [\n", "is not YAML"),
        ("", "the file is empty"),
    ],
)  # fmt: skip
def test_each_problem_has_its_place(text: str, said: str) -> None:
    if not said:
        assert [x.id for x in read(text, "world.yaml").entities] == ["."]
        return
    with pytest.raises(ImportRefused) as refused:
        read(text, "world.yaml")
    assert said in str(refused.value)


def test_all_problems_are_told_at_once() -> None:
    text = "entities: [{nme: A}, {name: B, kind: x}]\nfact: 3\n"
    with pytest.raises(ImportRefused) as refused:
        read(text, "world.yaml")
    assert len(str(refused.value).splitlines()) == 4


def test_names_of_the_campaign_can_be_used() -> None:
    bo = Entity(id="bo", kind=EntityKind.NPC, name="Bo the Tall", aliases=("Bo",))
    text = "entities: [{name: Inn}]\nrelationships: [{from: bo, type: owns, to: Inn}]\n"
    assert edges(read(text, "world.yaml", existing=[bo])) == {("bo", "owns", "inn")}


def test_an_entity_of_the_same_id_is_replaced_whatever_its_kind() -> None:
    old = Entity(id="tower", kind=EntityKind.ITEM, name="Tower")
    got = read(WORLD, "world.yaml", existing=[old])
    assert entity(got, "tower").kind is EntityKind.LORE
