"""Files of every kind: told by their content, bounded, refused as a whole (G38)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glyphoxa_trio.memory.importing import ImportKind, ImportRefused, data, files
from glyphoxa_trio.memory.importing.files import kind_of
from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import Reach

from .support import entity, facts_about, read, read_paths, skipped

SERVER = {
    "format": "glyphoxa.campaign/1",
    "campaign_id": "camp_1",
    "campaign": {"id": "camp_1", "name": "Nights", "theme_prompt": "Noir."},
    "participants": [{"id": "part_1", "display_name": "Anna", "role": "PLAYER"}],
    "actors": [
        {"id": "actor_1", "name": "Bo", "kind": "NPC", "notes": "He lies."},
        {"id": "actor_2", "name": "Rik", "kind": "PC", "notes": "x",
         "controller": "part_1"},
        {"id": "actor_3", "kind": "NPC"},
        "odd",
    ],
    "sessions": [{"id": "sess_1"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"format": "glyphoxa.memory/1"}, ImportKind.MEMORY),
        (SERVER, ImportKind.CAMPAIGN_SERVER),
        ({"handouts": [], "characters": []}, ImportKind.ROLL20),
        ({"entities": []}, ImportKind.CAMPAIGN),
        ({"_id": "a", "name": "b", "pages": []}, ImportKind.FOUNDRY),
        ([{"_id": "a", "name": "b"}], ImportKind.FOUNDRY),
        ({"anything": 1}, None),
        ([], None),
        ("text", None),
    ],
)
def test_the_content_tells_the_kind(content: Any, kind: ImportKind | None) -> None:
    assert kind_of(content) is kind


def test_documents_of_the_campaign_server_are_read() -> None:
    got = read(SERVER)
    assert {x.id: x.kind for x in got.entities} == {
        "nights": EntityKind.LORE,
        "bo": EntityKind.NPC,
        "rik": EntityKind.PLAYER,
    }
    assert entity(got, "rik").attributes == {"player": "Anna"}
    reach = {x.text: x.reach for x in got.facts}
    assert reach == {
        "Noir.": Reach(secret=True),
        "He lies.": Reach(frozenset({"Bo"}), secret=True),
        "x": Reach(secret=True),
    }
    assert len(skipped(got)) == 3


def test_what_cannot_be_told_asks_for_the_kind() -> None:
    with pytest.raises(ImportRefused, match="--as"):
        read({"anything": 1})
    assert facts_about(
        read({"name": "A", "content": "x"}, kind=ImportKind.FOUNDRY), "a"
    )
    with pytest.raises(ImportRefused, match="not of the kind"):
        read([1], kind=ImportKind.ROLL20)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"handouts": [', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "not JSON"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "world.json"
    path.write_bytes(content)
    with pytest.raises(ImportRefused, match=said):
        read_paths(path)


def test_a_file_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "world.json"
    path.write_text(json.dumps(SERVER))
    with pytest.raises(ImportRefused, match="more than"):
        files.content_of(path, 100)
    assert data.MOST_BYTES == 64 * 2**20
    with pytest.raises(ImportRefused, match="no such file"):
        read_paths(tmp_path / "none.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImportRefused, match="in it"):
        read_paths(tmp_path / "empty")


def test_a_long_paragraph_becomes_several_facts_between_sentences() -> None:
    text = " ".join(f"This is sentence {n} of some words." for n in range(100))
    got = read({"name": "A", "content": text, "_id": "a"})
    told = facts_about(got, "a")
    assert max(map(len, told)) <= 1000
    assert all(x.endswith("words.") for x in told)
    assert " ".join(told) == text


# What the importers look for, in any place and with any value.
_KEYS = """
    _id name pages text content markdown type system details biography value
    ownership permission default items documentName documentClass folder sorting
    token data handouts characters id bio notes gmnotes attributes attribs current
    tags controlledby inplayerjournals journal actors folders $$deleted format
    campaign campaigns entities facts relationships documents npcs quests events"""
KEYS = _KEYS.split()
WORDS = ["npc", "character", "text", "all", "[1]", "JournalEntry", "Actor", "Item"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=20,
)


ANY = set(ImportKind) - {ImportKind.MEMORY}


@example({"type": []}, ImportKind.FOUNDRY)
@given(JSON, st.sampled_from([*sorted(ANY), None]))
def test_any_json_is_imported_or_refused(content: Any, kind: ImportKind | None) -> None:
    try:
        got = read(json.dumps(content), kind=kind)
    except ImportRefused:
        return
    ids = [x.id for x in got.entities]
    assert len(set(ids)) == len(ids)
    assert {y for x in got.facts for y in x.about} <= set(ids)
    assert read(json.dumps(content), kind=kind, existing=got.entities) == got
