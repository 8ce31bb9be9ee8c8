"""The line in front of a model's server: who is asked now, and who waits.

A server that gets more requests than it works on keeps them waiting itself, and nobody
can tell that from silence. So each has as many places as it is given, and who comes
next waits here, in order. A model on a machine of one's own is loaded first: by a
request that is nobody's turn, so that no turn's end hangs up on it. Some servers stop
loading when they are hung up on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import attrs

import trio

from .llm import ErrorKind, LLMError

MOST_WAITING: Final = 1_024
PLACES: Final = 64

IDLE: Final = 240.0  # seconds after which a server may have unloaded a model
PAUSE: Final = 2.0  # seconds between two attempts to have it loaded
_WORTH_TELLING: Final = 0.5  # seconds
_LOADING: Final = 503  # the status of llama-server while it loads


@attrs.define(eq=False, kw_only=True)
class Loading:
    """Has a model loaded, in the background.

    It is loaded when it has answered, and not before. While its server says that it is
    not ready, or is not there, it is asked again after a pause; nobody is kept waiting
    for a server that is not there.

    Args:
      nursery: where the request runs that loads it. It outlives the turns.
      ask: makes that request, and returns when there is an answer to it.
      label: the model's, for people.
      tell: told when it is being loaded, and when it is there.
      within: seconds that this may take.
    """

    nursery: trio.Nursery
    ask: Callable[[], Awaitable[None]]
    label: str
    tell: Callable[[str], None]
    within: float
    _runs: bool = attrs.field(default=False, init=False)
    _loads: bool = attrs.field(default=False, init=False)  # it is worth waiting for
    _told: bool = attrs.field(default=False, init=False)
    _used: float = attrs.field(default=float("-inf"), init=False)
    _next: float = attrs.field(default=float("-inf"), init=False)  # attempt
    _lot: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    @property
    def waiting(self) -> int:
        """How many wait until it is loaded."""
        return len(self._lot)

    def use(self) -> None:
        """It has just answered, so it is loaded."""
        self._used = trio.current_time()

    def begin(self) -> bool:
        """Have it loaded if it may not be. Whether it is being loaded."""
        now = trio.current_time()
        if not self._runs and now - self._used >= IDLE and now >= self._next:
            self._runs = self._loads = True
            self.nursery.start_soon(self._load)
        return self._loads

    async def wait(self) -> None:
        """Wait while it is being loaded."""
        while self.begin():
            await self._lot.park()

    async def _load(self) -> None:
        begun = trio.current_time()
        self._told = False
        loaded = False
        try:
            with trio.move_on_after(self.within) as limit:
                loaded = await self._loaded()
            took = trio.current_time() - begun
            if loaded:
                self.use()
            if loaded and self._told:
                self._tell(f"{self.label} is ready, after {took:.1f} s")
            elif limit.cancelled_caught and self._told:
                self._tell(
                    f"{self.label} was not loaded in {self.within:g} s (cold_start_ms)"
                )
        finally:
            self._runs = False
            self._next = trio.current_time() + PAUSE
            self._let_on()

    async def _loaded(self) -> bool:
        """Ask until it answers; False if it fails in a way that no waiting mends."""
        while (failure := await self._attempt()) is not None:
            if failure.kind is ErrorKind.UNREACHABLE:
                self._let_on()
            elif failure.status == _LOADING:
                self._tell_of_it()
            else:
                return False  # the turns will say what is wrong
            await trio.sleep(PAUSE)
            self._loads = True
        return True

    async def _attempt(self) -> LLMError | None:
        failure: LLMError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_in_a_while)
            try:
                await self.ask()
            except LLMError as error:
                failure = error
            except Exception as error:  # border: one request, which is nobody's turn
                failure = LLMError(ErrorKind.MALFORMED, repr(error))
            nursery.cancel_scope.cancel("it is over")
        return failure

    async def _tell_in_a_while(self) -> None:
        await trio.sleep(_WORTH_TELLING)
        self._tell_of_it()

    def _tell_of_it(self) -> None:
        if not self._told:
            self._told = True
            self._tell(f"{self.label} is being loaded …")

    def _let_on(self) -> None:
        self._loads = False
        self._lot.unpark_all()

    def _tell(self, text: str) -> None:
        with suppress(Exception):  # border: whoever listens ends no request
            self.tell(text)


@attrs.define(eq=False, kw_only=True)
class RequestSlots:
    """The places at one server, for all of its models.

    Args:
      models: those of them that are loaded when they are asked, by their names.
    """

    places: int = attrs.field(default=PLACES, validator=attrs.validators.ge(1))
    models: dict[str, Loading] = attrs.field(factory=dict)
    _taken: int = attrs.field(default=0, init=False)
    _lot: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    def enter_nowait(self, loading: Loading | None = None) -> str:
        """Take a place, or say why there is none now.

        Raises:
          LLMError: `OVERLOADED`, if too many wait already.
        """
        waiting = len(self._lot)
        if loading is not None and loading.begin():
            why, waiting = "it is being loaded", loading.waiting
        elif self._taken < self.places and not self._lot:
            self._taken += 1
            return ""
        else:
            word = "place at it is" if self.places == 1 else "places at it are"
            why = f"all {self.places} {word} taken, which is places"
        if waiting >= MOST_WAITING:
            text = f"{MOST_WAITING} requests wait for it already: {why}"
            raise LLMError(ErrorKind.OVERLOADED, text)
        return why

    def take(self) -> None:
        """Take a place, free or not: for a request that others wait for."""
        self._taken += 1

    async def enter(self, loading: Loading | None = None) -> None:
        """Wait for the model, then for a place, and take it, in order."""
        if loading is not None:
            await loading.wait()
        if self._taken >= self.places or self._lot:
            await self._lot.park()  # whoever lets this one in has taken its place
        else:
            self._taken += 1

    def leave(self) -> None:
        """Give a place back, to whoever waits longest for it."""
        self._taken -= 1
        if self._lot and self._taken < self.places:
            self._taken += 1
            self._lot.unpark()
