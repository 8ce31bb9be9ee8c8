"""What is known at the moment of a turn, from whoever has something to add to its
prompt: an embedder, a memory.

    def weather(moment: Moment) -> str:
        return f"It rains on {moment.npc}."

    remove = runtime.add_context(weather)

Providers are foreign code. They run as flights in their owner's nursery, all at once,
within one short time: whoever is late or wrong is left out, and the turn goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from inspect import isawaitable
from itertools import islice
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.actors import LATE, FanOut, SharedTasks
from glyphoxa_trio.errors import TooManyFlights

from .identity import DEFAULT
from .overheard import one_line

_MOST_LINES: Final = 40  # of one provider in one turn


@attrs.frozen(kw_only=True)
class Moment:
    """What a provider is asked for: something is said to an NPC.

    ``turn`` is 0 while they still speak: it is perhaps not finished, and no turn may
    come of it.
    """

    npc: str
    turn: int
    speaker: str
    text: str
    session: str = DEFAULT
    tenant: str = ""


Lines = str | Iterable[str] | None
Provide = Callable[[Moment], Lines | Awaitable[Lines]]
"""Says what is to be known, line by line; a plain function must not block."""


@attrs.frozen
class Gathered:
    """``missed`` has the names of those who were left out, and why."""

    lines: tuple[str, ...] = ()
    missed: tuple[tuple[str, str], ...] = ()


class Gather(Protocol):
    """Where a session asks: `HotContext`, or what stands for it in a replay."""

    async def gather(self, moment: Moment, *, within: float) -> Gathered | None:
        """What is to be known; None if nobody is asked. Takes no longer than that."""
        ...


@attrs.frozen(eq=False)
class _Provider:
    provide: Provide
    npc: str | None  # None is all of them

    @property
    def name(self) -> str:
        return str(getattr(self.provide, "__qualname__", type(self.provide).__name__))


@attrs.define(eq=False)
class HotContext:
    """Who adds to the prompts of one runtime's NPCs."""

    _flights: SharedTasks
    _told: Callable[[Moment, Gathered | None], None] | None = attrs.field(
        default=None, init=False
    )
    _providers: list[_Provider] = attrs.field(factory=list, init=False)

    def tell(self, told: Callable[[Moment, Gathered | None], None]) -> None:
        """Tell ``told`` of each answer, when it is there, and of None when nobody waits
        for it any more. It must not block."""
        self._told = told

    def add(self, provide: Provide, *, npc: str | None = None) -> Callable[[], None]:
        """Ask ``provide`` in each turn, of that NPC or of all; returns what ends it."""
        provider = _Provider(provide, npc)
        self._providers.append(provider)

        def remove() -> None:
            if provider in self._providers:
                self._providers.remove(provider)

        return remove

    async def gather(self, moment: Moment, *, within: float) -> Gathered | None:
        """What all of them say, in the order in which they were added. Never raises."""
        asked = [x for x in self._providers if x.npc in (None, moment.npc)]
        if not asked:
            return None
        gathered: Gathered | None = None
        try:
            gathered = await self._all_of(asked, moment, within)
        finally:
            if self._told is not None:
                self._told(moment, gathered)
        return gathered

    async def _all_of(
        self, asked: list[_Provider], moment: Moment, within: float
    ) -> Gathered:
        fan_out: FanOut[Gathered] = FanOut(trio.current_time() + within)
        answers = await fan_out.run([partial(self._ask, x, moment) for x in asked])
        late = [
            Gathered(missed=((provider.name, "late"),)) if answer is LATE else answer
            for provider, answer in zip(asked, answers, strict=True)
        ]
        return Gathered(
            tuple(line for x in late for line in x.lines),
            tuple(miss for x in late for miss in x.missed),
        )

    async def _ask(self, provider: _Provider, moment: Moment) -> Gathered:
        try:
            flight = self._flights.start(provider, _lines_of, provider, moment)
        except TooManyFlights:
            return Gathered(missed=((provider.name, "earlier calls do not stop"),))
        flight.add_waiter()
        try:
            return Gathered(await flight.result())
        except Exception as error:  # border: foreign code
            return Gathered(missed=((provider.name, type(error).__name__),))
        finally:
            flight.release()


async def _lines_of(provider: _Provider, moment: Moment) -> tuple[str, ...]:
    found = provider.provide(moment)
    said = await found if isawaitable(found) else found
    if said is None or isinstance(said, str):
        said = (said or "").splitlines()
    lines = tuple(islice(said, _MOST_LINES))
    if wrong := [x for x in lines if not isinstance(x, str)]:
        raise TypeError(f"context is lines of text, got {type(wrong[0]).__name__}")
    return tuple(line for x in lines if (line := one_line(x)))
