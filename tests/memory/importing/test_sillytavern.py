"""SillyTavern's lorebooks and cards as facts, with nothing left out silently (G38)."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.memory.importing import Drafts, ImportRefused
from glyphoxa_trio.memory.importing.archiving import all_facts
from glyphoxa_trio.memory.importing.files import read_text
from glyphoxa_trio.memory.importing.putting import put
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import EntityKind, Fact
from glyphoxa_trio.memory.visibility import EVERYONE, CampaignKey, Reach

from .support import entity, facts_about, read, read_paths, skipped

WORLD: dict[str, Any] = {
    "entries": {
        "0": {
            "uid": 0, "key": ["Sunken Crown", "/cr(o|ow)n/i"], "keysecondary": ["sea"],
            "comment": "Crown", "content": "It drowns its wearer.\n\nIt is cold.",
            "constant": False, "selective": True, "order": 100, "position": 0,
            "probability": 50, "useProbability": True,
        },
        "1": {"key": [], "comment": "Rule", "content": "It always rains.",
              "constant": True, "disable": False},
        "2": {"key": ["moon"], "content": "Off.", "disable": True},
        "3": {"key": ["void"], "comment": "Void", "content": "  "},
        "4": {"key": ["vault"], "content": "The vault is open.",
              "characterFilter": {"isExclude": False, "names": ["Bo"], "tags": []}},
        "5": {"key": ["spy"], "content": "Bo is a spy.",
              "characterFilter": {"isExclude": True, "names": ["Bo"], "tags": []}},
        "6": {"key": ["char"], "content": "{{char}} knows {{user}} since {{date}}."},
        "7": 3,
    }
}  # fmt: skip
CARD: dict[str, Any] = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        "name": "Mirela",
        "nickname": "Mira",
        "description": "{{char}} keeps bees.\n\nShe trusts {{user}}.",
        "personality": "Gentle.",
        "scenario": "",
        "first_mes": "Hello!",
        "system_prompt": "Be Mirela.",
        "tags": ["bees"],
        "character_book": {
            "entries": [
                {
                    "keys": ["hive", "honey"],
                    "content": "{{char}} hides gold in a hive.",
                    "enabled": True,
                    "extensions": {"sticky": 3},
                    "insertion_order": 1,
                }
            ]
        },
    },
}


def picture(*chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG with these chunks of text; no part of it is a picture."""
    made = b"\x89PNG\r\n\x1a\n"
    for keyword, text in (*chunks, (b"", b"")):
        kind, data = (b"tEXt", keyword + b"\0" + text) if keyword else (b"IEND", b"")
        made += struct.pack(">I", len(data)) + kind + data + b"\0\0\0\0"
    return made


def coded(card: Any) -> bytes:
    return base64.b64encode(json.dumps(card).encode())


def test_the_entries_of_a_lorebook_are_facts_with_keywords() -> None:
    got = read(WORLD, "sea.json")
    told = {x.text: (x.keywords, x.pinned, x.reach) for x in got.facts}
    assert told == {
        "It drowns its wearer.": (("Sunken Crown",), False, EVERYONE),
        "It is cold.": (("Sunken Crown",), False, EVERYONE),
        "It always rains.": ((), True, EVERYONE),
        "The vault is open.": (("vault",), False, Reach.of("Bo")),
        "Bo is a spy.": (("spy",), False, Reach(secret=True)),
        "{{char}} knows the player since {{date}}.": (("char",), False, EVERYONE),
    }
    assert {x.provenance.by for x in got.facts} == {"sea.json"}
    left = {f"{x.where}: {x.why}".removeprefix("sea.json: ") for x in got.skipped}
    assert left == {
        "all entries: their order, depth and position do not count",
        "entry 1 'Crown', key '/cr(o|ow)n/i': it is a regular expression",
        "entry 1 'Crown': its secondary keys do not count",
        "entry 1 'Crown': its probability does not count: it is always found",
        "entry 3: it is switched off",
        "entry 4 'Void': it has no content",
        "entry 6: its filter of characters cannot be kept: it is a secret",
        "entry 7: {{char}} stands in it as it is",
        "entry 7: {{date}} stands in it as it is",
        "entry 8: it is not an entry",
    }


@pytest.mark.parametrize("old", [False, True])
def test_a_card_is_an_npc_that_alone_knows_what_it_says(old: bool) -> None:
    got = read(CARD["data"] if old else CARD)
    assert entity(got, "mirela").kind is EntityKind.NPC
    assert entity(got, "mirela").aliases == ("Mira",)
    assert entity(got, "mirela").summary == ""
    assert facts_about(got, "mirela") == [
        "Mirela keeps bees.",
        "She trusts the player.",
        "Gentle.",
        "Mirela hides gold in a hive.",
    ]
    assert {x.reach for x in got.facts} == {Reach.of("Mirela")}
    assert got.facts[-1].keywords == ("hive", "honey")
    left = skipped(got)
    for field in ("first_mes", "system_prompt", "tags"):
        assert f"world.json: card 'Mirela', {field}" in left
    assert left["world.json: entry 1"] == "how long it stays does not count (sticky)"


def test_a_card_is_read_from_a_picture(tmp_path: Path) -> None:
    newer = {**CARD, "data": {**CARD["data"], "name": "Ann"}}
    (tmp_path / "a.png").write_bytes(
        picture((b"Comment", b"x"), (b"chara", coded(CARD)))
    )
    (tmp_path / "b.png").write_bytes(
        picture((b"chara", coded(CARD)), (b"ccv3", coded(newer)))
    )
    (tmp_path / "c.png").write_bytes(picture())
    (tmp_path / "d.png").write_bytes(picture((b"chara", coded(CARD)))[:60])
    got = read_paths(tmp_path)
    assert [x.id for x in got.entities] == ["mirela", "ann"]
    for name in "cd":
        assert skipped(got)[f"{name}.png: the picture"] == "there is no card in it"
    for text in (b"!", coded(CARD)[:41], base64.b64encode(b"\xff\xfe")):
        (tmp_path / "e.png").write_bytes(picture((b"chara", text)))
        with pytest.raises(ImportRefused, match=r"e\.png"):
            read_paths(tmp_path / "e.png")


def test_more_than_a_turn_has_room_for_is_reported() -> None:
    entries = [{"keys": [], "content": f"No. {n}", "constant": True} for n in range(14)]
    got = read({"entries": entries})
    assert len(got.facts) == 14
    assert sum("no room" in x.why for x in got.skipped) == 2


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 200) | st.text("a{}/@ \n", max_size=9),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=4), x),
    max_leaves=5,
)
FIELDS = (
    *("key", "keys", "keysecondary", "comment", "content", "constant", "disable"),
    *("enabled", "characterFilter", "probability", "extensions", "selective"),
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), ANY) | ANY, max_size=4))
def test_each_entry_is_known_or_reported(entries: list[Any]) -> None:
    first = {"key": ["x"], "content": "The first."}
    got = read({"entries": [first, *entries]})
    reported = [x.where for x in got.skipped]
    texts = " ".join(x.text for x in got.facts)
    for number, entry in enumerate(entries, 2):
        content = entry.get("content") if isinstance(entry, dict) else None
        known = isinstance(content, str) and " ".join(content.split()) in texts
        assert known or any(f"entry {number}" in x for x in reported)


async def test_what_an_entry_says_later_is_added_to_its_fact() -> None:
    memory, key = InMemory(), CampaignKey("sea")

    async def imported(**more: Any) -> tuple[Fact, ...]:
        drafts = Drafts()
        drafts.begin("sea.json")
        entry = {"key": ["crown"], "content": "It drowns its wearer.", **more}
        read_text(json.dumps({"entries": [entry]}), Path("sea.json"), drafts, kind=None)
        await put(memory, key, drafts)
        return await all_facts(memory, key)

    (first,) = await imported()
    await memory.graph.put(key, facts=[attrs.evolve(first, keywords=("crown", "tin"))])
    (same,) = await imported()
    (later,) = await imported(key=["crown", "king"], constant=True)
    assert same.keywords == ("crown", "tin")  # by hand
    assert (later.id, later.pinned) == (first.id, True)
    assert later.keywords == ("crown", "tin", "king")
