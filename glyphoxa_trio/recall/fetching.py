"""Fetch what memory knows of one utterance to one NPC: each piece once.

The same pieces are fetched ahead, while a player still speaks, and for the turn. Who
needs a piece that is being fetched waits for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from inspect import isawaitable
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.memory.contract import FoundFact, FoundLine, FoundLines, Memory
from glyphoxa_trio.memory.entries import Evening
from glyphoxa_trio.memory.errors import QueryRefused, UnknownItem
from glyphoxa_trio.memory.knowledge import Fact, Identity
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.memory.words import COMMON, words_in_query
from glyphoxa_trio.npc.phrases_standard import PAST_KEYWORDS

from .names import NameIndex, NameMatch
from .references import Reference, reference_in

MOST_ENTITIES: Final = 4  # that were named last
MOST_EVENINGS: Final = 60
MOST_PINNED: Final = 12
_MOST_LINES: Final = 12
_MOST_FACTS: Final = 24  # of which those that count most are told
_MOST_TEXT: Final = 800  # characters of an utterance that are searched for
_MOST_BESIDE: Final = 2  # lines that were found, with what was said beside them
_ANSWERED: Final = 120.0  # seconds within which a line is answered
# Words of a question that say nothing of its subject.
_NOT_TELLING: Final = COMMON | frozenset(
    " ".join((*PAST_KEYWORDS, "say said tell told know knew think happened")).split()
)

SELF: Final = "self"
PINNED: Final = "pinned"
NAMES: Final = "names"
EVENINGS: Final = "evenings"
RECENT: Final = "recent"


class NotFetched(Exception):
    """A piece is not there yet."""


@attrs.define(eq=False)
class _Piece:
    done: trio.Event = attrs.field(factory=trio.Event)
    value: Any = None
    error: Exception | None = None


@attrs.define(eq=False)
class FetchedPieces:
    """FetchedPieces that were fetched, or are being fetched, by key."""

    began: float = attrs.field(factory=trio.current_time)
    _pieces: dict[Hashable, _Piece] = attrs.field(factory=dict)

    async def fetch(self, key: Hashable, work: Callable[[], Awaitable[Any]]) -> None:
        """Fetch a piece unless it is there; wait if another task fetches it.

        An `Exception` of ``work`` is kept for `get`; the next call tries again.
        """
        while True:
            piece = self._pieces.get(key)
            if piece is None or piece.error is not None:
                break
            await piece.done.wait()
            if self._pieces.get(key) is piece:  # else it was cancelled
                return
        piece = self._pieces[key] = _Piece()
        fetched = False
        try:
            piece.value = await work()
            fetched = True
        except Exception as error:  # border: a store may fail in any way
            piece.error = error
            fetched = True
        finally:
            if not fetched:
                del self._pieces[key]
            piece.done.set()

    def get(self, key: Hashable) -> Any:
        """Return a piece.

        Raises:
          NotFetched: it is not there yet.
          Exception: what `fetch` failed with.
        """
        piece = self._pieces.get(key)
        if piece is None or not piece.done.is_set():
            raise NotFetched(key)
        if piece.error is not None:
            raise piece.error
        return piece.value


@attrs.frozen(kw_only=True)
class Wanted:
    """The parts to fetch: ``own``: the NPC's identity. ``earlier``: what was said on
    earlier evenings. ``named``: what is named or asked."""

    own: bool = True
    earlier: bool = True
    named: bool = True


@attrs.frozen(kw_only=True)
class Subject:
    """The subject of an utterance.

    Args:
      entities: the ids of those named last, at most four, the last one first.
      speakers: the ids of the speaker's own entity, if it has one.
      reference: whether it refers to the past.
      query: its telling words; "" if it has none.
    """

    entities: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    reference: Reference = attrs.field(factory=Reference)
    query: str = ""

    @property
    def asked(self) -> bool:
        """True if it names or asks for something; otherwise only rare words count."""
        return bool(self.entities) or self.reference.asks


@attrs.frozen(eq=False, kw_only=True)
class MemoryFetcher:
    """Fetches for one NPC, with its eyes.

    Args:
      since: returns the time since which the NPC's conversation has everything itself;
        None means the beginning of the session's running evening.
    """

    memory: Memory
    campaign: CampaignKey
    viewer: Viewer
    npc: str
    session: str
    pieces: FetchedPieces
    names: Callable[[CampaignKey], NameIndex | Awaitable[NameIndex]]
    since: float | None = None
    _subjects: dict[tuple[str, str], Subject] = attrs.field(factory=dict, init=False)

    async def fetch(self, text: str, speaker: str, wanted: Wanted) -> None:
        """Fetch all pieces at once that are wanted for these words."""
        async with trio.open_nursery() as nursery:
            if wanted.own:
                nursery.start_soon(self.pieces.fetch, SELF, self._self)
                nursery.start_soon(self.pieces.fetch, PINNED, self._pinned)
            if wanted.earlier or wanted.named:
                nursery.start_soon(self.pieces.fetch, EVENINGS, self._evenings)
            if wanted.earlier:
                nursery.start_soon(self.pieces.fetch, RECENT, self._recent)
            if wanted.named:
                await self.pieces.fetch(NAMES, self._names)
                try:
                    subject = self.subject(text, speaker)
                except Exception:  # border: the names could not be had
                    return
                for entity in (*subject.entities, *subject.speakers):
                    work = partial(self._identity, entity)
                    nursery.start_soon(self.pieces.fetch, entity_key(entity), work)
                if query := subject.query:
                    facts = partial(self._facts, query)
                    nursery.start_soon(self.pieces.fetch, facts_key(query), facts)
                    nursery.start_soon(self._search, subject)

    def subject(self, text: str, speaker: str) -> Subject:
        """Return what an utterance is about.

        Raises:
          NotFetched: the names are not there yet.
          Exception: the names could not be had.
        """
        known = self._subjects.get((text, speaker))
        if known is None:
            known = self._subject(text[-_MOST_TEXT:], speaker)
            self._subjects[text, speaker] = known
        return known

    def _subject(self, text: str, speaker: str) -> Subject:
        names: NameIndex = self.pieces.get(NAMES)
        found = [x.entity for x in reversed(names.find(text, self.viewer))]
        speakers = self._called(speaker, names)
        known = {*speakers, *self._called(self.npc, names)}
        entities = [x for x in dict.fromkeys(found) if x not in known]
        return Subject(
            entities=tuple(entities[:MOST_ENTITIES]),
            speakers=speakers[:1],
            reference=reference_in(text),
            query=_query_of(names.corrected(text, self.viewer) or text),
        )

    def _called(self, name: str, names: NameIndex) -> tuple[str, ...]:
        """Return the entities that have this name, or begin with it."""
        found = names.find(name, self.viewer)
        written = (x.entity for x in found if x.match is not NameMatch.SIMILAR)
        return tuple(dict.fromkeys(written))

    def before(self) -> float | None:
        """Return the time before which lines are no part of the conversation."""
        if self.since is not None:
            return self.since
        running = self._running(self.pieces.get(EVENINGS))
        return None if running is None else running.began

    def earlier(self) -> tuple[Evening, ...]:
        """Return the evenings before the running one, newest first."""
        evenings: tuple[Evening, ...] = self.pieces.get(EVENINGS)
        running = self._running(evenings)
        return tuple(
            x
            for x in evenings
            if running is None or (x is not running and x.began <= running.began)
        )

    def _running(self, evenings: tuple[Evening, ...]) -> Evening | None:
        mine = (x for x in evenings if x.session == self.session and x.ended is None)
        return next(mine, None)

    async def _names(self) -> NameIndex:
        found = self.names(self.campaign)
        return await found if isawaitable(found) else found

    async def _self(self) -> Identity | None:
        if (found := await self._identity(self.npc)) is not None:
            return found
        # An NPC that is configured as "Bartok" may be "Bartok the Barkeep" here.
        await self.pieces.fetch(NAMES, self._names)
        called = self._called(self.npc, self.pieces.get(NAMES))
        return await self._identity(called[0]) if called else None

    async def _pinned(self) -> tuple[Fact, ...]:
        graph = self.memory.graph
        return await graph.pinned(self.campaign, self.viewer, limit=MOST_PINNED)

    async def _identity(self, entity: str) -> Identity | None:
        graph = self.memory.graph
        try:
            return await graph.identity(self.campaign, self.viewer, entity)
        except UnknownItem:
            return None

    async def _evenings(self) -> tuple[Evening, ...]:
        transcripts = self.memory.transcripts
        return await transcripts.evenings(
            self.campaign, self.viewer, limit=MOST_EVENINGS
        )

    async def _recent(self) -> tuple[FoundLine, ...]:
        await self.pieces.fetch(EVENINGS, self._evenings)
        return await self.memory.transcripts.recent(
            self.campaign, self.viewer, before=self.before(), limit=_MOST_LINES
        )

    async def _facts(self, query: str) -> tuple[FoundFact, ...]:
        graph = self.memory.graph
        return await graph.facts(self.campaign, self.viewer, query, limit=_MOST_FACTS)

    async def _lines(self, subject: Subject) -> FoundLines:
        return await self.memory.transcripts.search(
            self.campaign,
            self.viewer,
            subject.query,
            rare=not subject.asked,
            limit=2 * _MOST_LINES,
        )

    async def _search(self, subject: Subject) -> None:
        """Fetch the lines that a subject finds, and those beside the first of them."""
        key = lines_key(subject)
        await self.pieces.fetch(key, partial(self._lines, subject))
        try:
            found: FoundLines = self.pieces.get(key)
        except Exception:  # border: they could not be had
            return
        async with trio.open_nursery() as nursery:
            for line in found.lines[:_MOST_BESIDE]:
                work = partial(self._beside, line)
                nursery.start_soon(self.pieces.fetch, _beside_key(line), work)

    def beside(self, found: FoundLine) -> tuple[FoundLine, ...]:
        """Return a line with the one that it answers, or that answers it; alone if
        these were not fetched."""
        try:
            near: tuple[FoundLine, ...] = self.pieces.get(_beside_key(found))
        except Exception:  # border: the line alone is as good
            return (found,)
        return near

    async def _beside(self, found: FoundLine) -> tuple[FoundLine, ...]:
        near = await self.memory.transcripts.beside(
            self.campaign, self.viewer, found.session, found.n
        )
        asked = [x for x in near if x.n < found.n and _answers(found, x)]
        answers = [x for x in near if x.n > found.n and _answers(x, found)]
        return (*asked, found, *answers)


def entity_key(entity: str) -> Hashable:
    """Return the key of an entity's identity."""
    return "entity", entity


def facts_key(query: str) -> Hashable:
    """Return the key of the facts that a query finds."""
    return "facts", query


def lines_key(subject: Subject) -> Hashable:
    """Return the key of the lines that a subject finds."""
    return "lines", subject.query, subject.asked


def _answers(found: FoundLine, asked: FoundLine) -> bool:
    """Return True if a line may answer the one before it: somebody else says it soon
    after, who was addressed, or addresses who spoke, or nobody was addressed."""
    line, before = found.line, asked.line
    return (
        line.speaker != before.speaker
        and found.at - asked.at <= _ANSWERED
        and (
            line.speaker == before.to
            or line.to == before.speaker
            or not (line.to or before.to)
        )
    )


def _beside_key(line: FoundLine) -> Hashable:
    return "beside", line.session, line.n


def _query_of(text: str) -> str:
    try:
        _, telling = words_in_query(text)
    except QueryRefused:
        return ""
    return " ".join(word for word in telling if word not in _NOT_TELLING)
