"""Moods in the tags of a file, whatever its format: genre, mood, comment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from .moods import folded

# As ID3, MP4, Vorbis and APE name them, in small letters.
_TELLING: Final = (
    "tcon",
    "tmoo",
    "genre",
    "mood",
    "©gen",
    "----:com.apple.itunes:mood",
)
_COMMENTS: Final = ("comm", "comment", "©cmt", "description")
_LIST: Final = re.compile(r"[,;/|\n\0]")
_LONGEST_COMMENT: Final = 100  # characters; beyond it is no list of moods
_MOST_WORDS: Final = 3  # of a mood in a comment
_MOST: Final = 20  # moods of one file


class UnreadableFile(Exception):
    """The file is not what its name says."""


def moods_in_tags(path: Path) -> tuple[str, ...]:
    """The moods that a file's tags name; none if it has no tags.

    Raises:
      Broken: if it cannot be read as sound.
      ImportError: without mutagen.
    """
    import mutagen

    try:
        if path.stat().st_size == 0:
            raise UnreadableFile("it is empty")
        file = mutagen.File(path)
    except UnreadableFile:
        raise
    except OSError as error:
        raise UnreadableFile(error.strerror or type(error).__name__) from None
    except Exception as error:  # border: it reads what anybody wrote
        words = str(error).replace(str(path), path.name)
        raise UnreadableFile(words[:200] or type(error).__name__) from None
    if file is None or file.tags is None:
        return ()
    found: list[str] = []
    for key, value in _items(file.tags):
        name = key.casefold()
        texts = _texts(value)
        if name.startswith(_TELLING):
            found += [part for text in texts for part in _LIST.split(text)]
        elif name.startswith(_COMMENTS):
            for text in texts:
                said = re.sub(r"(?i)^\s*moods?\s*:", "", text)
                parts = _LIST.split(said)
                short = all(len(part.split()) <= _MOST_WORDS for part in parts)
                if len(text) <= _LONGEST_COMMENT and short:
                    found += parts
    moods = dict.fromkeys(folded(text) for text in found)
    moods.pop("", None)
    return tuple(moods)[:_MOST]


def _items(tags: Any) -> Iterable[tuple[str, Any]]:
    try:
        return list(tags.items())
    except Exception:  # border: tags of a format without any
        return []


def _texts(value: Any) -> list[str]:
    """The texts of a frame, a list of them, or one."""
    genres = getattr(value, "genres", None)  # of ID3, with its numbers in words
    text = genres if genres is not None else getattr(value, "text", value)
    listed = text if isinstance(text, list | tuple) else [text]
    return [
        x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in listed
    ]
