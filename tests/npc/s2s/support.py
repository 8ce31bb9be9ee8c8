"""A speech-to-speech model at the level of the contract: a test plays the server.

`Links` opens one `ScriptedLink` a socket; a test lets it say events and reads what it
was sent. Each link judges what it is sent as a wire would: a call is answered once, on
its own socket, and never when it was cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import attrs

import trio

from glyphoxa_trio.npc.s2s import LiveSettings, RealtimeConversation
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    Calling,
    CallReady,
    CallsCancelled,
    Cancel,
    Capabilities,
    Command,
    Event,
    InteractionEnded,
    LinkClosed,
    LinkStatistics,
    Ready,
    Respond,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    Schedule,
    SendResult,
    SetTools,
    Setup,
    Spoken,
    ToolsInForce,
)
from glyphoxa_trio.tools.outcome import ToolCall

C = TypeVar("C")

ASKS: Final = Capabilities(
    live_tools=True,
    acknowledges_tools=True,
    asks_for_responses=True,
    takes_text=True,
    silent_text=True,
    forgets_text=True,
    cancels=True,
    truncates=True,
    forbids_tools=True,
    calling=(Calling.BLOCKING,),
    stays_owed=frozenset(Calling),
    scheduling=frozenset(),
    resumes=False,
    lifetime=None,
    input_rate=24_000,
    output_rate=24_000,
    max_tools=128,
    max_result=16 * 1024,
)
ANSWERS: Final = attrs.evolve(
    ASKS,
    live_tools=False,
    acknowledges_tools=False,
    asks_for_responses=False,
    forgets_text=False,
    cancels=False,
    truncates=False,
    forbids_tools=False,
    calling=(Calling.BLOCKING, Calling.NON_BLOCKING),
    stays_owed=frozenset({Calling.NON_BLOCKING}),
    scheduling=frozenset(Schedule),
    resumes=True,
    lifetime=600.0,
    input_rate=16_000,
    max_result=4096,
)


def lost(code: int = 1006, *, retryable: bool = True) -> LinkClosed:
    return LinkClosed(
        ErrorKind.INTERRUPTED, f"closed ({code})", retryable=retryable, code=code
    )


@attrs.define(eq=False)
class ScriptedLink:
    """One socket. ``faults`` is what no wire would have taken."""

    setup: Setup
    capabilities: Capabilities
    sent: list[tuple[float, Command]] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)
    closed: bool = False
    on_send: Any = None
    _events: deque[Event | LinkClosed] = attrs.field(factory=deque, init=False)
    _arrived: trio.Event = attrs.field(factory=trio.Event, init=False)
    _asked: set[str] = attrs.field(factory=set, init=False)
    _answered: set[str] = attrs.field(factory=set, init=False)

    def send(self, command: Command) -> None:
        if self.closed:
            return
        self.sent.append((trio.current_time(), command))
        match command:
            case SendResult(call_id=id_):
                if id_ not in self._asked or id_ in self._answered:
                    self.faults.append(f"no answer to {id_} is wanted")
                if len(command.output.encode()) > self.capabilities.max_result:
                    self.faults.append("a result above the cap")
                self._answered.add(id_)
            case SetTools(_, revision):
                if not self.capabilities.live_tools:
                    self.faults.append("the tools of this socket do not change")
                self.push(ToolsInForce(revision))
            case Respond() if not self.capabilities.asks_for_responses:
                self.faults.append("this model answers by itself")
            case Cancel() if not self.capabilities.cancels:
                self.faults.append("this model cannot be cancelled")
            case _:
                pass
        if self.on_send is not None:
            self.on_send(self, command)

    async def receive(self) -> Event:
        await trio.lowlevel.checkpoint()
        while not self._events:
            self._arrived = trio.Event()
            await self._arrived.wait()
        if isinstance(event := self._events[0], LinkClosed):
            self.closed = True
            raise event
        self._events.popleft()
        if isinstance(event, CallsCancelled):  # from here on the client knows
            self._answered |= set(event.ids)
        return event

    def push(self, *events: Event | LinkClosed) -> None:
        """The server says this."""
        for event in events:
            match event:
                case CallReady(call=call):
                    self._asked.add(call.id)
                case ResponseEnded(calls=calls, void=void):
                    self._asked |= {call.id for call in calls} | set(void)
                case _:
                    pass
            self._events.append(event)
        self._arrived.set()

    def speak(
        self,
        response: str,
        *words: str,
        calls: Sequence[ToolCall] = (),
        heard: str | None = None,
    ) -> None:
        """A whole response: words with a tenth of a second of audio each."""
        self.push(ResponseStarted(response, heard))
        tenth = bytes(self.capabilities.output_rate // 10 * 2)
        for text in words:
            self.push(
                Spoken(response, f"{response}.item", text),
                AudioOut(response, f"{response}.item", tenth),
            )
        last = len(calls) - 1
        self.push(*(CallReady(response, c, more=i < last) for i, c in enumerate(calls)))
        self.push(
            ResponseEnded(
                response=response, end=ResponseEnd.COMPLETED, calls=tuple(calls)
            )
        )
        if not self.capabilities.asks_for_responses and not calls:
            self.push(InteractionEnded())

    def take_all(self) -> list[Event]:
        """What was said and not received, for a test that delivers it itself."""
        said = [event for event in self._events if not isinstance(event, LinkClosed)]
        self._events.clear()
        return said

    def all(self, kind: type[C]) -> list[C]:
        return [command for _, command in self.sent if isinstance(command, kind)]

    def statistics(self) -> LinkStatistics:
        return LinkStatistics(
            sent=len(self.sent), received=0, audio_dropped=0, unknown={}
        )


@attrs.define(eq=False)
class Links:
    """A provider. ``refusals`` are what the next attempts to connect come to."""

    capabilities: Capabilities = ASKS
    delay: float = 0.0
    refusals: deque[LinkClosed] = attrs.field(factory=deque)
    opened: list[ScriptedLink] = attrs.field(factory=list)
    tried: list[float] = attrs.field(factory=list)
    on_send: Any = None

    @property
    def label(self) -> str:
        return "scripted at home"

    @asynccontextmanager
    async def connect(self, setup: Setup) -> AsyncIterator[ScriptedLink]:
        self.tried.append(trio.current_time())
        await trio.sleep(self.delay)
        if self.refusals:
            raise self.refusals.popleft()
        link = ScriptedLink(setup, self.capabilities, on_send=self.on_send)
        link.push(Ready(resumed=setup.handle is not None))
        self.opened.append(link)
        try:
            yield link
        finally:
            link.closed = True

    @property
    def last(self) -> ScriptedLink:
        return self.opened[-1]

    @property
    def faults(self) -> list[str]:
        return [fault for link in self.opened for fault in link.faults]


def live(links: Links, **settings: Any) -> RealtimeConversation:
    """A conversation with it; delays between attempts are exact."""
    from glyphoxa_trio.actors import Backoff

    backoff = Backoff(first=0.5, ceiling=4.0, max_restarts=3, jitter=0.0)
    return RealtimeConversation(
        provider=links, settings=LiveSettings(backoff=backoff, **settings)
    )
