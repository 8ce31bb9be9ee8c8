"""Who is meant, when somebody speaks and several NPCs hear it: pure rules (D12a).

In this order: the NPC to which whoever directs the scene has bound everything; the one
that is named, by its full name or by a word that only its name has; the one this player
spoke to last, or else whoever spoke last; the only one there is. An NPC that is muted
is never meant: where it would be, nobody is.

Names are found whatever their case, accents and punctuation, with a possessive as well.
Among several that are named the likelier one is meant: not a possessive ("Bartok's
ale"), set off from the sentence ("Bartok, ..."), the full name, the first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.words import STOP_WORDS, TITLES

_MOST: Final = 2000  # characters of a text that are looked at, from either end
_SETS_OFF: Final = frozenset(",;:!?.\u2013\u2014\u3001\u3002")
_APOSTROPHES: Final = frozenset("'\u2019\u02bc")


class NobodyAddressed(GlyphoxaError):
    """It cannot be told who is meant. Name somebody."""


class NpcMuted(NobodyAddressed):
    """The one who is meant is muted, or all are."""


class Why(StrEnum):
    """How it was told who is meant."""

    CHOSEN = "chosen"  # by whoever calls, not by these rules
    PUPPET = "puppet"
    NAMED = "named"
    LAST = "last"
    ONLY = "only"


@attrs.frozen
class Addressed:
    """The NPC that an utterance is for, and why."""

    npc: str
    why: Why


@attrs.frozen
class _Word:
    """``bare`` is the word without the end of a possessive; the same if it has none."""

    form: str
    bare: str
    begins: int
    ends: int


@attrs.frozen
class _Name:
    """One way to call an NPC. ``common``: in words that sentences are full of, so it
    has to be set off from them."""

    npc: str
    words: tuple[str, ...]
    full: bool
    common: bool


@attrs.frozen
class Names:
    """The names of a scene, compiled: one look-up per word of a text."""

    npcs: tuple[str, ...]
    _by_first: dict[str, list[_Name]] = attrs.field(
        init=False, repr=False, eq=False, factory=dict
    )

    def __attrs_post_init__(self) -> None:
        calls: dict[tuple[str, ...], list[_Name]] = {}
        for npc in self.npcs:
            whole = _forms(_plain(npc))
            ways = dict.fromkeys(map(_forms, _pieces(npc)), False) | {whole: True}
            for words, full in ways.items():
                usual = all(word in STOP_WORDS for word in words)
                common = usual or all(word in STOP_WORDS | TITLES for word in words)
                if words and (full or (not usual and len("".join(words)) > 1)):
                    name = _Name(npc, words, full, common)
                    calls.setdefault(words, []).append(name)
        for words, names in calls.items():
            # What several are called says nothing, unless it is all of one's name.
            if len(names) > 1:
                names = [name for name in names if name.full]
            if len(names) == 1:
                self._by_first.setdefault(words[0], []).extend(names)
        for names in self._by_first.values():
            names.sort(key=lambda name: -len(name.words))

    def named(self, text: str) -> str | None:
        """The NPC that is named, if one is; the likeliest if several are."""
        if len(text) > 2 * _MOST:
            text = f"{text[:_MOST]} {text[-_MOST:]}"
        plain = _plain(text)
        words = _words(plain)
        best: tuple[bool, bool, bool, int] | None = None
        meant, at = None, 0
        while at < len(words):
            name = self._at(words, at)
            if name is None:
                at += 1
                continue
            last = words[at + len(name.words) - 1]
            set_off = _is_set_off(plain, words[at].begins, last.ends)
            if not name.common or set_off:
                possessive = name.words[-1] != last.form
                rank = possessive, not set_off, not name.full, at
                if best is None or rank < best:
                    best, meant = rank, name.npc
            at += len(name.words)
        return meant

    def _at(self, words: Sequence[_Word], at: int) -> _Name | None:
        """The longest name that begins at this word."""
        first = words[at]
        for form in dict.fromkeys((first.form, first.bare)):
            for name in self._by_first.get(form, ()):
                said = words[at : at + len(name.words)]
                if len(said) == len(name.words) and _is_said(name.words, said):
                    return name
        return None


def addressed(
    text: str,
    names: Names,
    *,
    muted: AbstractSet[str] = frozenset(),
    puppet: str | None = None,
    last: Iterable[str | None] = (),
) -> Addressed:
    """Who is meant.

    Args:
      puppet: everything goes to this one.
      last: with whom the talk went on, the likeliest first.

    Raises:
      NpcMuted: the one who is meant is muted, or all are.
      NobodyAddressed: it cannot be told, or nobody is there.
    """
    awake = [npc for npc in names.npcs if npc not in muted]
    if not awake:
        raise (
            NpcMuted("everybody is muted")
            if names.npcs
            else NobodyAddressed("nobody is here")
        )
    if puppet in names.npcs:
        meant = Addressed(puppet, Why.PUPPET)
    elif (named := names.named(text)) is not None:
        meant = Addressed(named, Why.NAMED)
    else:
        before = next((npc for npc in last if npc in awake), None)
        if before is not None:
            return Addressed(before, Why.LAST)
        if len(awake) == 1:
            return Addressed(awake[0], Why.ONLY)
        raise NobodyAddressed(f"who is meant: {', '.join(awake)}?")
    if meant.npc in muted:
        raise NpcMuted(f"{meant.npc} is muted")
    return meant


def _plain(text: str) -> str:
    """Without case and accents. A half of a character stays what it is."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(c for c in apart if not "\u0300" <= c <= "\u036f")
    return unicodedata.normalize("NFKC", kept)


def _words(plain: str) -> list[_Word]:
    """The words; each character is one where no blanks are written between words."""
    found: list[_Word] = []
    at, end = 0, len(plain)
    while at < end:
        begins = at
        at += 1
        if not _is_letter(plain[begins]):
            continue
        while not _stands_alone(plain[begins]) and at < end:
            joins = plain[at] in _APOSTROPHES and at + 1 < end
            letter = plain[at + 1] if joins else plain[at]
            if not _is_letter(letter) or _stands_alone(letter):
                break
            at += 1
        form = plain[begins:at].translate(_STRAIGHT)
        found.append(_Word(form, form.removesuffix("'s") or form, begins, at))
    return found


_STRAIGHT: Final = str.maketrans(dict.fromkeys(_APOSTROPHES, "'"))


def _pieces(name: str) -> list[str]:
    """The parts of a name, between blanks and signs."""
    parts = "".join(
        c if _is_letter(c) or c in _APOSTROPHES else " " for c in _plain(name)
    )
    return parts.split()


def _forms(plain: str) -> tuple[str, ...]:
    return tuple(word.form for word in _words(plain))


def _is_said(wanted: Sequence[str], said: Sequence[_Word]) -> bool:
    *before, last = zip(wanted, said, strict=True)
    return all(word == heard.form for word, heard in before) and last[0] in (
        last[1].form,
        last[1].bare,
    )


def _is_set_off(plain: str, begins: int, ends: int) -> bool:
    """Whether signs or the edges of the text are on both sides."""
    before, after = plain[:begins].rstrip(), plain[ends:].lstrip()
    left = not any(map(_is_letter, before)) or before[-1] in _SETS_OFF
    return left and (not any(map(_is_letter, after)) or after[0] in _SETS_OFF)


def _is_letter(c: str) -> bool:
    return unicodedata.category(c)[0] in "LNM"


def _stands_alone(c: str) -> bool:
    """Of the scripts that are written without blanks, and Hangul, where what marks
    an address is joined to the name."""
    return (
        "\u0e00" <= c <= "\u0eff"  # Thai, Lao
        or "\u1000" <= c <= "\u109f"  # Burmese
        or "\u1780" <= c <= "\u17ff"  # Khmer
        or "\u3040" <= c <= "\u30ff"  # kana
        or "\u3400" <= c <= "\u9fff"  # ideographs
        or "\uac00" <= c <= "\ud7a3"  # Hangul
        or "\uf900" <= c <= "\ufaff"
        or "\U00020000" <= c <= "\U0003ffff"
    )
