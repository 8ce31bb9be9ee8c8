"""Which tracks there are, and for which moods: real folders, tags and files. G12."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutagen import id3, wave

from glyphoxa_trio.builtin.music import library as rooms
from glyphoxa_trio.builtin.music.library import Library, read_library
from glyphoxa_trio.builtin.music.moods import LONGEST, folded, nearest_mood

from .tones import tone

# It says nothing of its types.
WAVE: Any = wave.WAVE
COMM: Any = id3.COMM
TCON: Any = id3.TCON
TMOO: Any = id3.TMOO


def tagged(path: Path, *frames: object) -> Path:
    file = WAVE(str(tone(path, 0.1)))
    file.add_tags()
    for frame in frames:
        file.tags.add(frame)
    file.save()
    return path


def moods(library: Library) -> dict[str, list[str]]:
    return {mood: [x.name for x in found] for mood, found in library.moods.items()}


def test_folders_on_the_way_are_moods(tmp_path: Path) -> None:  # G12
    tone(tmp_path / "Tavern_Songs" / "busy" / "a.wav", 0.1)
    tone(tmp_path / "Tavern_Songs" / "b.wav", 0.1)
    (tmp_path / "Tavern_Songs" / "cover.jpg").write_bytes(b"no sound")
    tone(tmp_path / ".hidden" / "c.wav", 0.1)
    found = read_library(tmp_path)
    assert moods(found) == {"busy": ["a.wav"], "tavern songs": ["b.wav", "a.wav"]}
    assert (found.tracks, found.warnings) == (2, ())


def test_tags_are_moods_and_a_comment_if_it_reads_like_a_list(tmp_path: Path) -> None:
    tagged(
        tmp_path / "a.wav",
        TCON(encoding=3, text=["Ambient; Dark"]),
        TMOO(encoding=3, text=["Tense"]),
        COMM(encoding=3, lang="eng", desc="", text=["mood: night, ruins"]),
    )
    tagged(
        tmp_path / "b.wav",
        COMM(encoding=3, lang="eng", desc="", text=["Made by hand in a cold winter"]),
    )
    found = read_library(tmp_path)
    assert sorted(found.moods) == ["ambient", "dark", "night", "ruins", "tense"]
    assert found.warnings == ("1 track has no mood, such as b.wav",)


def test_a_file_of_moods_names_tracks_and_globs(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav", "deep/c.wav"):
        tone(tmp_path / name, 0.1)
    (tmp_path / "moods.yaml").write_text(
        "Boss Fight: [a.wav, 'deep/*']\ncalm: b.wav\nnone: [gone.wav]\n7: [a.wav]\n"
        "odd: [{a: 1}]\n"
    )
    found = read_library(tmp_path)
    assert moods(found) == {
        "boss fight": ["a.wav", "c.wav"],
        "calm": ["b.wav"],
        "deep": ["c.wav"],
    }
    assert found.warnings == (
        "moods.yaml: none: no track 'gone.wav' in the library",
        "moods.yaml: 7: a mood must be text",
        "moods.yaml: odd: must be a list of files",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "it is not YAML: "),
        ("- a", "it must be a map"),
        ("[" * 30_000, "it is not YAML: "),
        ("x" * 300_000, "it has more than 262144 bytes"),
        ("a: !!python/object:os.system x", "it is not YAML: "),
        ("a: \udcff", "it is not YAML: "),
    ],
)
def test_a_file_of_moods_that_is_none_is_a_warning(
    text: str, why: str, tmp_path: Path
) -> None:
    tone(tmp_path / "calm" / "a.wav", 0.1)
    other = tmp_path / "other.yaml"
    other.write_bytes(text.encode("utf-8", "surrogateescape"))
    found = read_library(tmp_path, other)
    assert list(found.moods) == ["calm"]
    (warning,) = found.warnings
    assert warning.startswith(f"other.yaml: ignored, {why}")
    gone = read_library(tmp_path, tmp_path / "gone.yaml").warnings
    assert gone == ("gone.yaml: ignored, No such file or directory",)


def test_broken_files_are_left_out_with_a_warning(tmp_path: Path) -> None:
    tone(tmp_path / "calm" / "a.wav", 0.1)
    (tmp_path / "calm" / "b.mp3").write_bytes(b"no sound at all")
    (tmp_path / "calm" / "c.ogg").write_bytes(b"")
    (tmp_path / "calm" / "d.wav").symlink_to(tmp_path / "gone.wav")
    found = read_library(tmp_path)
    assert moods(found) == {"calm": ["a.wav"]}
    assert [x.split(":")[0] for x in found.warnings] == ["calm/b.mp3", "calm/c.ogg"]
    assert str(tmp_path) not in " ".join(found.warnings)


def test_it_is_read_again_when_a_folder_or_the_file_has_changed(tmp_path: Path) -> None:
    tone(tmp_path / "calm" / "a.wav", 0.1)
    first = read_library(tmp_path)
    assert read_library(tmp_path, known=first) is first
    tone(tmp_path / "calm" / "b.wav", 0.1)
    second = read_library(tmp_path, known=first)
    assert moods(second) == {"calm": ["a.wav", "b.wav"]}
    (tmp_path / "moods.yaml").write_text("dawn: [calm/a.wav]\n")
    third = read_library(tmp_path, known=second)
    assert moods(third)["dawn"] == ["a.wav"]
    (tmp_path / "moods.yaml").unlink()
    assert moods(read_library(tmp_path, known=third)) == moods(second)


def test_a_folder_that_is_not_there_is_a_warning_until_it_comes(tmp_path: Path) -> None:
    folder = tmp_path / "music"
    first = read_library(folder)
    assert first.moods == {}
    assert "No such file" in first.warnings[0]
    tone(folder / "calm" / "a.wav", 0.1)
    assert moods(read_library(folder, known=first)) == {"calm": ["a.wav"]}


def test_depth_and_number_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "MAX_FILES", 3)
    for n in range(5):
        tone(tmp_path / "calm" / f"{n}.wav", 0.1)
    found = read_library(tmp_path)
    assert found.tracks == 3
    assert found.warnings == ("more than 3 tracks: the rest is left out",)
    (tmp_path / "a link").symlink_to(tmp_path / "calm")
    assert list(read_library(tmp_path).moods) == ["calm"]
    deep = tmp_path / "deep"
    tone(deep.joinpath(*"abcdefghij") / "x.wav", 0.1)
    (deep / "a" / "loop").symlink_to(deep)
    assert "more than 8 deep" in read_library(deep).warnings[0]
    monkeypatch.setattr(rooms, "MAX_FOLDERS", 2)
    assert "more than 2 folders" in read_library(deep).warnings[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_a_warning(tmp_path: Path) -> None:
    tone(tmp_path / "calm" / "a.wav", 0.1)
    (tmp_path / "calm").chmod(0)
    assert "Permission denied" in read_library(tmp_path).warnings[0]


def test_without_mutagen_there_are_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mutagen", None)
    tone(tmp_path / "calm" / "a.wav", 0.1)
    tone(tmp_path / "calm" / "b.wav", 0.1)
    found = read_library(tmp_path)
    assert moods(found) == {"calm": ["a.wav", "b.wav"]}
    (text,) = found.warnings
    assert "tags" in text
    assert "pip install 'glyphoxa-trio[tools]'" in text


# Which mood was meant.

THERE = ["battle", "boss battle", "calm", "dungeon", "haunted house", "tavern"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("Battle", "battle"),
        (" BOSS-battle ", "boss battle"),
        ("a great battle at sea", "battle"),
        ("final boss", "boss battle"),
        ("combat", "battle"),
        ("the inn", "tavern"),
        ("taverns", "tavern"),
        ("dungoen", "dungeon"),
        ("something creepy", "haunted house"),
        ("peaceful", "calm"),
        ("disco", None),
        ("", None),
        ("a", None),
    ],
)
def test_the_nearest_mood_is_meant(wanted: str, expected: str | None) -> None:
    assert nearest_mood(wanted, THERE) == expected


@given(st.text(), st.lists(st.text().map(folded)))
def test_one_that_is_there_is_itself_and_no_other_is_made_up(
    wanted: str, there: list[str]
) -> None:
    found = nearest_mood(wanted, there)
    assert found is None or found in there
    assert folded(wanted) not in there or found == folded(wanted)
    assert len(folded(wanted)) <= LONGEST
