"""Tell a turn what was fetched for it: four parts, each within its budget. No I/O.

A part tells what is there. If a piece of it is late or could not be had, the part is
named in `Gathered.missed` as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from datetime import tzinfo
from itertools import islice
from typing import Any, Final

import attrs

from glyphoxa_trio.config.memory import RecallConfig
from glyphoxa_trio.memory.contract import FoundFact, FoundLine, FoundLines
from glyphoxa_trio.memory.knowledge import Fact, Identity
from glyphoxa_trio.npc.hot_context import Gathered, Moment

from .fetching import (
    RECENT,
    SELF,
    Fetcher,
    NotFetched,
    Subject,
    entity_key,
    facts_key,
    lines_key,
)
from .wording import (
    Calendar,
    Saying,
    entity_line,
    fact_line,
    fitting,
    relationship_line,
    said_line,
    said_lines,
    self_lines,
)

IDENTITY: Final = "memory: identity"
RELATIONSHIPS: Final = "memory: relationships"
TRANSCRIPT: Final = "memory: transcript"
FACTS: Final = "memory: facts"

# Lines of each part; a provider may give forty in all.
_MOST_IDENTITY: Final = 8
_MOST_RELATIONSHIPS: Final = 8
_MOST_TRANSCRIPT: Final = 12
_MOST_FACTS: Final = 12
_MOST_FOUND: Final = 4  # lines that were said, in the part of facts
_NO_ONE: Final = Subject()


@attrs.define(eq=False, kw_only=True)
class Telling:
    """What one moment is told. ``now`` is Unix time."""

    fetcher: Fetcher
    moment: Moment
    config: RecallConfig
    now: float
    zone: tzinfo | None = None
    _faults: list[str] = attrs.field(factory=list, init=False)
    _lines: list[str] = attrs.field(factory=list, init=False)
    _missed: list[tuple[str, str]] = attrs.field(factory=list, init=False)
    # What is told by now, so that it is told once.
    _facts: set[int] = attrs.field(factory=set, init=False)
    _said: set[tuple[str, int]] = attrs.field(factory=set, init=False)

    def gathered(self) -> Gathered:
        """Return the lines of all parts, in their order."""
        config, calendar = self.config, self._calendar()
        if config.identity:
            own = self._own()
            sayings = iter(()) if own is None else self_lines(own, calendar)
            self._tell(IDENTITY, fitting(sayings, config.identity, most=_MOST_IDENTITY))
        if config.relationships:
            related = self._relationships()
            kept = fitting(related, config.relationships, most=_MOST_RELATIONSHIPS)
            self._tell(RELATIONSHIPS, kept)
        if config.transcript:
            self._tell(TRANSCRIPT, self._transcript(calendar))
        if config.facts:
            known = fitting(self._known(calendar), config.facts, most=_MOST_FACTS)
            self._tell(FACTS, known)
        return Gathered(tuple(self._lines), tuple(self._missed))

    def _tell(self, part: str, sayings: list[Saying]) -> None:
        self._facts |= {saying.fact for saying in sayings}
        self._lines += map(str, sayings)
        if self._faults:
            self._missed.append((part, self._faults[0]))
            self._faults.clear()

    # The pieces.

    def _piece(self, key: Hashable, without: Any) -> Any:
        try:
            return self.fetcher.pieces.get(key)
        except Exception as error:  # border: a store may fail in any way
            self._fault(error)
            return without

    def _fault(self, error: Exception) -> None:
        late = isinstance(error, NotFetched)
        self._faults.append("late" if late else type(error).__name__)

    def _calendar(self) -> Calendar:
        """Return the calendar; without evenings it tells dates only."""
        try:
            evenings = self.fetcher.earlier()
        except Exception:  # border: the parts that need evenings report this
            evenings = ()
        return Calendar(now=self.now, zone=self.zone, evenings=evenings)

    def _subject(self) -> Subject:
        try:
            return self.fetcher.subject(self.moment.text, self.moment.speaker)
        except Exception as error:  # border: the names could not be had
            self._fault(error)
            return _NO_ONE

    def _own(self) -> Identity | None:
        own: Identity | None = self._piece(SELF, None)
        return own

    def _identities(self, ids: tuple[str, ...]) -> list[Identity]:
        """Return the identities of these entities, as far as there are any."""
        found = (self._piece(entity_key(x), None) for x in ids)
        return [identity for identity in found if identity is not None]

    # The parts.

    def _relationships(self) -> Iterator[Saying]:
        """Yield who speaks, and how the NPC is related to them and to those named."""
        subject, own = self._subject(), self._own()
        speakers = self._identities(subject.speakers)
        others = [*speakers, *self._identities(subject.entities)]
        for speaker in speakers:
            yield entity_line(speaker.entity)
        if own is None:
            return
        ids = {other.entity.id for other in others}
        told: set[tuple[str, str, str]] = set()
        # From both ends: an identity has only so many neighbours.
        for known, ends in ((own, ids), *((x, {own.entity.id}) for x in others)):
            for neighbour in known.neighbours:
                edge = neighbour.relationship
                key = edge.source, edge.type, edge.target
                direct = neighbour.depth == 1 and neighbour.entity.id in ends
                if direct and key not in told:
                    told.add(key)
                    yield relationship_line(known, neighbour)

    def _transcript(self, calendar: Calendar) -> list[Saying]:
        """Return what was said last on earlier evenings."""
        lines: tuple[FoundLine, ...] = self._piece(RECENT, ())
        told = said_lines(
            lines,
            calendar,
            self.moment.npc,
            self.config.transcript,
            most=_MOST_TRANSCRIPT,
        )
        self._said |= {(x.session, x.n) for x in lines[len(lines) - len(told) :]}
        return told

    def _known(self, calendar: Calendar) -> Iterator[Saying]:
        """Yield what is known of what is named or asked."""
        # All pieces first, so that one that is late is reported even if the budget is
        # used up without it.
        subject = self._subject()
        named = self._identities(subject.entities)
        speakers = self._identities(subject.speakers)
        found: tuple[FoundFact, ...] = ()
        lines: list[FoundLine] = []
        if subject.query:
            found = self._piece(facts_key(subject.query), ())
            lines = self._found_lines(subject.query)
        facts = [one.fact for one in found]
        facts += [fact for known in (*named, *speakers) for fact in known.facts]
        for known in named:
            yield entity_line(known.entity)
        if not subject.reference.past:
            yield from self._new(facts, calendar)
        for line in lines:
            yield said_line(line, calendar, self.moment.npc)
        if subject.reference.past:
            yield from self._new(facts, calendar)

    def _new(self, facts: list[Fact], calendar: Calendar) -> Iterator[Saying]:
        told = set(self._facts)
        for fact in facts:
            if fact.id not in told:
                told.add(fact.id)
                yield fact_line(fact, calendar)

    def _found_lines(self, query: str) -> list[FoundLine]:
        found: FoundLines = self._piece(lines_key(query), FoundLines())
        try:
            before = self.fetcher.before()
        except Exception as error:  # border: a store may fail in any way
            self._fault(error)
            return []
        earlier = (
            line
            for line in found.lines
            if (before is None or line.at < before)
            and (line.session, line.n) not in self._said
        )
        return [*islice(earlier, _MOST_FOUND)]
