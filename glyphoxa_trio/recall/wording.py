"""Put what memory knows into lines for a prompt, within a budget of tokens. Pure.

Names and texts from memory are data: each is quoted, in one line, and cannot end its
own quotation. A token counts as four characters.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final

import attrs

from glyphoxa_trio.memory.contract import FoundLine
from glyphoxa_trio.memory.entries import Evening
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    Fact,
    Identity,
    Neighbour,
    Provenance,
    Standing,
)
from glyphoxa_trio.memory.words import COMMON, words_of
from glyphoxa_trio.npc.overheard import one_line

from .ranking import by_worth

_TOKEN: Final = 4  # characters
_LONGEST_TEXT: Final = 700  # characters of one quotation
_LONGEST_NAME: Final = 100
_LONGEST_VALUE: Final = 60
_MOST_ATTRIBUTES: Final = 6
_STEM: Final = 5  # letters
_QUOTES: Final = str.maketrans(dict.fromkeys('"\u201c\u201d\u201e\u00ab\u00bb', "'"))
_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[\u3002\uff01\uff1f])|\s*\n\s*")
_COUNTS: Final = (
    *("Two", "Three", "Four", "Five", "Six", "Seven"),
    *("Eight", "Nine", "Ten", "Eleven", "Twelve"),
)
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


@attrs.frozen
class Saying:
    """One line: a quotation, and what is before and after it.

    ``fact`` is the id of the fact that it tells; 0 if it tells none. ``why`` says for
    people where it is from, and why it is told.
    """

    before: str
    text: str = ""
    after: str = ""
    fact: int = 0
    why: str = ""

    def __str__(self) -> str:
        quoted = f"\u201c{self.text}\u201d" if self.text else ""
        return f"{self.before}{quoted}{self.after}"

    def cut(self, characters: int) -> Saying | None:
        """Return the line with as many whole sentences as fit; None if none does."""
        sentences = _SENTENCE.split(self.text)
        while len(sentences) > 1:
            sentences.pop()
            shorter = attrs.evolve(self, text=" ".join([*sentences, "…"]))
            if len(str(shorter)) <= characters:
                return shorter
        return None


def fitting(sayings: Iterable[Saying], tokens: int, *, most: int) -> list[Saying]:
    """Return the first lines that fit, at most ``most`` of them.

    The last one ends with a whole sentence.
    """
    left, kept = tokens * _TOKEN, list[Saying]()
    for saying in sayings:
        if len(kept) == most:
            break
        if len(str(saying)) > left:
            if (shorter := saying.cut(left)) is not None:
                kept.append(shorter)
            break
        kept.append(saying)
        left -= len(str(saying)) + 1
    return kept


def tokens_of(sayings: Iterable[Saying]) -> int:
    """Return how many tokens these lines count for."""
    return -(-sum(len(str(saying)) + 1 for saying in sayings) // _TOKEN)


@attrs.frozen(kw_only=True)
class Calendar:
    """The dates of a campaign's evenings, as people say them.

    Args:
      now: Unix time.
      zone: the time zone of the dates; None is that of this machine.
      evenings: the evenings that are over, the newest first.
    """

    now: float
    zone: tzinfo | None = None
    evenings: Sequence[Evening] = ()

    def date(self, at: float) -> str:
        """Return a date such as "12 November"; the year is named if it is another."""
        day = self._day(at)
        year = "" if day.year == self._day(self.now).year else f" {day.year}"
        return f"{day.day} {_MONTHS[day.month - 1]}{year}"

    def when(self, evening: str, at: float) -> str:
        """Return words such as "Two evenings ago, on 12 November"."""
        for number, one in enumerate(self.evenings):
            if one.id == evening:
                return self._evening(number, one.began)
        return f"On {self.date(at)}"

    def _evening(self, number: int, began: float) -> str:
        day, today = self._day(began).date(), self._day(self.now).date()
        if day == today:
            return "Earlier today"
        if day == today - timedelta(days=1):
            return f"Yesterday, on {self.date(began)}"
        if number == 0:
            return f"Last time, on {self.date(began)}"
        count = _COUNTS[number - 1] if number <= len(_COUNTS) else str(number + 1)
        return f"{count} evenings ago, on {self.date(began)}"

    def _day(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, self.zone)


def self_lines(known: Identity, calendar: Calendar) -> Iterator[Saying]:
    """Yield who an NPC is: its entity, and the facts about it, by their worth."""
    entity = known.entity
    others = [one for x in entity.aliases if (one := name(x)) != name(entity.name)]
    called = f", also called {', '.join(others)}" if others else ""
    yield _entity_line(f"You are {name(entity.name)}{called}", entity, "the NPC itself")
    for fact in by_worth(known.facts, calendar.now):
        yield fact_line(fact, calendar, "about the NPC itself")


def entity_line(entity: Entity, why: str = "") -> Saying:
    """Return what an entity is."""
    return _entity_line(f"About {name(entity.name)}", entity, why)


def _entity_line(begin: str, entity: Entity, why: str) -> Saying:
    text, more = quoted(entity.summary), _attributes(entity.attributes)
    claim = _claims(entity.provenance)
    begin = f"{claim}: {begin}" if claim else begin
    why = f"{entity.kind} {entity.id!r}: {why}"
    return Saying(f"{begin}: " if text or more else f"{begin}.", text, more, why=why)


def relationship_line(known: Identity, neighbour: Neighbour) -> Saying:
    """Return a relationship between an entity and its direct neighbour."""
    edge = neighbour.relationship
    ends = name(known.entity.name), name(neighbour.entity.name)
    source, target = ends if edge.source == known.entity.id else reversed(ends)
    kind = quoted(edge.type.replace("_", " "), most=_LONGEST_VALUE)
    claim = _claims(edge.provenance)
    more = _attributes(edge.attributes)
    begin = f"{claim}: " if claim else ""
    why = f"relationship of {edge.source!r} and {edge.target!r}"
    return Saying(f"{begin}{source}: {kind} {target}{more}.", why=why)


def fact_line(fact: Fact, calendar: Calendar, why: str = "") -> Saying:
    """Return a fact; a player's claim is marked as that player's claim."""
    known = fact.provenance
    claimed = fact.standing is Standing.CLAIMED
    date = calendar.date(known.at) if known.at else ""
    if known.basis is Basis.AUTHORED:  # the time at which it was written says nothing
        date = ""
    if claim := _claims(known, certain=claimed):
        before, after = f"{claim} that ", f" (on {date})" if date else ""
    else:
        supposed = known.basis is Basis.INFERRED and not known.confirmed
        before = "You suppose: " if supposed else "You know: "
        after = f" (since {date})" if date else ""
    return Saying(before, quoted(fact.text), after, fact.id, f"fact {fact.id}: {why}")


def summary_lines(
    evenings: Sequence[Evening], calendar: Calendar, query: str, tokens: int
) -> list[Saying]:
    """Return what is told of earlier evenings, the newest first, within the tokens.

    The last evening is told whole, if it takes no more than half of them. Then come
    the sentences that have most of the query's words, rare ones first, and then the
    other ones of the newest evenings.
    """
    sentences = [
        (number, sentence, stems)
        for number, evening in enumerate(evenings)
        for sentence, stems in _sentences(evening.summary)
    ]
    asked = _stems(query)
    common = Counter(stem for _, _, stems in sentences for stem in stems & asked)
    worth = {stem: 1 / (1 + math.log(n)) for stem, n in common.items()}
    last = bool(evenings) and 2 * len(evenings[0].summary) <= tokens * _TOKEN

    def rank(at: int) -> tuple[bool, float]:
        number, _, stems = sentences[at]
        fits = sum(worth[stem] for stem in stems & asked)
        return not (last and number == 0), -fits

    most = left = tokens * _TOKEN
    begins = [_remembered(evening, calendar) for evening in evenings]
    shortest = min((len(sentence) for _, sentence, _ in sentences), default=0)
    kept: dict[int, set[int]] = {}
    for at in sorted(range(len(sentences)), key=rank):
        if left < shortest:
            break
        number, sentence, _ = sentences[at]
        begin = 0 if number in kept else len(begins[number])
        cost = begin + len(sentence) + len("… ")
        if cost <= left:
            left -= cost
            kept.setdefault(number, set()).add(at)
    return [
        Saying(
            begins[number],
            quoted(
                " ".join(
                    sentences[at][1]
                    if at - 1 in chosen or not at or sentences[at - 1][0] != number
                    else f"… {sentences[at][1]}"
                    for at in sorted(chosen)
                ),
                most=most,
            ),
            why=f"summary of evening {evenings[number].id!r}: "
            + ("the last one, whole" if last and not number else "what fits the words"),
        )
        for number, chosen in sorted(kept.items())
    ]


def _remembered(evening: Evening, calendar: Calendar) -> str:
    return f"{calendar.when(evening.id, evening.began)}, as you remember it: "


@lru_cache(maxsize=4096)
def _sentences(summary: str) -> tuple[tuple[str, frozenset[str]], ...]:
    # Each turn asks for those of all evenings.
    return tuple((x, _stems(x)) for x in _SENTENCE.split(summary.strip()) if x)


def _stems(text: str) -> frozenset[str]:
    """Return the beginnings of the words of a text, by which forms of one are alike."""
    return frozenset(word[:_STEM] for word in words_of(text) if word not in COMMON)


def said_line(line: FoundLine, calendar: Calendar, npc: str, why: str = "") -> Saying:
    """Return words that were said, with from when they are, as ``npc`` is told."""
    when = calendar.when(line.line.evening, line.at)
    return _said(line, npc, f"{when}, ", why)


def said_lines(
    lines: Sequence[FoundLine], calendar: Calendar, npc: str, tokens: int, *, most: int
) -> list[Saying]:
    """Return the newest lines that fit, in their order; the first of each evening says
    when it was."""
    newest = lines[::-1]
    kept = fitting(_dated(newest, calendar, npc), tokens, most=most)
    shown = newest[: len(kept)][::-1]
    return [
        attrs.evolve(saying, before=dated.before)
        for saying, dated in zip(kept[::-1], _dated(shown, calendar, npc), strict=True)
    ]


def _dated(lines: Sequence[FoundLine], calendar: Calendar, npc: str) -> list[Saying]:
    """Return the lines; the first of each evening says when it was."""
    told: set[str] = set()
    sayings = []
    for line in lines:
        evening = line.line.evening
        new = evening not in told
        told.add(evening)
        when = f"{calendar.when(evening, line.at)}, " if new else ""
        why = "said last on an earlier evening that has no summary"
        sayings.append(_said(line, npc, when, why))
    return sayings


def _said(found: FoundLine, npc: str, when: str, why: str) -> Saying:
    line = found.line
    # A player may bear the name of the NPC: neither is taken for the other.
    own = line.speaker == npc and not line.player
    who = ("you" if when else "You") if own else name(line.speaker)
    if line.speaker == npc and not own:
        who = f"a player called {who}" if when else f"A player called {who}"
    to = ""
    if line.to == npc:
        to = f" to a player called {name(npc)}" if own else " to you"
    elif line.to:
        to = f" to {name(line.to)}"
    words = quoted(line.corrected or line.text)
    why = f"line {found.n} of session {found.session!r}: {why}"
    return Saying(f"{when}{who} said{to}: ", words, why=why)


def _claims(known: Provenance, *, certain: bool = False) -> str:
    """Return the beginning of a claim; "" if it is none, or is confirmed."""
    claimed = certain or (known.basis is Basis.CLAIMED and not known.confirmed)
    return f"{name(known.by) or 'A player'} claims" if claimed else ""


def _attributes(attributes: Mapping[str, Any]) -> str:
    parts = [
        f"{_value(key)}: {_value(value)}"
        for key, value in list(attributes.items())[:_MOST_ATTRIBUTES]
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value[:_MOST_ATTRIBUTES]))
    return quoted(str(value), most=_LONGEST_VALUE)


def name(text: str) -> str:
    """Return a name as it stands in a line."""
    return quoted(text, most=_LONGEST_NAME)


def quoted(text: str, *, most: int = _LONGEST_TEXT) -> str:
    """Return a text as one line in which nothing ends a quotation."""
    return one_line(text.translate(_QUOTES), most=most)
