"""Characters that are invisible, or that control how text is displayed. Pure.

There are two functions for two places. On a terminal such characters are removed
(`harmless`): the words of a model or a server must not control or reorder anything
there. Where a person decides about a text they are made visible (`visible`): the person
must see everything that a model would read.

Letters of every script pass both, also those of right-to-left scripts: a terminal
orders them itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Combining marks on one letter, beyond which they cover the lines above and below. The
# scripts that need most, with vowels and accents, need fewer.
MOST_MARKS: Final = 6

# In the category of format characters, but visible: signs around numbers.
_SEEN: Final = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
    "\U000110bd\U000110cd"
)
# They join letters or keep them apart: Persian and emoji need them.
_JOINERS: Final = frozenset("\u200c\u200d")
# Blank, although their category is that of letters, marks or symbols.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)
_MARKS: Final = ("Mn", "Me")
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]{2,}")
_SUSPECT: Final = re.compile(r"[^\n\t -~]")


def harmless(text: str) -> str:
    """Return words of a model, tool or server, safe to write to a terminal.

    Removed are controls except line feed and tab, characters that change the direction
    of text, tag characters, halves of surrogate pairs, and excess combining marks.
    """
    if _SUSPECT.search(text) is None:
        return text
    kept: list[str] = []
    marks = 0
    for char in text:
        if " " <= char <= "~" or char in "\n\t":
            marks = 0
        else:
            kind = unicodedata.category(char)
            marks = marks + 1 if kind in _MARKS else 0
            if kind in ("Zl", "Zp"):
                char = " "
            elif marks > MOST_MARKS or _steers(char, kind):
                continue
        kept.append(char)
    return "".join(kept)


def _steers(char: str, kind: str) -> bool:
    if kind == "Cf":
        return char not in _SEEN and char not in _JOINERS
    return kind in ("Cc", "Cs")


def visible(text: str) -> str:
    """Return the text with every hidden character as a mark such as ``⟨U+202E⟩``.

    Line ends stay. Tag characters, which spell invisible ASCII, are written out.
    """
    if _SUSPECT.search(text) is None:
        return text
    shown: list[str] = []
    marks = at = 0
    for run in _TAGS.finditer(text):
        marks = _show(text[at : run.start()], shown, marks)
        said = "".join(chr(ord(char) - 0xE0000) for char in run[0])
        shown.append(f"⟨hidden tag characters: {said}⟩")
        at = run.end()
    _show(text[at:], shown, marks)
    return "".join(shown)


def _show(text: str, shown: list[str], marks: int) -> int:
    for char in text:
        kind = unicodedata.category(char)
        marks = marks + 1 if kind in _MARKS else 0
        hidden = char not in "\n\t" and (_is_hidden(char, kind) or marks > MOST_MARKS)
        shown.append(f"⟨U+{ord(char):04X}⟩" if hidden else char)
    return marks


def _is_hidden(char: str, kind: str) -> bool:
    """Return True if a person sees nothing, or not what a model reads."""
    code = ord(char)
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return True  # variation selectors of the character before
    if kind == "Cf":
        return char not in _SEEN
    if kind == "Zs":
        return char not in (" ", "\u3000")  # the ideographic space is visible
    return char in _BLANK or kind in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
