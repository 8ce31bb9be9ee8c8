"""Context for one turn, from functions of the embedder that add to an NPC's prompt.

    def weather(moment: Moment) -> str:
        return f"It rains on {moment.npc}."

    remove = runtime.add_context(weather)

Providers are foreign code. They run as shared tasks in their owner's nursery, all at
once, within one short time limit. The turn continues without those that are late or
fail.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Iterable
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

_MOST_LINES: Final = 40  # lines of one provider in one turn


@attrs.frozen(kw_only=True)
class Moment:
    """The argument of a provider: something is said to an NPC.

    ``turn`` is 0 while the speaker still speaks: the text may be incomplete, and no
    turn may come of it. Lines that come after ``deadline``, by trio's clock, are left
    out. ``said`` returns the utterances and answers that the model sees anyway.
    """

    npc: str
    turn: int
    speaker: str
    text: str
    session: str = DEFAULT
    tenant: str = ""
    deadline: float = attrs.field(default=math.inf, eq=False)
    said: Callable[[], Collection[str]] = attrs.field(
        default=frozenset, eq=False, repr=False
    )


@attrs.frozen
class Gathered:
    """The lines of all providers. ``missed``: providers that gave none, and why.

    A provider of several parts returns one as well, to name those that it left out.
    """

    lines: tuple[str, ...] = ()
    missed: tuple[tuple[str, str], ...] = ()


Lines = str | Iterable[str] | Gathered | None
Provide = Callable[[Moment], Lines | Awaitable[Lines]]
"""Returns lines to add to the prompt; a plain function must not block."""


class Gather(Protocol):
    """The source of a session's context: `HotContext`, or a replay's replacement."""

    async def gather(self, moment: Moment, *, within: float) -> Gathered | None:
        """Return the context, within that many seconds; None without providers."""
        ...


@attrs.frozen(eq=False)
class _Provider:
    # Not shown: tasks are named after their provider, and it may hold a whole program.
    provide: Provide = attrs.field(repr=False)
    npc: str | None  # None is all NPCs

    @property
    def name(self) -> str:
        return str(getattr(self.provide, "__qualname__", type(self.provide).__name__))


@attrs.define(eq=False)
class HotContext:
    """The context providers of one runtime's NPCs."""

    _flights: SharedTasks
    _told: Callable[[Moment, Gathered | None], None] | None = attrs.field(
        default=None, init=False
    )
    _providers: list[_Provider] = attrs.field(factory=list, init=False)

    def tell(self, told: Callable[[Moment, Gathered | None], None]) -> None:
        """Call ``told`` with each result, and with None if its turn was cancelled.

        ``told`` must not block.
        """
        self._told = told

    def add(self, provide: Provide, *, npc: str | None = None) -> Callable[[], None]:
        """Ask ``provide`` in each turn of that NPC, or of all; return its remover."""
        provider = _Provider(provide, npc)
        self._providers.append(provider)

        def remove() -> None:
            if provider in self._providers:
                self._providers.remove(provider)

        return remove

    async def gather(self, moment: Moment, *, within: float) -> Gathered | None:
        """Return what all providers say, in the order in which they were added.

        Raises nothing, except when it is cancelled.
        """
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
        deadline = trio.current_time() + within
        moment = attrs.evolve(moment, deadline=deadline)
        fan_out: FanOut[Gathered] = FanOut(deadline)
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
            flight = self._flights.start(provider, _found_by, provider, moment)
        except TooManyFlights:
            return Gathered(missed=((provider.name, "earlier calls do not stop"),))
        flight.add_waiter()
        try:
            return await flight.result()
        except Exception as error:  # border: foreign code
            return Gathered(missed=((provider.name, type(error).__name__),))
        finally:
            flight.release()


async def _found_by(provider: _Provider, moment: Moment) -> Gathered:
    found = provider.provide(moment)
    said = await found if isawaitable(found) else found
    if isinstance(said, Gathered):
        return Gathered(_checked(said.lines), tuple(said.missed))
    return Gathered(_checked(said))


def _checked(said: str | Iterable[str] | None) -> tuple[str, ...]:
    if said is None or isinstance(said, str):
        said = (said or "").splitlines()
    lines = tuple(islice(said, _MOST_LINES))
    if wrong := [x for x in lines if not isinstance(x, str)]:
        raise TypeError(f"context must be lines of text, not {type(wrong[0]).__name__}")
    return tuple(line for x in lines if (line := one_line(x)))
