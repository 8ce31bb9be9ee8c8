"""The tasks that ask other workers for the results of calls, and make calls for them.

The rules are those of `shared_calls`. A write is told before a call is asked for, on
the same connection, and what was told is taken in before one is answered: so nobody
reads what was there before their own write.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.host import (
    AnswerElsewhere,
    CallForOthers,
    CatalogueEntry,
    Snapshot,
    ToolHost,
)
from glyphoxa_trio.host.calls_for_others import may_be_shared
from glyphoxa_trio.nats import (
    NatsError,
    NatsLink,
    NatsMessage,
    NatsMessages,
    NatsRequests,
    open_requests,
)
from glyphoxa_trio.tools.cache import CacheKey
from glyphoxa_trio.tools.definition import CallContext, ToolDefinition, ToolUnavailable
from glyphoxa_trio.tools.fingerprint import fingerprint, first_line
from glyphoxa_trio.units import seconds

from .knowledge import name_of, place_of
from .messages import BeatMessage, SharedCallMessage, SharedResultMessage
from .shared_calls import LEAST_CACHED, CallRing, is_shared, patience, taken_within
from .wire import InvalidMessage, Subjects, pack, read

logger = logging.getLogger(__name__)

MOST_RUNNING: Final = 256
"""Calls that are made for others at once."""

_MOST_SECONDS: Final = 86_400.0


class SharedCallEnd(StrEnum):
    """The ways in which a call ends that belongs to another worker, and then those that
    others have asked for: ``LATE``: it did not answer in time, or is gone."""

    ANSWERED = "answered"
    REFUSED = "refused"
    LATE = "late"
    MADE = "made"
    DECLINED = "declined"


@attrs.define(eq=False)
class CallSharing:
    """The calls that a worker shares with others: it is the host's `CallSharer`.

    ``ends`` counts what became of them.

    Args:
      counts: of messages that are ignored, by reason.
    """

    _host: ToolHost
    _nats: NatsLink
    _subjects: Subjects
    _worker: str
    _counts: Counter[str]
    ends: Counter[SharedCallEnd] = attrs.field(factory=Counter, init=False)
    _ring: CallRing = attrs.field(factory=CallRing, init=False)
    _requests: NatsRequests | None = attrs.field(default=None, init=False)
    _told: Callable[[str], bool] = attrs.field(default=lambda group: False, init=False)
    _running: int = attrs.field(default=0, init=False)
    # If any tool's calls may be shared, and the catalogue of that time.
    _wanted: bool = attrs.field(default=False, init=False)
    _wanted_in: Snapshot | None = attrs.field(default=None, init=False)
    _prints: dict[str, tuple[ToolDefinition, str]] = attrs.field(
        factory=dict, init=False
    )

    @property
    def wanted(self) -> bool:
        """True if there is a tool whose calls may be shared: hear all beats then."""
        now = self._host.snapshot
        if now is not self._wanted_in:
            self._wanted_in = now
            self._wanted = any(
                may_be_shared(x) and x.definition.cacheable >= LEAST_CACHED
                for x in now.listings
            )
        return self._wanted

    def beat(self, beat: BeatMessage, now: float) -> None:
        """Hear the beat of a worker, which may be this one."""
        takes_calls = not beat.draining and not beat.still
        self._ring.beat(beat.worker, now, takes_calls=takes_calls)

    async def run(
        self,
        asked: NatsMessages,
        told: Callable[[str], bool],
        catch_up: Callable[[], None],
    ) -> None:
        """Share calls, until cancelled.

        Args:
          asked: the subscription to `Subjects.calls` of this worker.
          told: returns True if the others are told of all writes to a group.
          catch_up: takes in what others have told.
        """
        self._told = told
        inbox = self._subjects.call_answers(self._worker)
        with open_requests(self._nats, inbox=inbox) as self._requests:
            with self._host.sharing_calls(self):
                async with trio.open_nursery() as nursery:
                    try:
                        async for message in asked:
                            self._take(message, nursery, catch_up)
                    except NatsError as error:  # the worker serves all the same
                        logger.warning("calls are not shared: %s", error)

    # -- what this worker asks for

    def shares(
        self, listing: CatalogueEntry, key: CacheKey, context: CallContext
    ) -> bool:
        now = trio.current_time()
        return (
            is_shared(listing)
            and may_be_shared(listing)
            and patience(listing.estimate, _left(listing, context, now)) > 0
            and self._ring.owner(key, now) not in ("", self._worker)
        )

    async def ask(
        self, listing: CatalogueEntry, key: CacheKey, context: CallContext
    ) -> AnswerElsewhere | None:
        now = trio.current_time()
        owner, left = self._ring.owner(key, now), _left(listing, context, now)
        wait = patience(listing.estimate, left)
        if self._requests is None or not wait or owner in ("", self._worker):
            return None
        if not self._told(listing.definition.group):
            return None
        call = SharedCallMessage(
            deployment=self._subjects.deployment,
            tool=name_of(self._host.settings.place(listing.definition)),
            fingerprint=self._print_of(listing),
            arguments=key.arguments,
            tenant=context.tenant,
            remaining_ms=min(left, _MOST_SECONDS) * 1000,
        )
        try:
            data = pack(call)
            read(data)  # what no worker would read
        except InvalidMessage:
            return None
        first = taken_within(listing.estimate)
        try:
            said = await self._answer(self._requests, owner, data, first, wait)
        except InvalidMessage:
            self._counts["calls_invalid"] += 1
            self.ends[SharedCallEnd.REFUSED] += 1
            return None
        except (NatsError, DeadlineExceeded) as error:
            logger.debug("%s does not make a call: %s", owner, error)
            if not isinstance(error, _OwnLoopLate):
                self._ring.avoid(owner, trio.current_time())
            self.ends[SharedCallEnd.LATE] += 1
            return None
        if said.result is None:
            self.ends[SharedCallEnd.REFUSED] += 1
            return None
        self.ends[SharedCallEnd.ANSWERED] += 1
        return AnswerElsewhere(said.result, seconds(said.valid_ms))

    async def _answer(
        self, requests: NatsRequests, owner: str, data: bytes, first: float, wait: float
    ) -> SharedResultMessage:
        subject, began = self._subjects.calls(owner), trio.current_time()
        async with requests.stream(subject, data, within=wait, capacity=4) as replies:
            with trio.move_on_after(first) as patient:
                said = _result(await anext(replies))
            if patient.cancelled_caught:
                late = trio.current_time() - began > 2 * first
                error = _OwnLoopLate if late else DeadlineExceeded
                raise error("it has not taken the call in time")
            while said.taken:
                said = _result(await anext(replies))
            return said

    def _print_of(self, listing: CatalogueEntry) -> str:
        definition = listing.definition
        known = self._prints.get(listing.key)
        if known is None or known[0] is not definition:
            whole = listing.tool.fingerprint or fingerprint(definition)
            known = self._prints[listing.key] = definition, first_line(whole)
        return known[1]

    # -- what it makes for others

    def _take(
        self, message: NatsMessage, nursery: trio.Nursery, catch_up: Callable[[], None]
    ) -> None:
        try:
            call = read(message.payload)
        except InvalidMessage:
            self._counts["calls_invalid"] += 1
            return
        if not message.reply or not isinstance(call, SharedCallMessage):
            self._counts["calls_invalid"] += 1
        elif call.deployment != self._subjects.deployment:
            self._counts["calls_other_deployment"] += 1
        else:
            catch_up()
            try:
                begun = self._begin(call)
            except ToolUnavailable as error:
                self._decline(message.reply, error)
            else:
                self._running += 1
                nursery.start_soon(self._make, begun, message.reply)

    def _begin(self, call: SharedCallMessage) -> CallForOthers:
        if self._running >= MOST_RUNNING:
            raise ToolUnavailable("too many calls are made for others")
        listing = self._host.snapshot.by_key.get(call.tool.key)
        if listing is None or self._print_of(listing) != call.fingerprint:
            raise ToolUnavailable("the tool is another one here")
        return self._host.call_for_others(
            place_of(call.tool),
            call.arguments,
            tenant=call.tenant,
            within=seconds(call.remaining_ms),
        )

    async def _make(self, call: CallForOthers, to: str) -> None:
        try:
            with call:
                if not call.is_cached:
                    self._send(to, SharedResultMessage(taken=True))
                answer = await call.answer()
            self._send(
                to,
                SharedResultMessage(
                    result=answer.result,
                    valid_ms=min(answer.valid_for, _MOST_SECONDS) * 1000,
                ),
            )
            self.ends[SharedCallEnd.MADE] += 1
        except (ToolUnavailable, InvalidMessage, TypeError, ValueError) as error:
            # Also a result that JSON cannot have, or that is too large.
            self._decline(to, error)
        except trio.Cancelled as error:
            self._decline(to, error)  # this worker ends
            raise
        finally:
            self._running -= 1

    def _decline(self, to: str, why: BaseException) -> None:
        self.ends[SharedCallEnd.DECLINED] += 1
        self._send(to, SharedResultMessage(message=str(why)[:300]))

    def _send(self, to: str, said: SharedResultMessage) -> None:
        try:
            self._nats.publish_nowait(to, pack(said))
        except NatsError as error:  # its time will be up
            self._counts["unsent"] += 1
            logger.debug("not sent to %s: %s", to, error)


class _OwnLoopLate(DeadlineExceeded):
    """The time was up, but this worker may not have read the answer that had come."""


def _left(listing: CatalogueEntry, context: CallContext, now: float) -> float:
    """Return the seconds that there are for a call."""
    return min(context.awaited_until - now, listing.definition.own_limit)


def _result(message: NatsMessage) -> SharedResultMessage:
    said = read(message.payload)
    if not isinstance(said, SharedResultMessage):
        raise InvalidMessage("the answer to a call is no result")
    return said
