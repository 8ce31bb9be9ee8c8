"""What a store of campaigns must be able to do, and no more.

A store runs a piece of work on its `Records`, all of it or nothing. The rules of
campaigns are such work, so that each store need not know them. Two programs may share
one store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

import attrs

from .model import CampaignRecord, GameSession, Participant, R

T = TypeVar("T")


@attrs.frozen
class IdempotentResult:
    """What was made under an idempotency key, and from which arguments."""

    arguments: str
    record_id: str


class Records(Protocol):
    """What is stored: of one moment for work that reads, a transaction for work that
    writes. What it finds it has checked; what it is given is right already."""

    def get(self, kind: type[R], record_id: str) -> R | None: ...

    def page(
        self, kind: type[R], campaign_id: str | None, after: int, limit: int
    ) -> Sequence[tuple[int, R]]:
        """At most so many, of one campaign or of all, with the number of each.

        Numbers go up with time: whoever has read up to one finds what comes later
        behind it, whatever was added or removed meanwhile.
        """
        ...

    def active_session(self, campaign_id: str) -> GameSession | None: ...

    def add(self, record: CampaignRecord) -> None: ...

    def replace(self, record: CampaignRecord) -> None:
        """The record of the same kind and id."""
        ...

    def remove(self, record: CampaignRecord) -> None:
        """With a campaign goes all that is in it."""
        ...

    def release(self, participant: Participant, at: str) -> int:
        """Take the participant's characters from it; how many there were."""
        ...

    def kept(self, key: str, since: float) -> IdempotentResult | None:
        """What was made under the key since that moment of Unix time."""
        ...

    def keep(self, key: str, kept: IdempotentResult, at: float, since: float) -> None:
        """Remember it; what is older than ``since`` may be forgotten."""
        ...

    def touch(self, campaign_id: str) -> None:
        """Something in this campaign is changed: let other programs know."""
        ...


class Store(Protocol):
    """Where campaigns are. Cancelled, a read or a write ends at once; whether the
    write happened is known then only to the store."""

    async def read(self, work: Callable[[Records], T]) -> T:
        """Raises:
        StorageError: if it cannot be read now.
        """
        ...

    async def write(self, work: Callable[[Records], T]) -> T:
        """All of the work, or nothing of it if it raises.

        Raises:
          StorageError: if nothing was changed.
        """
        ...

    async def changed_elsewhere(self) -> Collection[str] | None:
        """The campaigns that other programs have changed since this was asked last;
        None if there are too many to tell."""
        ...
