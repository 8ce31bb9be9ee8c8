"""A listener of a replayed turn, who hears each event in the step that brings it."""

from __future__ import annotations

from collections.abc import Callable, Container
from math import inf

import attrs

import trio

from glyphoxa_trio.actors import Stream
from glyphoxa_trio.npc import FanOutDone, TurnEvent
from glyphoxa_trio.observability.recording.players import until_quiet
from glyphoxa_trio.observability.stepping import Quiet


@attrs.define(eq=False)
class ReplayListener(Stream[TurnEvent]):
    """Asks for one event after the other, as `Turn` does, and needs no task for it: a
    task would hear a little later than the one that was recorded, or earlier.

    Args:
      most: it asks so often, and no more.
      pauses: after so many it waits for `resume`.
      told: called when it has asked or got something, and when there is no more.
      quiet: of the clock.
    """

    most: float = attrs.field(default=inf, kw_only=True)
    pauses: Container[int] = attrs.field(default=(), kw_only=True)
    told: Callable[[], None] = attrs.field(kw_only=True)
    quiet: Quiet = attrs.field(kw_only=True)
    asked: int = attrs.field(default=0, init=False)
    got: int = attrs.field(default=0, init=False)
    over: bool = attrs.field(default=False, init=False)
    news: trio.Event = attrs.field(factory=trio.Event, init=False)
    _resumed: int = attrs.field(default=0, init=False)
    _hears: bool = attrs.field(default=False, init=False)  # asked, and not answered

    def begin(self) -> None:
        self._go_on()

    def resume(self) -> None:
        """Continue a listener that has taken its time and asks for more."""
        self._resumed = self.asked
        self._go_on()

    async def send(
        self, event: TurnEvent, *, spare: int = 0, within: float = inf
    ) -> bool:
        if isinstance(event, FanOutDone):  # as `HeardStream` does
            await until_quiet(self.quiet, first=True)
        return await super().send(event, spare=spare, within=within)

    def post(self, event: TurnEvent) -> None:
        super().post(event)
        self._go_on()

    def end(self) -> None:
        super().end()
        self.over = True
        self.news.set()
        self.told()

    def _go_on(self) -> None:
        before = self.asked, self.got
        while True:
            if self._hears:
                if not self._events:
                    break
                self._hand_out()
                self._hears = False
                self.got += 1
            waits = self.asked in self.pauses and self._resumed < self.asked
            if waits or self.asked >= self.most:
                break
            self.asked += 1
            self._hears = True
            if self._handed:
                heard = self._handed.pop()
                if self.on_consumed is not None:
                    self.on_consumed(heard)
        if (self.asked, self.got) != before:
            self.told()
