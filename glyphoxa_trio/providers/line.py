"""The queue in front of a model's server: a limit of requests at a time, and loading.

A server that gets more requests than it works on keeps them waiting itself, and its
silence does not tell that from a fault. So each server has a number of places, and the
next request waits here, in order.

A local model is loaded first, by a request that belongs to no turn, so that the end of
a turn does not cancel it. Some servers stop loading when the connection is closed.

A server nearby that may be of that kind gets no request ahead. Its first one may take
as long as a turn; if the turn leaves it unanswered, the model is loaded as above.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import attrs

import trio

from .llm import ErrorKind, LLMError

MOST_WAITING: Final = 1_024
PLACES: Final = 64

IDLE: Final = 240.0  # seconds after which a server may have unloaded a model
PAUSE: Final = 2.0  # seconds between two attempts to load a model
_WORTH_TELLING: Final = 0.5  # seconds; a shorter loading is not reported
SILENT: Final = 2.0  # seconds; a shorter silence is that of a model that is loaded
_LOADING: Final = 503  # the status of llama-server while it loads


@attrs.define(eq=False, kw_only=True)
class Loading:
    """The loading of one model, in the background.

    The model is loaded when it has answered, and not before. While its server reports
    that it is not ready, or cannot be reached, it is asked again after a pause;
    requests do not wait for a server that cannot be reached.

    Args:
      nursery: runs the loading request. It must outlive the turns.
      ask: sends that request, and returns when there is an answer to it.
      label: the model's name, for people.
      tell: called when the model is being loaded, and when it is loaded.
      within: seconds that this may take.
      ahead: False loads it only after it has kept a turn waiting in vain.
    """

    nursery: trio.Nursery
    ask: Callable[[], Awaitable[None]]
    label: str
    tell: Callable[[str], None]
    within: float
    ahead: bool = True
    _missed: bool = attrs.field(default=False, init=False)
    _runs: bool = attrs.field(default=False, init=False)
    # True while it is worth waiting for.
    _loads: bool = attrs.field(default=False, init=False)
    _told: bool = attrs.field(default=False, init=False)
    _used: float = attrs.field(default=float("-inf"), init=False)
    _next: float = attrs.field(default=float("-inf"), init=False)  # of the next attempt
    _lot: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    @property
    def waiting(self) -> int:
        """The number of requests that wait until the model is loaded."""
        return len(self._lot)

    def use(self) -> None:
        """Note that the model has just answered, so it is loaded."""
        self._used = trio.current_time()
        self._missed = False

    @property
    def unknown(self) -> bool:
        """True if a turn's own request may have to load the model."""
        idle = trio.current_time() - self._used >= IDLE
        return idle and not self.ahead and not self._loads

    @contextmanager
    def by_a_turn(self) -> Iterator[None]:
        """Wait inside for the first event of a request while it is `unknown`.

        A long silence is reported. If it is cancelled, the model is loaded on.
        """
        begun = trio.current_time()
        silence = trio.CancelScope()
        self._told = False
        self.nursery.start_soon(self._tell_of_silence, silence)
        try:
            yield
        except trio.Cancelled:
            if trio.current_time() - begun >= SILENT:
                self.missed()
            raise
        finally:
            silence.cancel()

    def missed(self, error: LLMError | None = None) -> bool:
        """Load the model after a turn got no answer; return whether it is loading.

        Args:
          error: what the turn got instead; None if it got nothing.
        """
        if error is not None and error.status != _LOADING:
            return False
        self._missed = True
        return self.begin()

    def begin(self) -> bool:
        """Start loading if the model may not be loaded.

        Returns whether it is being loaded.
        """
        now = trio.current_time()
        wanted = self.ahead or self._missed
        idle = now - self._used >= IDLE and now >= self._next
        if wanted and idle and not self._runs:
            self._runs = self._loads = True
            self.nursery.start_soon(self._load)
        return self._loads

    async def wait(self) -> None:
        """Wait while the model is being loaded."""
        while self.begin():
            await self._lot.park()

    async def _load(self) -> None:
        """Load the model, within its time, and report that."""
        begun = trio.current_time()
        self._told = self._told and not self.ahead
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
                    f"{self.label} was not loaded within {self.within:g} s"
                    " (cold_start_ms sets the time)"
                )
        finally:
            self._runs = False
            self._next = trio.current_time() + PAUSE
            self._let_on()

    async def _loaded(self) -> bool:
        """Ask until the model answers; return False if waiting would not help."""
        while (failure := await self._attempt()) is not None:
            if failure.kind is ErrorKind.UNREACHABLE:
                self._let_on()
            elif failure.status == _LOADING:
                self._tell_of_it()
            else:
                return False  # the turns will report the fault
            await trio.sleep(PAUSE)
            self._loads = True
        return True

    async def _attempt(self) -> LLMError | None:
        """Send the request once; return its failure, None if it was answered."""
        failure: LLMError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_in_a_while)
            try:
                await self.ask()
            except LLMError as error:
                failure = error
            # Border to foreign code: a request that belongs to no turn.
            except Exception as error:
                failure = LLMError(ErrorKind.MALFORMED, repr(error))
            nursery.cancel_scope.cancel("it is over")
        return failure

    async def _tell_in_a_while(self) -> None:
        """Report the loading after a while."""
        await trio.sleep(_WORTH_TELLING)
        self._tell_of_it()

    async def _tell_of_silence(self, scope: trio.CancelScope) -> None:
        """Report the silence after a while, until the scope is cancelled."""
        with scope:
            await trio.sleep(SILENT)
            self._tell_of_it(f" has sent nothing for {SILENT:g} s: perhaps it")

    def _tell_of_it(self, of: str = "") -> None:
        """Report the loading, once."""
        if not self._told:
            self._told = True
            self._tell(f"{self.label}{of} is being loaded …")

    def _let_on(self) -> None:
        """Let the waiting requests go on."""
        self._loads = False
        self._lot.unpark_all()

    def _tell(self, text: str) -> None:
        """Report a text; errors of the listener are ignored."""
        # Border to foreign code: a listener's error must not end a request.
        with suppress(Exception):
            self.tell(text)


@attrs.define(eq=False, kw_only=True)
class RequestSlots:
    """The places at one server, for all of its models.

    Args:
      places: how many requests it may work on at a time.
    """

    places: int = attrs.field(default=PLACES, validator=attrs.validators.ge(1))
    # its models that are loaded on demand, by their names
    models: dict[str, Loading] = attrs.field(factory=dict, init=False)
    _taken: int = attrs.field(default=0, init=False)
    _lot: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, init=False
    )

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a place."""
        return len(self._lot)

    def enter_nowait(self, loading: Loading | None = None) -> str:
        """Take a place and return ""; or return why there is none now.

        Raises:
          LLMError: `OVERLOADED`, if too many requests wait already.
        """
        waiting = self.waiting
        if loading is not None and loading.begin():
            why, waiting = "it is being loaded", loading.waiting
        elif self._taken < self.places and not self._lot:
            self._taken += 1
            return ""
        else:
            many = f"all {self.places} places at it are taken"
            taken = "its only place is taken" if self.places == 1 else many
            why = f"{taken} (places sets their number)"
        if waiting >= MOST_WAITING:
            text = f"{MOST_WAITING} requests wait for it already: {why}"
            raise LLMError(ErrorKind.OVERLOADED, text)
        return why

    def take(self) -> None:
        """Take a place, free or not: for a request that others wait for."""
        self._taken += 1

    async def enter(self, loading: Loading | None = None) -> None:
        """Wait for the model, then for a place, and take it, in order.

        If cancelled, no place is taken.
        """
        if loading is not None:
            await loading.wait()
        if self._taken >= self.places or self._lot:
            # The request that wakes this one has taken its place for it.
            await self._lot.park()
        else:
            self._taken += 1

    def leave(self) -> None:
        """Give a place back, or pass it to the request that has waited longest."""
        self._taken -= 1
        if self._lot and self._taken < self.places:
            self._taken += 1
            self._lot.unpark()
