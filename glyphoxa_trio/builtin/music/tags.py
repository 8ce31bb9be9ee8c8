"""Moods in the tags of a file of any format: genre, mood, comment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from .moods import folded

# The names in ID3, MP4, Vorbis and APE, in lower case.
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
_LONGEST_COMMENT: Final = 100  # characters; a longer comment is no list of moods
_MOST_WORDS: Final = 3  # of a mood in a comment
_MOST: Final = 20  # moods of one file


class UnreadableFile(Exception):
    """The file does not have the format that its name says."""


def moods_in_tags(path: Path) -> tuple[str, ...]:
    """Return the moods in a file's tags; none if it has no tags.

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
    except Exception as error:  # border: the library reads files of any origin
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
    except Exception:  # border: tags of a format that has none
        return []


def _texts(value: Any) -> list[str]:
    """Return the texts of a frame, which holds a list of them or one."""
    genres = getattr(value, "genres", None)  # of ID3, with its numbers as words
    text = genres if genres is not None else getattr(value, "text", value)
    listed = text if isinstance(text, list | tuple) else [text]
    return [
        x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in listed
    ]
