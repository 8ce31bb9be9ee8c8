"""The turns of the runtime, as they happen and as they were, for pages that show them.

Events are kept as they were published, with the time; they become JSON when they are
asked for. So a runtime without a page does little more than keep them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.host import Probed, Sampled
from glyphoxa_trio.npc import (
    Queued,
    Scripted,
    Shed,
    TextDelta,
    TierSelected,
    ToolFinished,
    TurnDone,
    TurnEvent,
)
from glyphoxa_trio.npc.event_json import plain_event
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.tools.outcome import Status

MOST_TURNS: Final = 300
MOST_EVENTS: Final = 500
"""The number of events that are kept of one turn; of those behind it only the last."""

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of what tools returned in the turns that are kept, roughly: with little of it a turn
has 6 kB, and three pages of 60 kB make it 230."""

LOOK_EVERY: Final = 0.1
"""Seconds between two looks at servers, tools and sessions while a page is open."""

_BEGINS: Final = (TierSelected, Scripted, Shed)


@attrs.frozen
class StateChanged:
    """Something changed: ``servers``, ``tools``, ``sessions`` or ``config``."""

    what: tuple[str, ...]


@attrs.frozen
class SeenEvent:
    """An event, and when it was published: seconds since 1970.

    ``number`` is that of its turn among all turns; 0 for an event of no turn.
    """

    at: float
    event: TurnEvent | Probed | StateChanged
    number: int = 0

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it, with the time as ``at_ms``."""
        told: dict[str, Any] = {"at_ms": round(self.at * 1000, 1)}
        if self.number:
            told["number"] = self.number
        if isinstance(self.event, TurnEvent):
            return told | plain_event(self.event)
        return told | {"event": type(self.event).__name__, **attrs.asdict(self.event)}


Look: TypeAlias = Callable[[SeenEvent], None]


@attrs.define(eq=False)
class WatchedTurn:
    """A turn, and its events but the pieces of its text; `Sentence`s have that.

    ``number`` counts all turns of the runtime, from 1.
    """

    number: int
    id: NpcId
    turn: int
    events: list[SeenEvent] = attrs.field(factory=list, init=False)
    size: int = attrs.field(default=0, init=False)  # bytes that tools have returned
    begun: bool = attrs.field(default=False, init=False)
    done: TurnDone | None = attrs.field(default=None, init=False)
    # who spoke: the campaign, and the id in it
    players: set[tuple[str, str]] = attrs.field(factory=set, init=False)

    def take(self, seen: SeenEvent) -> None:
        """Add an event of this turn."""
        event = seen.event
        self.begun = self.begun or isinstance(event, _BEGINS)
        if isinstance(event, TurnDone):
            self.done = event
        if len(self.events) == MOST_EVENTS:  # the end matters more than the middle
            self.size -= _returned(self.events.pop().event)
        self.events.append(seen)
        self.size += _returned(event)

    def summary(self) -> dict[str, Any]:
        """Return what a list shows of it."""
        found: dict[str, Any] = {
            "number": self.number,
            "npc": self.id.npc,
            "session": self.id.session.id,
            "tenant": self.id.session.tenant,
            "turn": self.turn,
            "began_ms": round(self.events[0].at * 1000, 1),
        }
        for seen in self.events:
            match seen.event:
                case TierSelected() as event:
                    found["tier"] = str(event.tier)
                    found["budget_ms"] = round(event.budget * 1000)
                    found |= {"speaker": event.speaker, "text": event.text}
                case Scripted() | Shed() as event:
                    found |= {"speaker": event.speaker, "text": event.text}
        if self.done is not None:
            done = self.done
            found |= {
                "end": str(done.end),
                "answer": done.text,
                "total_ms": round(done.timings.total * 1000),
                "model_ms": round(done.timings.model * 1000),
                "tools_ms": round(done.timings.tools * 1000),
                "calls": [
                    _call(x.tool or x.call.name, x.status) for x in done.outcomes
                ],
            }
        return found

    def plain(self) -> dict[str, Any]:
        """Return all of it."""
        return {**self.summary(), "events": [seen.plain() for seen in self.events]}


def _returned(event: object) -> int:
    """Return about how many bytes an event holds of what a tool returned. Later events
    of a turn hold the same outcomes."""
    if not isinstance(event, ToolFinished):
        return 0
    outcome = event.outcome
    return _size(outcome.data) + sum(len(x.data) for x in outcome.media)


def _size(data: object) -> int:
    match data:
        case str() | bytes():
            return len(data)
        case dict():
            return sum(_size(x) + _size(y) for x, y in data.items())
        case list() | tuple():
            return sum(map(_size, data))
    return 8


def _call(tool: str, status: Status) -> dict[str, str]:
    return {"tool": tool, "status": str(status)}


@attrs.define(eq=False)
class TurnHistory:
    """The last turns of a runtime, and those who watch them. Made by `open_history`."""

    _runtime: Runtime
    _since: float = attrs.field(factory=lambda: time.time() - trio.current_time())
    _turns: deque[WatchedTurn] = attrs.field(factory=deque, init=False)
    _latest: dict[tuple[NpcId, int], WatchedTurn] = attrs.field(
        factory=dict, init=False
    )
    _numbers: int = attrs.field(default=0, init=False)
    _size: int = attrs.field(default=0, init=False)  # of all turns
    _looks: list[Look] = attrs.field(factory=list, init=False)
    _came: Signal = attrs.field(factory=Signal, init=False)
    _samples: int = attrs.field(default=0, init=False)

    def turns(self) -> Iterator[WatchedTurn]:
        """Yield the turns, the latest first."""
        return reversed(self._turns)

    def turn(self, number: int) -> WatchedTurn | None:
        """Return the turn of that number; None if it is not kept, or not yet there."""
        return next((x for x in self._turns if x.number == number), None)

    @contextmanager
    def watched(self, look: Look) -> Generator[None]:
        """Call ``look`` with every event from now on; it must not raise."""
        self._looks.append(look)
        self._came.set()
        try:
            yield
        finally:
            self._looks.remove(look)

    def take(self, event: TurnEvent) -> None:
        """Take an event of the runtime."""
        if not event.turn:  # not known yet which turn it is of
            self._tell(self._seen(event))
            return
        turn = self._turn_of(event)
        seen = SeenEvent(self._now(), event, turn.number)
        if not isinstance(event, TextDelta):
            if speaker := getattr(event, "speaker", ""):
                runtime, session = self._runtime, event.id.session
                player = runtime.player_of(session, speaker)
                at = runtime.campaign_of(session.id, tenant=session.tenant)
                turn.players.add((at.campaign, player))
            before = turn.size
            turn.take(seen)
            self._size += turn.size - before
            while self._size > MOST_BYTES and len(self._turns) > 1:
                self._drop(self._turns[0])
        self._tell(seen)

    def measured(self, event: object) -> None:
        """Take an event of the host."""
        if isinstance(event, Probed):
            self._tell(self._seen(event))
        elif isinstance(event, Sampled):
            self._samples += 1

    def _seen(self, event: TurnEvent | Probed | StateChanged) -> SeenEvent:
        return SeenEvent(self._now(), event)

    def _now(self) -> float:
        return self._since + trio.current_time()

    def _tell(self, seen: SeenEvent) -> None:
        for look in tuple(self._looks):
            look(seen)

    def _turn_of(self, event: TurnEvent) -> WatchedTurn:
        key = (event.id, event.turn)
        found = self._latest.get(key)
        again = found is not None and found.done is not None
        # A session that ended and began anew counts its turns from 1 again.
        if found is None or (again and isinstance(event, (*_BEGINS, Queued))):
            self._numbers += 1
            found = WatchedTurn(self._numbers, event.id, event.turn)
            self._latest[key] = found
            self._turns.append(found)
            if len(self._turns) > MOST_TURNS:
                self._drop(self._turns[0])
        return found

    def _drop(self, turn: WatchedTurn) -> None:
        self._turns.remove(turn)
        self._size -= turn.size
        if self._latest.get((turn.id, turn.turn)) is turn:
            del self._latest[turn.id, turn.turn]

    def _turns_of(self, tenant: str) -> list[WatchedTurn]:
        return [x for x in self._turns if x.id.session.tenant == tenant]

    def players(self, tenant: str) -> Iterable[str]:
        """Return the ids of the players of a tenant whose words are kept."""
        return {id_ for x in self._turns_of(tenant) for _, id_ in x.players}

    def forget(self, player: str, tenant: str, campaign: str | None) -> None:
        """Let go of all turns in which this player spoke, in one campaign or in all."""
        for turn in self._turns_of(tenant):
            if any(
                id_ == player and campaign in (None, where)
                for where, id_ in turn.players
            ):
                self._drop(turn)

    @contextmanager
    def kept(self, nursery: trio.Nursery) -> Generator[None]:
        """Keep the turns until the block is left; see `open_history`."""
        runtime = self._runtime
        with (
            runtime.events.tap(self.take),
            runtime.host.events.tap(self.measured),
            runtime.words_kept(self),
        ):
            nursery.start_soon(self.look_on)
            yield

    async def look_on(self) -> None:
        """Tell of changes of servers, tools and sessions while there is a watcher."""
        before: dict[str, object] = {}
        while True:
            await self._came.until(lambda: bool(self._looks))
            now = self._state()
            changed = tuple(x for x in now if before and now[x] != before[x])
            before = now
            if changed:
                self._tell(self._seen(StateChanged(changed)))
            await trio.sleep(LOOK_EVERY)

    def _state(self) -> dict[str, object]:
        runtime = self._runtime
        host = runtime.host
        return {
            "servers": runtime.servers(),
            "tools": (
                host.snapshot.revision,
                self._samples,
                host.approvals.held,
                host.approvals.agreed,
            ),
            "sessions": (runtime.sessions, runtime.set_aside),
            "config": id(runtime.config),
        }


async def show(
    history: TurnHistory,
    put: Callable[[dict[str, Any]], None],
    *,
    session: str | None,
    deltas: bool,
) -> None:
    """Put every event from now on, numbered, until cancelled.

    Args:
      session: only of this one; None means all of them, and what is of none.
      deltas: with the pieces of texts.
    """
    number = 0

    def look(seen: SeenEvent) -> None:
        nonlocal number
        event = seen.event
        if isinstance(event, TextDelta) and not deltas:
            return
        if session is not None and getattr(event, "session", None) != session:
            return
        number += 1
        put({"n": number, **seen.plain()})

    with history.watched(look):
        await trio.sleep_forever()


@contextmanager
def open_history(runtime: Runtime, nursery: trio.Nursery) -> Generator[TurnHistory]:
    """Keep the turns of a runtime until the block is left.

    Args:
      nursery: where changes of servers and tools are looked for; its owner cancels it.
    """
    history = TurnHistory(runtime)
    with history.kept(nursery):
        yield history
