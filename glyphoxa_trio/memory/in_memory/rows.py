"""The rows of a memory in this process, which all parts work on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from glyphoxa_trio.memory.contract import Chunk
from glyphoxa_trio.memory.entries import Entry, EntryKind, Holder, KeptEntry
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.forgotten import ForgottenPlayer
from glyphoxa_trio.memory.knowledge import Entity, Fact, Relationship
from glyphoxa_trio.memory.visibility import CampaignKey, Reach


@attrs.define(eq=False)
class SessionData:
    """A session with its entries, in order."""

    tenant: str
    name: str
    campaign: CampaignKey
    epoch: int = 0
    holder: Holder | None = None
    last: int = 0
    last_at: float = 0.0
    ended: bool = False
    entries: list[KeptEntry] = attrs.field(factory=list)
    written: int = 0  # the key of the last job in this epoch

    @property
    def lines(self) -> list[KeptEntry]:
        """The entries that are lines."""
        return [x for x in self.entries if x.entry.kind is EntryKind.LINE]

    def claim(self, holder: Holder, campaign: CampaignKey) -> None:
        """Begin the next epoch."""
        self.epoch, self.holder, self.ended = self.epoch + 1, holder, False
        self.written = 0
        if not self.lines:  # nothing was said in it
            self.campaign = campaign

    def add(self, entry: Entry) -> None:
        """Give an entry the next number. A snapshot replaces all but lines."""
        self.last += 1
        self.written = max(self.written, entry.key)
        self.last_at = max(self.last_at, entry.at)
        if entry.kind is EntryKind.SNAPSHOT:
            self.entries = self.lines
        self.entries.append(KeptEntry(n=self.last, epoch=self.epoch, entry=entry))

    def release(self, *, ended: bool) -> None:
        """Give the claim back. Of one that has ended only lines are left."""
        self.holder = None
        if ended:
            self.ended, self.entries = True, self.lines

    def keep_only(self, entries: list[KeptEntry]) -> None:
        """Remove all other entries."""
        self.entries = entries


@attrs.define(eq=False)
class EveningData:
    """An evening, with a summary for each reach."""

    campaign: CampaignKey
    session: str
    name: str
    began: float
    ended: float | None = None
    summaries: dict[Reach, str] = attrs.field(factory=dict)
    leased: str = ""  # by the holder of this id
    put_off: int = 0
    due: float | None = None

    def is_due(self, before: float) -> bool:
        """Return True if it is to be summarised."""
        if self.ended is None or self.ended >= before:
            return False
        return not self.summaries if self.due is None else self.due <= before

    def lease(self, holder: str) -> int:
        """Have the holder summarise it; return how often that was put off."""
        self.leased = holder
        return self.put_off

    def end_lease(self, until: float | None) -> None:
        """End the lease; put the work off until then, or never do it again."""
        self.leased, self.due = "", until
        self.put_off = 0 if until is None else self.put_off + 1

    def end(self, at: float) -> None:
        """End it, unless it has ended."""
        if self.ended is None:
            self.ended = at


@attrs.define(eq=False)
class Rows:
    """Everything that several stores on the same data share."""

    sessions: dict[tuple[str, str], SessionData] = attrs.field(factory=dict)
    evenings: list[EveningData] = attrs.field(factory=list)
    entities: dict[tuple[CampaignKey, str], Entity] = attrs.field(factory=dict)
    relationships: dict[tuple[CampaignKey, str, str, str], Relationship] = attrs.field(
        factory=dict
    )
    facts: dict[int, tuple[CampaignKey, Fact]] = attrs.field(factory=dict)
    chunks: dict[int, tuple[CampaignKey, Chunk]] = attrs.field(factory=dict)
    vectors: dict[tuple[str, int], tuple[float, ...]] = attrs.field(factory=dict)
    ids: Callable[[], int] = attrs.field(factory=lambda: itertools.count(1).__next__)
    dead: set[str] = attrs.field(factory=set)  # holders
    # Each with the id of the holder who has forgotten the player.
    forgotten: list[tuple[str, ForgottenPlayer]] = attrs.field(factory=list)

    def lines(self, campaign: CampaignKey) -> Iterable[tuple[SessionData, KeptEntry]]:
        for session in self.sessions.values():
            if session.campaign == campaign:
                for kept in session.entries:
                    if kept.entry.line is not None:
                        yield session, kept

    def evening(self, campaign: CampaignKey, name: str) -> EveningData:
        for one in self.evenings:
            if (one.campaign, one.name) == (campaign, name):
                return one
        raise UnknownItem(f"there is no session {name!r}")


def drop_chunks(rows: Rows, gone: Callable[[Chunk], Any]) -> int:
    """Remove chunks with their vectors, and return how many."""
    ids = [id_ for id_, (_, chunk) in rows.chunks.items() if gone(chunk)]
    for id_ in ids:
        del rows.chunks[id_]
        for key in [x for x in rows.vectors if x[1] == id_]:
            del rows.vectors[key]
    return len(ids)
