"""Running the rules of campaigns on a store, and publishing the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Concatenate, Final, ParamSpec, TypeVar

import attrs

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.storage.errors import StorageError, StorageFull

from . import uris
from .errors import ResourceExhausted, Unavailable
from .model import (
    Campaign,
    CampaignMember,
    CampaignRecord,
    Character,
    GameSession,
    Participant,
    R,
)
from .stamps import Stamps, Timestamp
from .store import IdempotentResult, Records, Store

P = ParamSpec("P")
T = TypeVar("T")

# Seconds between two checks for changes by other programs.
LOOKING: Final = 1.0


@attrs.define(eq=False)
class Campaigns:
    """All campaigns of a store.

    ``changes`` publishes the URI of each resource that reads differently now; None
    means that the list of resources, or a name in it, has changed.
    """

    _store: Store
    _stamps: Stamps = attrs.field(factory=Stamps)
    changes: Topic[str | None] = attrs.field(factory=Topic, init=False)

    async def read(
        self,
        rule: Callable[Concatenate[Records, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of a rule, run on the records as of one moment.

        Raises:
          CampaignError: as the rule raises it; `Unavailable` if the store cannot be
            read.
        """
        with _refused():
            return await self._store.read(
                lambda records: rule(records, *args, **kwargs)
            )

    async def write(
        self,
        rule: Callable[Concatenate[Records, Timestamp, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of a rule after storing its changes, and publish them.

        Raises:
          CampaignError: as the rule raises it; `Unavailable` or `ResourceExhausted` if
            the store cannot be written. Nothing was changed then.
        """
        moment = self._stamps.moment()

        def work(records: Records) -> tuple[T, Sequence[str | None]]:
            noting = _Noting(records)
            returned = rule(noting, moment, *args, **kwargs)
            for campaign_id in sorted({owner for _, owner in noting.touched}):
                records.touch(campaign_id)
            return returned, noting.changed()

        with _refused():
            returned, changed = await self._store.write(work)
        for uri in changed:
            self.changes.publish(uri)
        return returned

    async def watch(self) -> None:
        """Publish the changes that other programs make, until cancelled."""
        while True:
            await trio.sleep(LOOKING)
            try:
                changed = await self._store.changed_elsewhere()
            except StorageError:
                continue  # the next read or write reports it
            if changed is None or changed:
                self.changes.publish(None)
                self.changes.publish(uris.CAMPAIGNS)
            for campaign_id in sorted(changed or ()):
                for uri in uris.every(campaign_id):
                    self.changes.publish(uri)


@contextmanager
def _refused() -> Iterator[None]:
    """Translate errors of the store for clients, without the path of its file."""
    try:
        yield
    except StorageError as error:
        _, _, why = str(error).rpartition(": ")
        kind = ResourceExhausted if isinstance(error, StorageFull) else Unavailable
        raise kind(f"the store of campaigns cannot be used now: {why}") from error


@attrs.define(eq=False)
class _Noting:
    """Records that remember which of them were changed."""

    _records: Records
    touched: set[tuple[type[CampaignRecord], str]] = attrs.field(
        factory=set, init=False
    )
    _removed: set[str] = attrs.field(factory=set, init=False)
    _named: bool = attrs.field(default=False, init=False)

    def changed(self) -> Sequence[str | None]:
        """Return the URIs of all resources that read differently now."""
        found: dict[str | None, None] = {}
        members = any(issubclass(kind, CampaignMember) for kind, _ in self.touched)
        for kind, owner in sorted(self.touched, key=lambda one: one[0].WORD):
            if issubclass(kind, CampaignMember):
                found[uris.of_list(owner, kind)] = None
                continue
            found |= dict.fromkeys((uris.CAMPAIGNS, uris.campaign(owner)))
            if owner in self._removed:
                found |= dict.fromkeys(uris.every(owner))
            # If a member was changed, the change of the campaign is only a new count.
            if self._named or not members:
                found[None] = None
        return tuple(found)

    def get(self, kind: type[R], record_id: str) -> R | None:
        return self._records.get(kind, record_id)

    def page(
        self, kind: type[R], campaign_id: str | None, after: int, limit: int
    ) -> Sequence[tuple[int, R]]:
        return self._records.page(kind, campaign_id, after, limit)

    def active_session(self, campaign_id: str) -> GameSession | None:
        return self._records.active_session(campaign_id)

    def add(self, record: CampaignRecord) -> None:
        self._named = self._named or isinstance(record, Campaign)
        self._note(record)
        self._records.add(record)

    def replace(self, record: CampaignRecord) -> None:
        self._note(record)
        self._records.replace(record)

    def remove(self, record: CampaignRecord) -> None:
        if isinstance(record, Campaign):
            self._removed.add(record.id)
        self._note(record)
        self._records.remove(record)

    def release(self, participant: Participant, at: str) -> int:
        count = self._records.release(participant, at)
        if count:
            self.touched.add((Character, participant.owner))
        return count

    def kept(self, key: str, since: float) -> IdempotentResult | None:
        return self._records.kept(key, since)

    def keep(self, key: str, kept: IdempotentResult, at: float, since: float) -> None:
        self._records.keep(key, kept, at, since)

    def touch(self, campaign_id: str) -> None:
        self._records.touch(campaign_id)

    def _note(self, record: CampaignRecord) -> None:
        self.touched.add((type(record), record.owner))
