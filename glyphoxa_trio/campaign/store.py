"""The interface that a store of campaigns must have.

A store runs a piece of work on its `Records`: all of it, or nothing. The rules of
campaigns are such work, so that a store need not know them. Two programs may share one
store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

import attrs

from .model import CampaignRecord, GameSession, Participant, R

T = TypeVar("T")


@attrs.frozen
class IdempotentResult:
    """The record made under an idempotency key, and a hash of its arguments."""

    arguments: str
    record_id: str


class Records(Protocol):
    """The stored records.

    Work that reads sees them as of one moment; work that writes is one transaction. The
    records that a store returns are checked; those it is given are correct already.
    """

    def get(self, kind: type[R], record_id: str) -> R | None: ...

    def page(
        self, kind: type[R], campaign_id: str | None, after: int, limit: int
    ) -> Sequence[tuple[int, R]]:
        """Return at most ``limit`` records of one campaign or of all, numbered.

        Numbers increase with time: a caller that has read up to one finds all later
        records after it, whatever was added or removed meanwhile.
        """
        ...

    def active_session(self, campaign_id: str) -> GameSession | None: ...

    def add(self, record: CampaignRecord) -> None: ...

    def replace(self, record: CampaignRecord) -> None:
        """Replace the record of the same kind and id."""
        ...

    def remove(self, record: CampaignRecord) -> None:
        """Remove a record; a campaign is removed with everything in it."""
        ...

    def release(self, participant: Participant, at: str) -> int:
        """Remove the participant from its characters; return how many there were."""
        ...

    def kept(self, key: str, since: float) -> IdempotentResult | None:
        """Return the record made under the key since that time, if any."""
        ...

    def keep(self, key: str, kept: IdempotentResult, at: float, since: float) -> None:
        """Remember a record under a key; forget those older than ``since``."""
        ...

    def touch(self, campaign_id: str) -> None:
        """Record that this campaign was changed, for other programs."""
        ...


class Store(Protocol):
    """The place where campaigns are kept.

    Cancelling a read or a write ends it at once; whether the write was done is then
    known only to the store.
    """

    async def read(self, work: Callable[[Records], T]) -> T:
        """Return the result of work that reads.

        Raises:
          StorageError: if the store cannot be read now.
        """
        ...

    async def write(self, work: Callable[[Records], T]) -> T:
        """Return the result of work that writes: all of it is done, or nothing.

        Raises:
          StorageError: if nothing was changed.
        """
        ...

    async def changed_elsewhere(self) -> Collection[str] | None:
        """Return the campaigns that other programs have changed since the last call.

        None if there are too many to tell.
        """
        ...
