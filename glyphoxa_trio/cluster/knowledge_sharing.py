"""The tasks that tell other workers of tools, and take their word.

What follows from it is the affair of the host: `ToolHost.learn`, `suspect`, `written`.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.host import BreakerOpened, GroupWritten, Sampled, Snapshot, ToolHost
from glyphoxa_trio.nats import NatsError, NatsLink, NatsMessage, NatsMessages
from glyphoxa_trio.tools.history import ToolPlace

from .call_sharing import CallSharing
from .knowledge import BATCH, KnowledgeLimits, OutgoingKnowledge, place_of
from .messages import KnowledgeMessage
from .wire import InvalidMessage, NewerMessage, Subjects, pack, read

logger = logging.getLogger(__name__)

_PAUSE: Final = 0.01  # seconds between two messages that could not wait for a batch


async def share_knowledge(
    host: ToolHost,
    nats: NatsLink,
    subjects: Subjects,
    worker: str,
    told: NatsMessages,
    asked: NatsMessages,
    calls: CallSharing,
    counts: Counter[str],
) -> None:
    """Tell the other workers what this one's calls show of tools, and take their word;
    until cancelled.

    Args:
      told: the subscription to `Subjects.all_knowledge`.
      asked: that to `Subjects.calls` of this worker.
      calls: makes calls for the others, and asks them.
      counts: of messages that are ignored, by reason.
    """
    exchange = _Exchange(host, nats, subjects, worker, told, counts)
    with host.events.tap(exchange.note):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.hear)
            nursery.start_soon(exchange.tell_at_once)
            nursery.start_soon(exchange.tell_times)
            nursery.start_soon(
                calls.run, asked, exchange.told_writes, exchange.catch_up
            )


@attrs.define(eq=False)
class _Exchange:
    _host: ToolHost
    _nats: NatsLink
    _subjects: Subjects
    _worker: str
    _told: NatsMessages
    _counts: Counter[str]
    _outgoing: OutgoingKnowledge = attrs.field(init=False)
    _limits: KnowledgeLimits = attrs.field(factory=KnowledgeLimits, init=False)
    _urgent: Signal = attrs.field(factory=Signal, init=False)
    _missed: bool = attrs.field(default=False, init=False)  # perhaps a write
    _gaps: int = attrs.field(default=0, init=False)  # that are dealt with
    # The groups with tools whose results are cached, and the catalogue of that time.
    _cached: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _cached_in: Snapshot | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._outgoing = OutgoingKnowledge(self._subjects.deployment)

    # -- what is told

    def note(self, event: object) -> None:
        match event:
            case Sampled(key, sample):
                if not sample.probe and (place := self._place_of(key)):
                    self._outgoing.called(place, sample.kind, sample.seconds)
            case BreakerOpened(key):
                if place := self._place_of(key):
                    self._outgoing.failing(place)
                    self._urgent.set()
            case GroupWritten(group):
                if self._is_cached(group):
                    self._outgoing.written(group)
                    self._urgent.set()

    def _place_of(self, key: str) -> ToolPlace | None:
        listing = self._host.snapshot.by_key.get(key)
        return (
            None if listing is None else self._host.settings.place(listing.definition)
        )

    def _is_cached(self, group: str) -> bool:
        now = self._host.snapshot
        if now is not self._cached_in:
            definitions = [x.definition for x in now.listings]
            self._cached = frozenset(x.group for x in definitions if x.cacheable)
            self._cached_in = now
        return group in self._cached

    async def tell_at_once(self) -> None:
        while True:
            await self._urgent.take()
            self._tell(calls=False)
            await trio.sleep(_PAUSE)

    async def tell_times(self) -> None:
        while True:
            await trio.sleep(BATCH)
            self._tell(calls=True)
            self._forget_what_was_missed()

    def told_writes(self, group: str) -> bool:
        """Tell of writes now; return True if the others are told of all to a group."""
        self._tell(calls=False)
        return not self._outgoing.has_written(group)

    def _tell(self, *, calls: bool) -> None:
        while (message := self._outgoing.take(calls=calls)) is not None:
            try:
                subject = self._subjects.knowledge(self._worker)
                self._nats.publish_nowait(subject, pack(message))
            except NatsError as error:
                self._counts["unsent"] += 1
                self._outgoing.unsent(message)
                logger.debug("what is known of tools is not sent: %s", error)
                return

    # -- what is heard

    async def hear(self) -> None:
        try:
            async for message in self._told:
                self._take(message)
        except NatsError as error:  # the worker serves all the same
            logger.warning("what other workers know of tools is not heard: %s", error)

    def catch_up(self) -> None:
        """Take what others have told and was not taken yet."""
        while (message := self._told.take_nowait()) is not None:
            self._take(message)
        self._forget_what_was_missed()

    def _take(self, message: NatsMessage) -> None:
        sender, now = message.subject.rpartition(".")[2], trio.current_time()
        if sender == self._worker:
            return
        if not self._limits.admits(sender, now):
            self._counts["knowledge_flood"] += 1
            self._missed = True
            return
        try:
            said = read(message.payload)
        except NewerMessage:
            self._counts["knowledge_newer"] += 1
            return
        except InvalidMessage:
            self._counts["knowledge_invalid"] += 1
            return
        if not isinstance(said, KnowledgeMessage):
            self._counts["knowledge_invalid"] += 1
        elif said.deployment != self._subjects.deployment:
            self._counts["knowledge_other_deployment"] += 1
        else:
            self._learn(said, now)

    def _learn(self, said: KnowledgeMessage, now: float) -> None:
        for group in said.written:
            self._host.written(group)
        for tool in said.failing:
            if self._host.runs(place_of(tool)):
                self._host.suspect(tool.key)
        if samples := self._limits.samples(said, self._host.runs, now):
            self._host.learn(samples)

    def _forget_what_was_missed(self) -> None:
        """Drop everything that is cached if a write may not have been heard of."""
        gaps = self._told.dropped + self._told.interruptions
        if self._nats.is_connected and (self._missed or gaps != self._gaps):
            self._missed, self._gaps = False, gaps
            self._host.written(None)
