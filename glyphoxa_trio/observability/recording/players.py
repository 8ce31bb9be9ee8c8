"""Wrappers between players and NPCs, which record what they say and hear."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import StableRef, Stream
from glyphoxa_trio.npc import FanOutDone, TurnDone, TurnEvent
from glyphoxa_trio.npc.events import Speech, SpeechFailed
from glyphoxa_trio.npc.session.messages import Say, SessionMessages, SessionRequest
from glyphoxa_trio.observability.recording.models import Note
from glyphoxa_trio.observability.stepping import Quiet


@attrs.define(eq=False)
class HeardDoor(StableRef[SessionMessages]):
    """The way to an NPC's session.

    Args:
      told: called with each message that is sent.
      quiet: what people do comes last of all that happens at one instant, so that a
        replay knows its place. None is a clock on which nothing has one.
    """

    told: Callable[[SessionRequest], None] = attrs.field(kw_only=True)
    quiet: Quiet | None = attrs.field(kw_only=True)

    async def ask(self, request: SessionRequest, *, within: float) -> Any:
        if self.quiet is not None:
            await until_quiet(self.quiet)
        await self.woken(within=within)  # a turn without a listener is not recorded
        self.told(request)
        return await super().ask(request, within=within)

    @classmethod
    def of(
        cls,
        door: StableRef[SessionMessages],
        told: Callable[[SessionRequest], None],
        quiet: Quiet | None,
    ) -> HeardDoor:
        if isinstance(door, HeardDoor):
            return door
        return cls(door.name, door._ref, door._wake, told=told, quiet=quiet)


async def until_quiet(quiet: Quiet, *, first: bool = False) -> None:
    event = trio.Event()
    quiet.when_quiet(event.set, first=first)
    await event.wait()


@attrs.define(eq=False)
class HeardStream(Stream[TurnEvent]):
    """The stream of one turn as a listener hears it. It records when the listener was
    slow, what it played, and where it left: that decides what an NPC remembers of its
    own words.

    ``has_voice``: a replay has its audio, since a recorded model speaks for itself.
    """

    say: int = attrs.field(kw_only=True)
    has_voice: bool = attrs.field(kw_only=True)
    note: Note = attrs.field(kw_only=True)
    quiet: Quiet | None = attrs.field(kw_only=True)
    _asked: int = attrs.field(default=0, init=False)
    _got: int = attrs.field(default=0, init=False)
    _given_at: float | None = attrs.field(default=None, init=False)
    _is_over: bool = attrs.field(default=False, init=False)
    gone: bool = attrs.field(default=False, init=False)
    _unrecorded: bool = attrs.field(default=False, init=False)

    def tell_if_behind(self) -> None:
        """Note how far it has come, if there is more to hear at this moment."""
        if self._events or self._handed:
            self.note("heard", say=self.say, events=self._asked)

    async def __anext__(self) -> TurnEvent:
        if self._given_at is not None and trio.current_time() > self._given_at:
            self.note("heard", say=self.say, events=self._asked)
            self._given_at = None
        self._asked += 1
        event = await super().__anext__()
        if isinstance(event, Speech | SpeechFailed) and not self.has_voice:
            # A replay has no synthesizer. What was played is not noted, and decides.
            self._asked -= 1
            if not self._unrecorded:
                self._unrecorded = True
                self.note("unrecorded", what="Speech")
            return event
        self._given_at = trio.current_time()
        self._got += 1
        self._is_over = isinstance(event, TurnDone)
        return event

    async def send(
        self, event: TurnEvent, *, spare: int = 0, within: float = inf
    ) -> bool:
        if self.quiet is not None and isinstance(event, FanOutDone):
            # What the calls say of their tools counts from the next round on, and
            # is told to an actor: it must not depend on who is first.
            await until_quiet(self.quiet, first=True)
        return await super().send(event, spare=spare, within=within)

    def played(self, play: Callable[[float], None], seconds: float) -> None:
        """So much was heard of what it has asked for."""
        if self.has_voice:
            self.note("played", say=self.say, events=self._asked, seconds=seconds)
        play(seconds)

    def cancel(self, reason: str) -> None:
        if self.gone or self._is_over:
            super().cancel(reason)
        elif self.quiet is None:
            self._cancel(reason)
        else:
            self.quiet.when_quiet(partial(self._cancel, reason))

    def _cancel(self, reason: str) -> None:
        if not self.gone:
            self.note("cancelled", say=self.say, reason=reason)
        super().cancel(reason)

    def leave(self) -> None:
        if self.quiet is None or self._is_over:
            self._leave()
        else:
            self.quiet.when_quiet(self._leave)

    def _leave(self) -> None:
        over = {"over": True} if self._is_over else {}
        self.note("left", say=self.say, asked=self._asked, got=self._got, **over)
        self.gone = True
        super().leave()


def unusual(say: Say) -> dict[str, Any]:
    """Return the fields beside words, speaker and tier, if there are any."""
    beside = {"script": say.script, "greets": say.greets, "waiting": say.waiting}
    return {key: value for key, value in beside.items() if value not in (None, 0)}
