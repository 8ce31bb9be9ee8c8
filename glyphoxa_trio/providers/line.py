"""The line in front of a model's server: who is asked now, and who waits.

A server that gets more requests than it works on keeps them waiting itself, and nobody
can tell that from silence. So each has as many places as it is given, and who comes
next waits here, in order. A model on a machine of one's own is loaded first: by a
request that is nobody's turn, so that no turn's end hangs up on it. Some servers stop
loading when they are hung up on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs

import trio

from .llm import ErrorKind, LLMError

MOST_WAITING: Final = 1_024
PLACES: Final = 64

IDLE: Final = 240.0  # seconds after which a server may have unloaded a model
_WORTH_TELLING: Final = 0.5  # seconds


@attrs.define(eq=False, kw_only=True)
class Loading:
    """Has a model loaded, in the background.

    Args:
      nursery: where the request runs that loads it. It outlives the turns.
      ask: makes that request.
      label: the model's, for people.
      tell: told when it is being loaded, and when it is there.
      within: seconds that this may take.
      loaded: called when that is over, however it ended.
    """

    nursery: trio.Nursery
    ask: Callable[[], Awaitable[None]]
    label: str
    tell: Callable[[str], None]
    within: float
    loaded: Callable[[], None]
    _loads: bool = attrs.field(default=False, init=False)
    _used: float = attrs.field(default=float("-inf"), init=False)

    def use(self) -> None:
        """It has just answered, so it is loaded."""
        self._used = trio.current_time()

    def begin(self) -> bool:
        """Have it loaded if it may not be. Whether it is being loaded."""
        if not self._loads and trio.current_time() - self._used >= IDLE:
            self._loads = True
            self.nursery.start_soon(self._load)
        return self._loads

    async def _load(self) -> None:
        begun = trio.current_time()
        told = False

        async def tell() -> None:
            nonlocal told
            await trio.sleep(_WORTH_TELLING)
            told = True
            self.tell(f"{self.label} is being loaded …")

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tell)
                with trio.move_on_after(self.within) as limit:
                    await self.ask()
                nursery.cancel_scope.cancel("it is over")
            took = trio.current_time() - begun
            if limit.cancelled_caught:
                self.tell(
                    f"{self.label} was not loaded in {self.within:g} s (cold_start_ms)"
                )
            elif told:
                self.tell(f"{self.label} is ready, after {took:.1f} s")
        finally:
            self.use()  # what is wrong with it, the turns say
            self._loads = False
            self.loaded()


@attrs.define(eq=False, kw_only=True)
class Line:
    """The places at one server."""

    places: int = attrs.field(default=PLACES, validator=attrs.validators.ge(1))
    loading: Loading | None = None
    _taken: int = attrs.field(default=0, init=False)
    _lot: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def enter_nowait(self) -> str:
        """Take a place, or say why there is none now.

        Raises:
          LLMError: `OVERLOADED`, if too many wait already.
        """
        if self._loads():
            why = "it is being loaded"
        elif self._taken < self.places and not self._lot:
            self._taken += 1
            return ""
        else:
            word = "place at it is" if self.places == 1 else "places at it are"
            why = f"all {self.places} {word} taken, which is places"
        if len(self._lot) >= MOST_WAITING:
            text = f"{MOST_WAITING} requests wait for it already: {why}"
            raise LLMError(ErrorKind.OVERLOADED, text)
        return why

    def take(self) -> None:
        """Take a place, free or not: for a request that others wait for."""
        self._taken += 1

    async def enter(self) -> None:
        """Wait for a place and take it, in order."""
        if self._loads() or self._taken >= self.places or self._lot:
            await self._lot.park()  # whoever lets this one in has taken its place
        else:
            self._taken += 1

    def leave(self, *, answered: bool) -> None:
        """Give a place back."""
        if answered and self.loading is not None:
            self.loading.use()
        self._taken -= 1
        self.let_in()

    def let_in(self) -> None:
        """Let in whoever waits longest, for as many as there are places."""
        while self._lot and self._taken < self.places and not self._loads():
            self._taken += 1
            self._lot.unpark()

    def _loads(self) -> bool:
        return self.loading is not None and self.loading.begin()
