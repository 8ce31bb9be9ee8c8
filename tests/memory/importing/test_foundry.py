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
    assert [x.reach for x in limited.entities] == [SECRET]
    assert [x.reach for x in limited.facts] == [SECRET]
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
        "world.json: actor 'Baron Vargas'": "it carries 1 item, not imported"
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


def markdown(id_: str, name: str, text: str, **more: Any) -> dict[str, Any]:
    written = {"format": 2, "markdown": text, "content": ""} | more
    return {"_id": id_, "name": name, "type": "text", "text": written}


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("burns for @Damage[2d6[fire],1d4[cold]|options:area]!", "2d6 fire, 1d4 cold!"),
        ("@Damage[(2d6+4)[persistent,bleed]]{bleeds}", "bleeds"),
        ("a @Check[type:perception|dc:20|basic]", "a DC 20 perception check"),
        ("a @Check[reflex|dc:15]{a dodge}", "a a dodge"),
        ("a @Check[will|dc:15|basic]", "a DC 15 will save"),
        ("@Template[type:cone|distance:30]", "30-foot cone"),
        ("&Reference[prone]{lies} or &Reference[blinded]", "lies or blinded"),
        (
            "[[/r 1d20+5]]{rolls}, [[/r 2d6[fire] # hot]], [[3d4]]",
            "rolls, 2d6 fire, 3d4",
        ),
        ("[[/save dex 15]] [[/damage 2d6 fire average]]", "DC 15 dex save 2d6 fire"),
        ("[[lookup @name]] hits", "hits"),
        ("see @UUID[JournalEntry.k]{the {old} keep}", "see the {old} keep"),
        ("see @UUID[JournalEntry.k]", "see Keep"),
        ("see @UUID[.q]", "see Cellar"),
        ("see @UUID[.JournalEntryPage.q#door]{below}", "see below"),
        ("@Embed[JournalEntry.k inline cite=false]", "Keep"),
        ('@Embed[uuid="JournalEntry.k" caption=x]{A keep}', "A keep"),
        ("@JournalEntry[Keep] @Scene[s1]{the hall}", "Keep the hall"),
        ("@Compendium[world.lore.k]{Keep}", "Keep"),
        ("not @UUID[open and a@b.org [x]", "not @UUID[open and a@b.org [x]"),
    ],
)
def test_what_foundry_shows_as_something_else_is_read_as_that(
    written: str, read_as: str
) -> None:
    pages = page("p", "Hall", f"<p>{written}</p>"), page("q", "Cellar", "<p>Wet.</p>")
    keep = journal("k", "Keep", page("p", "Keep", "<p>Old.</p>"))
    got = read([journal("j", "Inn", *pages), keep])
    (fact,) = facts_about(got, "hall")
    assert fact.endswith(read_as)
    assert not got.skipped


@pytest.mark.parametrize(
    "link",
    ["@UUID[.q]", "@UUID[.JournalEntryPage.q]{x}", "@Embed[.q inline]"],
)
def test_a_relative_link_leads_to_the_page_beside(link: str) -> None:
    pages = page("p", "Hall", f"<p>a {link}</p>"), page("q", "Cellar", "<p>Wet.</p>")
    assert ("hall", "mentions", "cellar") in edges(read(journal("j", "Inn", *pages)))


def test_a_link_without_words_betrays_no_hidden_name() -> None:
    hidden = journal("h", "Lich", page("p", "Lich", "<p>Old.</p>"), level=0)
    text = "<p>Ask @UUID[JournalEntry.h] or @UUID[Actor.gone].</p>"
    got = read([journal("j", "Inn", page("p", "Inn", text)), hidden])
    assert facts_about(got, "inn") == ["Ask or ."]
    assert "'Actor.gone' is not in this file" in str(got.skipped)


def test_a_page_in_markdown_is_plain_text_below_its_headings() -> None:
    text = """
# History

The **old** _keep_ burnt
down, says [Bo](https://example.org/a_(b)) of @UUID[Actor.b_o_b]{Bob}.

* 2 * 3 is six
* `cold`

Rumours
-------
> It is *haunted*.

| who | what |
|-----|------|
| Bo | smith |

<section class="secret">

The lich is `below`.

</section>

```
code
```
"""
    got = read(journal("j", "Keep", markdown("p", "Keep", text)))
    assert {x.text: x.reach for x in got.facts} == {
        "History: The old keep burnt down, says Bo of Bob.": EVERYONE,
        "History: 2 * 3 is six": EVERYONE,
        "History: cold": EVERYONE,
        "Rumours: It is haunted.": EVERYONE,
        "Rumours: who | what": EVERYONE,
        "Rumours: Bo | smith": EVERYONE,
        "Rumours: The lich is below.": SECRET,
        "Rumours: code": EVERYONE,
    }
    assert "lich" not in entity(got, "keep").summary
    inside = markdown("p", "Keep", "", content="## Age\n\nOld.", markdown=None)
    assert [x.text for x in read(journal("j", "Keep", inside)).facts] == ["Age: Old."]


@pytest.mark.parametrize("sort", ["loot", "weapon", "feat", "vehicle", "npc", "spell"])
@pytest.mark.parametrize(
    "system",
    [
        {"description": {"value": "<p>Sharp.</p>", "chat": ""}},
        {"description": "<p>Sharp.</p>"},
        {"description": "", "notes": {"value": "Sharp."}},
    ],
)
def test_an_item_of_any_type_keeps_its_description(
    sort: str, system: dict[str, Any]
) -> None:
    item = {"_id": "i", "name": "Blade", "type": sort, "system": system, "effects": []}
    got = read(item | {"ownership": {"default": 2}})
    assert entity(got, "blade").kind is EntityKind.ITEM
    assert facts_about(got, "blade") == ["Sharp."]


def test_what_an_item_keeps_from_players_is_a_secret() -> None:
    described = {"value": "<p>A ring.</p>", "gm": "<p>It is cursed.</p>"}
    item = {
        "_id": "i", "_key": "!items!i", "name": "Ring", "type": "equipment",
        "ownership": {"default": 3}, "system": {"description": described},
    }  # fmt: skip
    reach = {x.text: x.reach for x in read(item).facts}
    assert reach == {"A ring.": EVERYONE, "It is cursed.": SECRET}
    unknown = {"description": described, "identified": False}
    assert {x.reach for x in read(item | {"system": unknown}).facts} == {SECRET}


def test_everything_of_an_adventure_is_imported_or_named() -> None:
    got = read(
        {
            "_id": "a", "name": "Barrow", "description": "<p>A deep barrow.</p>",
            "journal": [journal("j", "Inn", page("p", "Inn", "<p>Warm.</p>"))],
            "items": [{"_id": "i", "name": "Key", "type": "loot", "system": {}}],
            "macros": [{"_id": "m", "name": "Boo", "command": ""}],
            "cards": [{"_id": "c", "name": "Tarot"}], "actors": [], "combats": [],
        }
    )  # fmt: skip
    assert {x.id for x in got.entities} == {"barrow", "inn", "key"}
    assert {x.split(": ")[1] for x in skipped(got)} == {"macro 'Boo'", "cards 'Tarot'"}
