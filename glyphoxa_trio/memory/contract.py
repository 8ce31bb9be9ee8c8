"""The contract of a memory store: four parts, which share one database.

All methods are ``async`` and run on trio. A cancelled read stops within a few
milliseconds. A cancelled write is either done as a whole or not at all. Every method
may raise `MemoryUnavailable` or `MemoryUnusable`; other errors are named where they
occur. Visibility is part of every query: a method that takes a ``viewer`` returns
nothing that the viewer may not know, and gives the same answer as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from .entries import Claim, Entry, Evening, Holder, KeptEntry, Line, SessionRow
from .forgotten import ForgottenPlayer
from .knowledge import (
    Entity,
    EntityKind,
    Fact,
    Identity,
    Relationship,
    Standing,
)
from .visibility import CampaignKey, Reach, Viewer

MOST_NEIGHBOURS: Final = 200  # of an identity
MOST_FACTS: Final = 50
MOST_APART: Final = 50  # entries between a line and those beside it


@attrs.frozen(kw_only=True)
class FoundLine:
    """A line that was found. A higher ``score`` is more relevant."""

    session: str
    n: int
    at: float
    line: Line
    snippet: str
    score: float = 0.0


@attrs.frozen(kw_only=True)
class FoundLines:
    """The most relevant lines, best first.

    ``partial``: so many lines match that only the newest 100,000 were ranked.
    """

    lines: tuple[FoundLine, ...] = ()
    partial: bool = False


@attrs.frozen(kw_only=True)
class FoundFact:
    """A fact that was found. A higher ``score`` is more relevant."""

    fact: Fact
    score: float = 0.0


@attrs.frozen(kw_only=True)
class Chunk:
    """A passage of an evening, or a fact, as it is embedded.

    ``reach`` is common to all of its sources. ``id`` is given by the store. ``fact`` is
    the id of the fact that it is; 0 if it is a passage, whose lines are ``lines``.
    """

    text: str
    reach: Reach
    evening: str = ""
    at: float = 0.0
    lines: tuple[tuple[str, int], ...] = ()
    fact: int = 0
    id: int = 0


@attrs.frozen(kw_only=True)
class FoundChunk:
    """A chunk that was found. A higher ``score`` is more similar; 1 is the same."""

    chunk: Chunk
    score: float


@attrs.frozen(kw_only=True)
class Named:
    """A name of an entity, for matchers: who is called so, and who may know it."""

    name: str
    entity: str
    kind: EntityKind
    reach: Reach


@attrs.frozen(kw_only=True)
class Forgotten:
    """The numbers of what was removed."""

    lines: int = 0
    facts: int = 0
    chunks: int = 0
    entities: int = 0
    snapshots: int = 0
    summaries: int = 0


class Journal(Protocol):
    """The entries of all sessions."""

    async def claim(
        self,
        tenant: str,
        session: str,
        campaign: CampaignKey,
        *,
        steal_from: int | None = None,
    ) -> Claim:
        """Claim a session, which begins if it is not known, with the next epoch.

        A holder that is known to be dead loses its claim, and a living one if it made
        it in the epoch ``steal_from``. A session that exists keeps its campaign.

        Raises:
          HeldElsewhere: another living process has it.
        """
        ...

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        """Write entries, all or none, and return the number of the last one.

        When this returns, the entries survive the death of this process. Jobs that were
        written in this claim before, by their keys (`Entry.key`), are left out.

        Raises:
          Fenced: the session was claimed again meanwhile; nothing was written.
        """
        ...

    async def load(self, claim: Claim) -> tuple[KeptEntry, ...]:
        """Return the last snapshot and all entries after it, but lines, in order.

        The claim may be another process's, named by its epoch (`HeldElsewhere`).

        Raises:
          Fenced: the session was claimed again, or given back.
        """
        ...

    async def release(
        self, claim: Claim, *, ended: bool = False, evening: str = "", at: float = 0.0
    ) -> None:
        """Give a claim back. Does nothing if the session was claimed again meanwhile.

        Args:
          ended: the session is over: all of its entries but lines are removed, and the
            next claim begins it anew.
          evening: an evening of it that is over as well, since ``at``; "" for none.
        """
        ...

    async def sessions(self, tenant: str | None = None) -> tuple[SessionRow, ...]:
        """Return all sessions, or a tenant's, the one used last first."""
        ...


class TranscriptStore(Protocol):
    """The lines that were said, by campaign and evening."""

    async def begin_evening(
        self, claim: Claim, at: float, *, within: float | None = None
    ) -> Evening:
        """Begin an evening of a session; one that still goes on ends first.

        ``within``: one whose last line is at most so many seconds old is returned
        instead; an older one ends with that line.
        """
        ...

    async def end_evening(self, campaign: CampaignKey, evening: str, at: float) -> None:
        """End an evening. Ending it twice changes nothing.

        Raises:
          UnknownItem: there is no such evening.
        """
        ...

    async def end_idle(self, *, before: float) -> None:
        """End all evenings, of any session, in which nothing was said since that time:
        each ends with its last line."""
        ...

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        query: str,
        *,
        evening: str = "",
        rare: bool = False,
        limit: int = 10,
    ) -> FoundLines:
        """Return the lines that match the words of ``query``, most relevant first.

        Any text is a valid query: words in any order, nothing in it is syntax. With
        ``rare`` only those that have a word of the query which is rare among the lines
        that the viewer heard, or several that are not frequent.

        Raises:
          QueryRefused: it has no word in it.
        """
        ...

    async def recent(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        evening: str = "",
        session: str = "",
        before: float | None = None,
        limit: int = 20,
    ) -> tuple[FoundLine, ...]:
        """Return the last lines before a time, oldest first.

        ``session`` is the id of a session; ``evening`` that of an evening.
        """
        ...

    async def beside(
        self, campaign: CampaignKey, viewer: Viewer, session: str, n: int
    ) -> tuple[FoundLine, ...]:
        """Return the line of that number, with the last one before and the first one
        after it that the viewer heard in its evening, at most 50 entries away; nothing
        if the viewer did not hear it.
        """
        ...

    async def evenings(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 20
    ) -> tuple[Evening, ...]:
        """Return the evenings that the viewer heard a line of, newest first."""
        ...

    async def evening(
        self, campaign: CampaignKey, viewer: Viewer, evening: str
    ) -> Evening:
        """Return one evening.

        Raises:
          UnknownItem: there is none of that id, or the viewer heard no line of it.
        """
        ...

    async def unsummarised(
        self, *, before: float
    ) -> tuple[tuple[CampaignKey, str], ...]:
        """Return the evenings that ended before that time and have no summary, or whose
        summary was put off until then (`end_lease`)."""
        ...

    async def lease_summary(
        self, campaign: CampaignKey, evening: str, *, before: float | None = None
    ) -> int | None:
        """Lease an evening to summarise it, and return how often that was put off.

        None if a living holder has the lease, be it this one; or, with ``before``, if
        the evening is not `unsummarised` any more. A lease ends with its holder.

        Raises:
          UnknownItem: there is no such evening.
        """
        ...

    async def end_lease(
        self, campaign: CampaignKey, evening: str, *, until: float | None = None
    ) -> None:
        """Give this holder's lease of an evening back, if it still has it.

        ``until``: the work is put off until that time, also if there is a summary now.
        None: it is done.
        """
        ...

    async def set_summary(
        self, campaign: CampaignKey, evening: str, text: str, reach: Reach
    ) -> None:
        """Set the summary of an evening. A reach may be summarised apart from another:
        a summary of the same reach is replaced.

        Raises:
          UnknownItem: there is no such evening.
          ValueError: the reach has topics, or is a secret.
        """
        ...


class SemanticIndex(Protocol):
    """Passages and facts with their embeddings."""

    async def pending(
        self, model: str, *, limit: int = 64
    ) -> tuple[tuple[CampaignKey, Chunk], ...]:
        """Return chunks that have no embedding by that model yet.

        Ended evenings, and accepted facts, are cut into chunks here.
        """
        ...

    async def add(
        self, model: str, vectors: Sequence[tuple[int, Sequence[float]]]
    ) -> None:
        """Set embeddings by chunk id. A chunk that is gone by now is left out.

        Raises:
          QueryRefused: the model's other vectors have another number of dimensions.
        """
        ...

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        model: str,
        vector: Sequence[float],
        *,
        limit: int = 10,
    ) -> tuple[FoundChunk, ...]:
        """Return the chunks that are most similar by cosine, best first."""
        ...

    async def progress(self, model: str) -> tuple[int, int]:
        """Return how many chunks that model has embedded, and how many exist."""
        ...

    async def drop_other_models(self, model: str) -> None:
        """Remove the embeddings of all other models."""
        ...


class KnowledgeGraph(Protocol):
    """Entities, relationships and facts, by campaign."""

    async def put(
        self,
        campaign: CampaignKey,
        *,
        entities: Sequence[Entity] = (),
        relationships: Sequence[Relationship] = (),
        facts: Sequence[Fact] = (),
    ) -> tuple[int, ...]:
        """Add or replace all of these, or none, and return the ids of the facts.

        An entity replaces one of the same id, a relationship one of the same ends and
        type, a fact one of the same ``id``. A fact with ``id`` 0 that exists already,
        as `is_that_fact` says, is not changed: its id is returned.

        Raises:
          UnknownItem: a relationship or a fact names an entity that does not exist in
            the campaign, or a fact a line that does not, such as one that was forgotten
            meanwhile; or there is no fact of that ``id``.
        """
        ...

    async def remove(
        self, campaign: CampaignKey, *, entity: str = "", fact: int = 0
    ) -> bool:
        """Remove an entity and its relationships, or a fact; False if not there."""
        ...

    async def entities(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        name: str = "",
        kind: EntityKind | None = None,
        limit: int = 20,
    ) -> tuple[Entity, ...]:
        """Return entities whose name or alias contains all words of ``name``.

        Whole names come first, then beginnings, then the others by name.
        """
        ...

    async def relationships(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        after: tuple[str, str, str] | None = None,
        limit: int = 200,
    ) -> tuple[Relationship, ...]:
        """Return relationships in the order of their sources, types and targets.

        ``after`` are the source, type and target of the last one of the page before.
        """
        ...

    async def identity(
        self, campaign: CampaignKey, viewer: Viewer, entity: str, *, depth: int = 1
    ) -> Identity:
        """Return an entity with its neighbours up to ``depth`` steps, the nearest 200,
        and at most 50 of its facts, the newest first. ``entity`` is an id, or a whole
        name or alias.

        Raises:
          UnknownItem: there is none, or the viewer may not see it.
        """
        ...

    async def facts(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        query: str = "",
        *,
        about: Sequence[str] = (),
        standings: Sequence[Standing] = (Standing.ACCEPTED, Standing.CLAIMED),
        limit: int = 10,
    ) -> tuple[FoundFact, ...]:
        """Return facts that match any word of ``query``, best first; without a query
        the newest first. ``about`` restricts them to facts about these entities, which
        are named by their ids.

        Raises:
          QueryRefused: there is a query, but no word in it, or it is too long.
        """
        ...

    async def pinned(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 12
    ) -> tuple[Fact, ...]:
        """Return the accepted facts that are pinned, the newest first."""
        ...

    async def judge(
        self, campaign: CampaignKey, fact: int, standing: Standing, *, confirmed: bool
    ) -> Fact:
        """Have the game master decide about a fact, and return it.

        Raises:
          UnknownItem: there is no such fact.
        """
        ...

    async def reveal(
        self, campaign: CampaignKey, *, entity: str = "", fact: int = 0
    ) -> None:
        """Make a secret known to every NPC that its topics allow.

        Raises:
          UnknownItem: there is no such entity or fact.
        """
        ...

    async def names(self, campaign: CampaignKey) -> tuple[Named, ...]:
        """Return all names and aliases of the campaign's entities."""
        ...


class Memory(Protocol):
    """A memory store: its parts, and what concerns all of them.

    ``holder`` is this process. ``place`` says for people where the store is, without
    secrets.
    """

    @property
    def journal(self) -> Journal: ...
    @property
    def transcripts(self) -> TranscriptStore: ...
    @property
    def index(self) -> SemanticIndex: ...
    @property
    def graph(self) -> KnowledgeGraph: ...
    @property
    def holder(self) -> Holder: ...
    @property
    def place(self) -> str: ...

    async def campaigns(self, tenant: str | None = None) -> tuple[CampaignKey, ...]:
        """Return all campaigns, or a tenant's."""
        ...

    async def forget(
        self,
        tenant: str,
        player: str,
        *,
        campaign: str | None = None,
        again: bool = False,
    ) -> Forgotten:
        """Remove everything that a player has said, and all that was made of it.

        Lines, those that answer the player, and the entries and snapshots with their
        text; chunks, summaries and facts made from them, facts that the player claims,
        and an entity of the kind ``player`` with that id. With a fact goes an inferred
        entity that it is about, if that is nothing but a name, and nothing else is
        about it. Removed for good: from indexes, free pages and the write-ahead log.
        Backups are not covered.

        Other processes learn of it by `forgotten`, for a day.

        Args:
          campaign: only what is in this campaign; None means all of the tenant.
          again: another process has forgotten the player before, so that the others
            know.
        """
        ...

    async def forgotten(self, *, after: int) -> tuple[ForgottenPlayer, ...]:
        """Return whom other processes have forgotten, behind the mark of that number,
        in order."""
        ...

    async def forget_before(self, at: float) -> Forgotten:
        """Remove lines said before that time, and what was made of them."""
        ...

    async def backup(self, to: Path) -> None:
        """Write a copy of the store, whole or not at all; others use it meanwhile.

        Raises:
          MemoryUnavailable: it could not be made; a file at ``to`` is unchanged.
        """
        ...
