"""Characters that nobody sees, or that steer who shows them. Pure.

Two answers for two places. On a terminal they are taken out (`harmless`): what a model
or a server says is read there, and must not steer or reorder anything. Where a person
decides about a text they are shown (`visible`): what a model would read has to be seen.

Letters of every script pass both, those that run from right to left too: a terminal
puts them in order by itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Marks upon marks on one letter, beyond which lines above and below are painted over.
# The scripts that need most, with vowels and accents, stay below.
MOST_MARKS: Final = 6

# Of the category of format characters, but they can be seen: signs around numbers.
_SEEN: Final = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
    "\U000110bd\U000110cd"
)
# They join letters or keep them apart: Persian and emoji are spelt with them.
_JOINERS: Final = frozenset("\u200c\u200d")
# Blank, though their category is that of letters, marks or symbols.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)
_MARKS: Final = ("Mn", "Me")
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]{2,}")
_SUSPECT: Final = re.compile(r"[^\n\t -~]")


def harmless(text: str) -> str:
    """Words of a model, a tool or a server, harmless for the terminal they go to.

    Controls go, but for the end of a line and a tab; so does what changes the
    direction of text, tag characters, halves of surrogate pairs, and a flood of
    combining marks.
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
    """The text with every hidden character as a mark such as ``⟨U+202E⟩``.

    Ends of lines stay. Tag characters, which spell ASCII that nobody sees, are read
    out.
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
    """Whether a person sees nothing, or something else than what a model reads."""
    code = ord(char)
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return True  # they choose between ways to draw the character before
    if kind == "Cf":
        return char not in _SEEN
    if kind == "Zs":
        return char not in (" ", "\u3000")  # the wide space is seen, and written
    return char in _BLANK or kind in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
