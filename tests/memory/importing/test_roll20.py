"""The archive of a Roll20 campaign as entities, relationships and facts (G38)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import EVERYONE, Reach, Viewer

from .support import edges, entity, facts_about, read, skipped

ARCHIVE: dict[str, Any] = {
    "schema_version": 3,
    "campaign_title": "Nights",
    "handouts": [
        {
            "id": "-h1",
            "name": "The Mill",
            "notes": '<p>Owned by <a href="http://journal.roll20.net/character/-c1">'
            "Bo</a>, near [the inn](https://journal.roll20.net/handout/-h2).</p>",
            "gmnotes": "<p>Haunted.</p>",
            "inplayerjournals": "all",
            "archived": False,
            "tags": '["location"]',
        },
        {"id": "-h2", "name": "Inn", "notes": "null", "inplayerjournals": "-p1"},
    ],
    "characters": [
        {
            "id": "-c1",
            "name": "Bo",
            "bio": quote("<p>He limps.</p>"),
            "gmnotes": None,
            "inplayerjournals": "",
            "controlledby": "",
            "attributes": [
                {"name": "race", "current": "elf", "max": ""},
                {"name": "repeating_x", "current": "1"},
                7,
            ],
        },
        {"id": "-c2", "name": "Ann", "bio": 5, "controlledby": "-p1"},
    ],
    "macros": [{}, {}],
}


def test_handouts_and_characters_are_entities() -> None:
    got = read(ARCHIVE)
    assert {x.id: x.kind for x in got.entities} == {
        "the-mill": EntityKind.LOCATION,
        "inn": EntityKind.LORE,
        "bo": EntityKind.NPC,
        "ann": EntityKind.PLAYER,
    }
    assert entity(got, "bo").attributes == {"race": "elf"}
    assert facts_about(got, "bo") == ["He limps."]
    assert facts_about(got, "the-mill") == ["Owned by Bo, near the inn.", "Haunted."]
    assert skipped(got) == {"world.json: macros": "macros are not imported: 2 of them"}


def test_notes_of_the_game_master_and_hidden_items_are_secrets() -> None:
    got = read(ARCHIVE)
    reach = {x.text: x.reach for x in got.facts}
    assert reach["Haunted."] == Reach(secret=True)
    assert reach["Owned by Bo, near the inn."] == EVERYONE
    assert reach["He limps."].reaches(Viewer("Bo"))
    assert not reach["He limps."].reaches(Viewer("Ann"))
    assert entity(got, "inn").reach.secret  # in the journal of one player only


def test_its_links_become_relationships() -> None:
    assert edges(read(ARCHIVE)) == {
        ("the-mill", "mentions", "bo"),
        ("the-mill", "mentions", "inn"),
    }


def test_odd_fields_cost_only_their_item() -> None:
    odd = {
        "handouts": [
            "x",
            {"name": ""},
            {"name": "A", "notes": ["x"], "tags": "[[", "gmnotes": {"a": 1}},
            {"name": "B", "notes": "<div>" * 900},
            {"name": "C", "notes": "Kept.", "inplayerjournals": True},
        ],
        "characters": {"a": {"name": "D", "attributes": "x"}},
    }
    got = read(odd)
    assert [x.id for x in got.entities] == ["a", "c", "d"]
    assert facts_about(got, "c") == ["Kept."]
    assert set(skipped(got)) == {
        "world.json: handout 1",
        "world.json: handout 2",
        "world.json: handout 'B'",
    }


def test_rolls_are_read_as_words_and_journals_may_be_a_list() -> None:
    notes = "<p>It burns for [[2d6[fire]]] or [[ 1d4 ]], says [Bo](https://a.b/c).</p>"
    handout = {"id": "-h", "name": "Mill", "notes": notes, "inplayerjournals": ["all"]}
    got = read({"handouts": [handout], "characters": []})
    (fact,) = got.facts
    assert fact.text == "It burns for 2d6 fire or 1d4, says Bo."
    assert fact.reach == EVERYONE
