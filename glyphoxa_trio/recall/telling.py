"""Tell a turn what was fetched for it: five parts, each within its budget. No I/O.

A part tells what is there. If a piece of it is late or could not be had, the part is
named in `Gathered.missed` as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from datetime import tzinfo
from itertools import islice
from typing import Any, Final

import attrs

from glyphoxa_trio.config.memory import RecallConfig
from glyphoxa_trio.memory.contract import FoundFact, FoundLine, FoundLines
from glyphoxa_trio.memory.knowledge import Fact, Identity
from glyphoxa_trio.memory.words import words_of
from glyphoxa_trio.npc.hot_context import Gathered, Moment

from .fetching import (
    MOST_PINNED,
    PINNED,
    RECENT,
    SELF,
    MemoryFetcher,
    NotFetched,
    Subject,
    entity_key,
    facts_key,
    lines_key,
)
from .ranking import by_worth, worth
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
    summary_lines,
    tokens_of,
)

IDENTITY: Final = "memory: identity"
RELATIONSHIPS: Final = "memory: relationships"
SUMMARIES: Final = "memory: summaries"
TRANSCRIPT: Final = "memory: transcript"
FACTS: Final = "memory: facts"

# Lines of each part; a provider may give forty in all.
_MOST_IDENTITY: Final = 8 + MOST_PINNED
_MOST_RELATIONSHIPS: Final = 8
_MOST_SUMMARIES: Final = 8
_MOST_TRANSCRIPT: Final = 12
_MOST_FACTS: Final = 12
_MOST_FOUND: Final = 4  # lines that were said, in the part of facts
_NO_ONE: Final = Subject()
# Without a question, a fact that is found counts if its words are rare: one that is in
# at most four facts, or several that are in more.
_RARE: Final = 0.4


@attrs.define(eq=False, kw_only=True)
class Telling:
    """The lines of one moment. ``now`` is Unix time."""

    fetcher: MemoryFetcher
    moment: Moment
    config: RecallConfig
    now: float
    zone: tzinfo | None = None
    # What is told, and what the budgets had no room for, each with the part it is of.
    told: list[tuple[str, Saying]] = attrs.field(factory=list, init=False)
    untold: list[tuple[str, Saying]] = attrs.field(factory=list, init=False)
    _faults: list[str] = attrs.field(factory=list, init=False)
    _missed: list[tuple[str, str]] = attrs.field(factory=list, init=False)
    # What is told by now, so that it is told once.
    _facts: set[int] = attrs.field(factory=set, init=False)
    _words: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _evenings: set[str] = attrs.field(factory=set, init=False)
    _left: int = attrs.field(default=0, init=False)  # tokens
    _said: set[tuple[str, int]] = attrs.field(factory=set, init=False)

    def gathered(self) -> Gathered:
        """Return the lines of all parts, in their order."""
        config, calendar = self.config, self._calendar()
        self._left = config.total
        if config.identity:
            own = self._identity_lines(calendar)
            self._tell(IDENTITY, own, config.identity, _MOST_IDENTITY)
        if config.relationships:
            related = self._relationships()
            self._tell(
                RELATIONSHIPS, related, config.relationships, _MOST_RELATIONSHIPS
            )
        if config.summaries:
            told = self._summaries(calendar)
            self._tell(SUMMARIES, told, config.summaries, _MOST_SUMMARIES)
        if config.facts:
            self._tell(FACTS, self._known(calendar), config.facts, _MOST_FACTS)
        if config.transcript:
            said = self._transcript(calendar)
            self._tell(TRANSCRIPT, said, config.transcript, _MOST_TRANSCRIPT)
        return Gathered(tuple(str(x) for _, x in self.told), tuple(self._missed))

    def _tell(
        self, part: str, sayings: Iterable[Saying], tokens: int, most: int
    ) -> None:
        sayings = list(sayings)
        kept = fitting(sayings, min(tokens, self._left), most=most)
        self._left -= tokens_of(kept)
        self._facts |= {saying.fact for saying in kept}
        self.told += [(part, saying) for saying in kept]
        self.untold += [(part, saying) for saying in sayings[len(kept) :]]
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

    def _identity_lines(self, calendar: Calendar) -> Iterator[Saying]:
        """Yield who the NPC is, then what is pinned, then other facts about it."""
        facts: tuple[Fact, ...] = self._piece(PINNED, ())
        own = self._own()
        rest = iter(self_lines(own, calendar) if own is not None else ())
        yield from islice(rest, 1)
        for fact in facts:
            yield fact_line(fact, calendar, "it is pinned")
        pinned = {fact.id for fact in facts}
        yield from (saying for saying in rest if saying.fact not in pinned)

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
            yield entity_line(speaker.entity, "the player who speaks")
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

    def _summaries(self, calendar: Calendar) -> list[Saying]:
        """Return what is remembered of earlier evenings: of the last one all, of the
        others what fits the words, and then what is newest."""
        evenings = [x for x in calendar.evenings if x.summary]
        tokens = min(self.config.summaries, self._left)
        try:
            query = self.fetcher.subject(self.moment.text, self.moment.speaker).query
        except Exception:  # border: without the names, the newest are told
            query = ""
        told = summary_lines(evenings, calendar, query, tokens)
        self._words = frozenset(word for x in told for word in words_of(x.text))
        self._evenings = {x.id for x in evenings}
        return told

    def _transcript(self, calendar: Calendar) -> list[Saying]:
        """Return what was said last on earlier evenings that have no summary."""
        lines: tuple[FoundLine, ...] = self._piece(RECENT, ())
        untold = [
            line
            for line in self._unsaid(lines)
            if line.line.evening not in self._evenings
        ]
        tokens = min(self.config.transcript, self._left)
        return said_lines(
            untold, calendar, self.moment.npc, tokens, most=_MOST_TRANSCRIPT
        )

    def _unsaid(self, lines: Iterable[FoundLine]) -> list[FoundLine]:
        """Return the lines that neither the conversation has nor another part."""
        lines = [x for x in lines if (x.session, x.n) not in self._said]
        if not lines:
            return []
        said = self.moment.said()
        return [line for line in lines if line.line.text not in said]

    def _known(self, calendar: Calendar) -> Iterator[Saying]:
        """Yield what is known of what is named or asked."""
        # All pieces first, so that one that is late is reported even if the budget is
        # used up without it.
        subject = self._subject()
        named = self._identities(subject.entities)
        speakers = self._identities(subject.speakers)
        found: list[FoundFact] = []
        lines: list[FoundLine] = []
        if subject.query:
            found = self._piece(facts_key(subject.query), [])
            lines = self._found_lines(subject)
        by_words = f"has words of \u201c{subject.query}\u201d"
        # A keyword counts as in a lorebook, however frequent it is.
        said = set(words_of(self.moment.text))
        keyed = {x.fact.id for x in found if _is_keyed(x.fact, said)}
        found = sorted(
            found,
            key=lambda x: (x.fact.id not in keyed, -x.score * worth(x.fact, self.now)),
        )
        facts = [
            (x.fact, by_words)
            for x in found
            if subject.asked or x.score >= _RARE or x.fact.id in keyed
        ]
        facts += [
            (fact, f"about {known.entity.id!r}, {how}")
            for identities, how in ((named, "who is named"), (speakers, "who speaks"))
            for known in identities
            for fact in by_worth(known.facts, self.now)
        ]
        for known in named:
            yield entity_line(known.entity, "it is named")
        if not subject.reference.past:
            yield from self._new(facts, calendar)
        for line in lines:
            near = f"{by_words}, or stands beside such a line"
            yield said_line(line, calendar, self.moment.npc, near)
        if subject.reference.past:
            yield from self._new(facts, calendar)

    def _new(
        self, facts: Iterable[tuple[Fact, str]], calendar: Calendar
    ) -> Iterator[Saying]:
        told = set(self._facts)
        for fact, why in facts:
            if fact.id not in told and not self._words.issuperset(words_of(fact.text)):
                told.add(fact.id)
                yield fact_line(fact, calendar, why)

    def _found_lines(self, subject: Subject) -> list[FoundLine]:
        """Return what was said of it earlier: questions with their answers."""
        found: FoundLines = self._piece(lines_key(subject), FoundLines())
        try:
            before = self.fetcher.before()
        except Exception as error:  # border: a store may fail in any way
            self._fault(error)
            return []
        told: list[FoundLine] = []
        for line in found.lines:
            if len(told) >= _MOST_FOUND:
                break
            near = self.fetcher.beside(line)
            earlier = [x for x in near if before is None or x.at < before]
            for one in self._unsaid(earlier):
                self._said.add((one.session, one.n))
                told.append(one)
        return told


def _is_keyed(fact: Fact, said: set[str]) -> bool:
    """Return True if all words of one of its keywords were said."""
    return any(said.issuperset(words_of(x)) for x in fact.keywords)
