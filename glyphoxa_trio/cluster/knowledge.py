"""Times of tools, failing tools and writes, which workers tell each other.

Each worker tells what its own calls have shown: four times a second how long they
took, and at once which tool has failed repeatedly and which group was written to.

Each worker has one subject for it, whatever tools it has: all workers of a deployment
have the same ones, and their names may have anything in them. The name of the worker,
which is the end of the subject, tells whose message it is before it is read.

Pure: `knowledge_sharing` has the tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import attrs

from glyphoxa_trio.servers.http.bucket import Buckets
from glyphoxa_trio.tools.history import ToolPlace
from glyphoxa_trio.tools.window import Sample, SampleKind

from .messages import CallEnd, KnowledgeMessage, ToolName, ToolTimes

K = TypeVar("K")

BATCH: Final = 0.25
"""Seconds from one batch of times to the next."""

MOST_A_SECOND: Final = 20
"""Calls of one tool a second that are told, and that are learnt from all others."""

MOST_MESSAGES: Final = 500
"""Messages of one worker a second that are read. One that serves has no more to send
than a hundred, and what its batches need."""

_MOST_NAMES: Final = 32  # of each kind in a message, which keeps it below 512 KiB
_MOST_WAITING: Final = 1024  # tools, and groups
_LONGEST_NAME: Final = 300
_ENDS: Final[dict[SampleKind, CallEnd]] = {
    SampleKind.OK: "ok",
    SampleKind.TIMEOUT: "timeout",
    SampleKind.CENSORED: "censored",
}


@attrs.define(eq=False)
class OutgoingKnowledge:
    """News of tools that wait to be sent.

    Of each tool at most `MOST_A_SECOND` calls a second, if what waits is taken once in
    `BATCH` seconds; further ones are left out. ``left_out`` counts them.
    """

    deployment: str
    left_out: int = attrs.field(default=0, init=False)
    _calls: dict[ToolPlace, list[tuple[CallEnd, float]]] = attrs.field(
        factory=dict, init=False
    )
    # Sets, in the order in which they were added.
    _failing: dict[ToolPlace, None] = attrs.field(factory=dict, init=False)
    _written: dict[str, None] = attrs.field(factory=dict, init=False)

    @property
    def waiting(self) -> bool:
        """True if there is something to tell."""
        return bool(self._calls or self._failing or self._written)

    def called(self, place: ToolPlace, kind: SampleKind, seconds: float) -> None:
        """Add a call that reached its tool. Ignored if it says nothing of its time."""
        end = _ENDS.get(kind)
        if end is None:
            return
        calls = self._calls.get(place)
        if calls is None:
            if len(self._calls) >= _MOST_WAITING or not _can_travel(*place):
                self.left_out += 1
                return
            calls = self._calls[place] = []
        if len(calls) < MOST_A_SECOND * BATCH:
            calls.append((end, seconds * 1000))
        else:
            self.left_out += 1

    def failing(self, place: ToolPlace) -> None:
        """Add a tool whose breaker has opened."""
        if len(self._failing) < _MOST_WAITING and _can_travel(*place):
            self._failing[place] = None

    def written(self, group: str) -> None:
        """Add a group whose cached results are out of date."""
        if len(self._written) < _MOST_WAITING and _can_travel(group):
            self._written[group] = None

    def has_written(self, group: str) -> bool:
        """Return True if a write to this group waits to be told."""
        return group in self._written

    def take(self, *, calls: bool) -> KnowledgeMessage | None:
        """Return the next message to send, or None if there is none; without ``calls``
        only what cannot wait for the next batch."""
        times = [
            ToolTimes(tool=name_of(place), calls=self._calls.pop(place))
            for place in list(self._calls)[: _MOST_NAMES if calls else 0]
        ]
        failing, written = _first(self._failing), _first(self._written)
        if not (times or failing or written):
            return None
        return KnowledgeMessage(
            deployment=self.deployment,
            times=times,
            failing=[name_of(place) for place in failing],
            written=written,
        )

    def unsent(self, message: KnowledgeMessage) -> None:
        """Take back a message that could not be sent: writes are told later."""
        for group in message.written:
            self.written(group)


@attrs.define(eq=False)
class KnowledgeLimits:
    """The bounds of what is heard from other workers."""

    _messages: Buckets = attrs.field(factory=lambda: Buckets(MOST_MESSAGES), init=False)
    _calls: Buckets = attrs.field(factory=lambda: Buckets(MOST_A_SECOND), init=False)

    def admits(self, worker: str, now: float) -> bool:
        """Return True if one more message of this worker may be read."""
        return _fits(self._messages, worker, now)

    def samples(
        self, message: KnowledgeMessage, known: Callable[[ToolPlace], bool], now: float
    ) -> dict[ToolPlace, list[Sample]]:
        """Return as many of its calls of known tools as may be learnt, by tool."""
        found: dict[ToolPlace, list[Sample]] = {}
        for one in message.times:
            place = place_of(one.tool)
            for end, ms in one.calls if known(place) else ():
                if not _fits(self._calls, "\0".join(place), now):
                    break
                sample = Sample(SampleKind(end), ms / 1000, at=now)
                found.setdefault(place, []).append(sample)
        return found


def _can_travel(*names: str) -> bool:
    """Return True if a message can have these names, and be read elsewhere."""
    try:
        return all(len(x.encode()) <= _LONGEST_NAME for x in names)
    except UnicodeEncodeError:
        return False


def _first(waiting: dict[K, None]) -> list[K]:
    chosen = list(waiting)[:_MOST_NAMES]
    for one in chosen:
        del waiting[one]
    return chosen


def name_of(place: ToolPlace) -> ToolName:
    return ToolName(environment=place.environment, origin=place.origin, key=place.key)


def place_of(tool: ToolName) -> ToolPlace:
    return ToolPlace(tool.environment, tool.origin, tool.key)


def _fits(buckets: Buckets, whose: str, now: float) -> bool:
    bucket = buckets.find(whose)
    return bucket is None or bucket.take(now) == 0.0
