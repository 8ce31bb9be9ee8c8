"""Documents of Foundry VTT as entities, relationships and facts (G38)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.memory.importing import ImportRefused
from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import EVERYONE, Reach, Viewer

from .support import edges, entity, facts_about, read, read_paths, skipped

SECRET = Reach(secret=True)


def page(id_: str, name: str, html: str, **more: Any) -> dict[str, Any]:
    return {"_id": id_, "name": name, "type": "text", "text": {"content": html}} | more


def journal(id_: str, name: str, *pages: dict[str, Any], level: int = 2) -> Any:
    return {
        "_id": id_, "name": name, "pages": list(pages), "folder": None,
        "ownership": {"default": level, "user1": 3}, "flags": {"x": 1},
    }  # fmt: skip


BARON = {
    "_id": "x1",
    "name": "Baron Vargas",
    "type": "npc",
    "ownership": {"default": 0},
    "prototypeToken": {"name": "?"},
    "items": [{"name": "Sword"}],
    "system": {
        "attributes": {"hp": {"value": 9}},
        "details": {
            "alignment": "LE", "race": "Human", "cr": 3, "odd": {"deep": {"er": 1}},
            "biography": {"value": "<p>He rules by fear.</p>", "public": ""},
        },
    },
}  # fmt: skip


def test_a_journal_with_one_page_is_one_entity() -> None:
    got = read(
        journal("j", "Vallaki", page("p", "Text", "<p>A town.</p><p>Walled.</p>"))
    )
    town = entity(got, "vallaki")
    assert (town.kind, town.summary, town.reach) == (
        EntityKind.LORE,
        "A town. Walled.",
        EVERYONE,
    )
    assert town.aliases == ("Text",)
    assert (town.provenance.by, town.provenance.confirmed) == ("world.json", True)
    assert facts_about(got, "vallaki") == ["A town.", "Walled."]
    assert got.skipped == ()


def test_each_of_several_pages_is_an_entity_of_the_journals_kind() -> None:
    pages = page("p", "Vallaki", "<p>A town.</p>"), page("q", "Krezk", "<p>Cold.</p>")
    got = read(journal("j", "Locations", *pages))
    assert {x.id: x.kind for x in got.entities} == dict.fromkeys(
        ["locations", "vallaki", "krezk"], EntityKind.LOCATION
    )
    assert ("krezk", "part_of", "locations") in edges(got)


def test_what_players_may_not_observe_is_a_secret() -> None:
    hidden = page("q", "Krezk", "<p>Cold.</p>", ownership={"default": 0})
    inherits = page("r", "Inn", "<p>Warm.</p>", ownership={"default": -1})
    got = read(journal("j", "Places", page("p", "A", "<p>x</p>"), hidden, inherits))
    reach = {x.text: x.reach for x in got.facts}
    assert reach == {"x": EVERYONE, "Cold.": SECRET, "Warm.": EVERYONE}
    assert entity(got, "krezk").reach == SECRET
    limited = read(journal("j", "Place", page("p", "A", "<p>x</p>"), level=1))
    assert [x.reach for x in (*limited.entities, *limited.facts)] == [SECRET, SECRET]
    open_ = read(journal("j", "Place", page("p", "A", "x"), level=0), public=True)
    assert {x.reach for x in open_.facts} == {EVERYONE}


def test_a_secret_section_of_an_open_page_is_a_secret() -> None:
    html = "<p>A town.</p><section class='secret'><p>Bones.</p></section>"
    got = read(journal("j", "Vallaki", page("p", "Vallaki", html)))
    assert {x.text: x.reach for x in got.facts} == {
        "A town.": EVERYONE,
        "Bones.": SECRET,
    }
    assert "Bones" not in entity(got, "vallaki").summary


def test_an_actor_knows_its_own_document() -> None:
    got = read(BARON)
    baron = entity(got, "baron-vargas")
    assert (baron.kind, baron.attributes) == (
        EntityKind.NPC,
        {"alignment": "LE", "race": "Human", "cr": 3},
    )
    (fact,) = got.facts
    assert fact.text == "He rules by fear."
    assert fact.reach.reaches(Viewer("Baron Vargas"))
    assert not fact.reach.reaches(Viewer("Ann"))
    assert skipped(got) == {
        "world.json: actor 'Baron Vargas'": "the 1 items that it carries are not"
        " imported"
    }


def test_a_players_character_is_a_player() -> None:
    got = read([{**BARON, "type": "character", "ownership": {"default": 2}}])
    assert [(x.kind, x.reach) for x in got.entities] == [(EntityKind.PLAYER, EVERYONE)]


def test_links_become_relationships_and_their_words_stay() -> None:
    html = (
        "<p>Ruled by @UUID[Actor.x1]{the baron}, see @JournalEntry[Krezk] and"
        " @UUID[JournalEntry.k.JournalEntryPage.kp#past]{its past},"
        " <a class='content-link' data-uuid='Compendium.world.all.Actor.x1'>him</a>,"
        " @Check[dex]{a check}, [[/r 2d6]]{dice} and @UUID[Actor.gone]{nobody}.</p>"
    )
    got = read(
        [
            journal("j", "Vallaki", page("p", "Vallaki", html)),
            journal("k", "Krezk", page("kp", "Past", "<p>Old.</p>")),
            BARON,
        ]
    )
    assert edges(got) == {
        ("vallaki", "mentions", "baron-vargas"),
        ("vallaki", "mentions", "krezk"),
    }
    assert facts_about(got, "vallaki") == [
        "Ruled by the baron, see Krezk and its past, him, a check, dice and nobody."
    ]
    assert skipped(got)["world.json: journal 'Vallaki'"] == (
        "its link to 'nobody' leads to nothing here"
    )


def test_no_name_in_a_text_is_a_link_by_itself() -> None:
    got = read([journal("j", "Inn", page("p", "Inn", "<p>Baron Vargas</p>")), BARON])
    assert edges(got) == set()


def test_a_link_in_a_secret_is_a_secret() -> None:
    html = "<section class=secret>@UUID[Actor.x1]{him}</section>"
    got = read([journal("j", "Inn", page("p", "Inn", html)), BARON])
    assert [x.reach for x in got.relationships] == [SECRET]


def test_older_exports_are_read() -> None:
    old = {
        "_id": "j", "name": "Old", "content": "<p>Text.</p>",
        "permission": {"default": 2},
    }  # fmt: skip
    actor = {
        "_id": "a", "name": "Bo", "type": "npc", "token": {},
        "data": {"details": {"biography": {"value": "<p>He limps.</p>"}}},
    }  # fmt: skip
    got = read([old, actor])
    assert facts_about(got, "old") == ["Text."]
    assert facts_about(got, "bo") == ["He limps."]


def test_a_folder_tells_the_kind_and_an_adventure_is_unpacked() -> None:
    inside = journal("j", "Vallaki", page("p", "V", "<p>x</p>"))
    adventure = {
        "name": "Curse",
        "folders": [{"_id": "f", "name": "Cities", "sorting": "a", "type": "x"}],
        "journal": [{**inside, "folder": "f"}],
        "actors": [BARON],
        "scenes": [{"_id": "s", "name": "Map", "walls": []}],
        "_id": "adv",
    }
    got = read(adventure)
    assert entity(got, "vallaki").kind is EntityKind.LOCATION
    assert entity(got, "baron-vargas").kind is EntityKind.NPC
    assert skipped(got)["world.json: scene 'Map'"] == "scenes are not imported"


def test_odd_documents_are_named_and_cost_nothing_else() -> None:
    image = {"_id": "i", "name": "Map", "type": "image", "src": "map.webp"}
    odd = [
        7,
        None,
        {"_id": "n", "name": "", "pages": []},
        {"_id": "m", "name": 12, "pages": {"a": "b"}, "ownership": "all"},
        {"_id": "t", "name": "Rumours", "results": []},
        {"_id": "d", "name": "Deep", "pages": [page("p", "p", "<div>" * 900)]},
        {"_id": "w", "name": "Thing"},
        {
            "_id": "z",
            "name": "A\0B\ud800\u202e",
            "pages": [page("p", "p", "a\0b\ud800")],
        },
        journal("j", "Good", page("p", "Good", "<p>Kept.</p>"), image),
    ]
    got = read(odd)
    assert facts_about(got, "good") == ["Kept."]
    assert facts_about(got, "ab") == ["ab"]
    told = skipped(got)
    assert told["world.json: document 1"] == "it is not a document"
    assert told["world.json: table 'Rumours'"] == "tables are not imported"
    assert "levels deep" in told["world.json: journal 'Deep'"]
    assert told["world.json: document 'Thing'"] == "its kind is not known"
    assert told["world.json: journal 'document 3'"] == "it has no name"
    assert told["world.json: journal 'Good', page 'Map'"] == (
        "a page of the type image has no text"
    )


def test_two_of_one_name_get_ids_that_stay() -> None:
    documents = [
        journal("a", "Strahd", page("p", "S", "<p>Lore.</p>")),
        {**BARON, "_id": "b", "name": "Strahd"},
        {**BARON, "_id": "c", "name": "Strahd"},
    ]
    first = read(documents)
    assert {x.id: x.kind for x in first.entities} == {
        "strahd": EntityKind.LORE,
        "strahd-2": EntityKind.NPC,
        "strahd-3": EntityKind.NPC,
    }
    assert read(documents, existing=first.entities) == first


def test_a_file_of_lines_has_the_last_version_of_each(tmp_path: Path) -> None:
    lines = [
        journal("a", "Old", page("p", "p", "<p>x</p>")),
        journal("a", "New", page("p", "p", "<p>y</p>")),
        {"$$deleted": True, "_id": "b", "name": "Gone"},
    ]
    path = tmp_path / "journal.db"
    path.write_text("\n".join(json.dumps(x) for x in lines) + "\n")
    assert [x.id for x in read_paths(path).entities] == ["new"]
    path.write_text(path.read_text() + '{"broken"')
    with pytest.raises(ImportRefused, match="line 4"):
        read_paths(path)


def test_links_lead_from_one_file_of_a_folder_to_another(tmp_path: Path) -> None:
    html = "<p>@UUID[Actor.x1]{him}</p>"
    (tmp_path / "in").mkdir()
    (tmp_path / "a.json").write_text(
        json.dumps(journal("j", "Inn", page("p", "Inn", html)))
    )
    (tmp_path / "in" / "b.json").write_text(json.dumps(BARON))
    (tmp_path / "map.webp").write_bytes(b"\0")
    assert edges(read_paths(tmp_path)) == {("inn", "mentions", "baron-vargas")}


def test_a_pack_in_another_format_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("MANIFEST-000004\n")
    with pytest.raises(ImportRefused, match="LevelDB"):
        read_paths(tmp_path)
