"""What a recording puts between a runtime and what it meets: models, handlers, players.

Each passes on what it is given, and notes it. `where` says, in the task of a turn,
which of its rounds runs: a model is not told that.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Final, Protocol

import attrs
import outcome

import trio

from glyphoxa_trio.actors import Ref, Request, Stream
from glyphoxa_trio.actors.flight import FlightEnded
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import FanOutDone, ToolsShown, TurnDone, TurnEvent
from glyphoxa_trio.providers.llm import (
    LLM,
    CallReady,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    CallContext,
    ConnectionLost,
    Tool,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult

from .recording_hiding import AsJson, Hiding, Later
from .stepping import Quiet

# Of blocking handlers, as `Flights` has them.
_THREADS: Final = 40
_THREADS_PER_TOOL: Final = 8

where: ContextVar[tuple[str, int, int]] = ContextVar("where", default=("", 0, 0))
"""NPC, turn and round of whatever runs in this task."""


def mark(event: TurnEvent) -> None:
    """To be called with each event in the moment in which it is published."""
    if isinstance(event, ToolsShown):
        where.set((event.npc, event.turn, event.round))


FAILURES: Final[Mapping[str, type[GlyphoxaError]]] = {
    "answer_unusable": AnswerUnusable,  # one of the next, so before it
    "tool_error": ToolError,
    "unavailable": ToolUnavailable,
    "connection_lost": ConnectionLost,
    "failed": GlyphoxaError,
}
"""What a handler may raise on purpose, as a recording names it. All else is a bug."""


class Note(Protocol):
    """Takes one line: its kind, and its fields."""

    def __call__(self, kind: str, /, **fields: Any) -> None: ...


def digest(request: LLMRequest, hiding: Hiding) -> str:
    """What a model is asked, as a short text that tells it from anything else."""
    plain = json.dumps(hiding.plain(request), sort_keys=True)
    return sha256(plain.encode()).hexdigest()[:16]


# Models.


@attrs.define(eq=False)
class HeardModel:
    """Somebody's model.

    Args:
      number: gives each request its own.
      asked: told which NPC has just asked, when that is noted.
    """

    spoken_by: LLM
    _note: Note
    _number: Callable[[], int]
    _asked: Callable[[str], None]

    @property
    def label(self) -> str:
        return self.spoken_by.label

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        number, began = self._number(), trio.current_time()
        npc, turn, round_ = where.get()
        self._note(
            "request",
            request=number,
            npc=npc,
            turn=turn,
            round=round_,
            prompt=Later(lambda hiding: digest(request, hiding)),
        )
        self._asked(npc)
        hung_up = began
        try:
            async with self.spoken_by.stream(request) as events:
                if trio.current_time() > began:
                    self._note("model", request=number, connected=True)
                try:
                    yield HeardWords(events, self._note, number)
                finally:
                    hung_up = trio.current_time()
            if trio.current_time() > hung_up:
                self._note("model", request=number, hung_up=hung_up)
        except Exception as error:  # border: a model's link is foreign code
            if not isinstance(error, LLMError):
                failed: dict[str, Any] = {"error": type(error).__name__}
                failed["detail"] = str(error)
            else:
                failed = {"kind": error.kind, "detail": error.detail}
            self._note("model", request=number, failed=failed)
            raise


@attrs.define(eq=False)
class HeardWords:
    """What a model says, event by event."""

    _events: AsyncIterator[LLMEvent]
    _note: Note
    _request: int

    def __aiter__(self) -> HeardWords:
        return self

    async def __anext__(self) -> LLMEvent:
        event = await self._events.__anext__()
        match event:
            case TextChunk(text):
                self._note("model", request=self._request, text=text)
            case CallReady(call):
                self._note("model", request=self._request, call=call)
            case Finished():
                self._note("model", request=self._request, finished=event)
            case _:
                self._note("model", request=self._request, working=True)
        return event


# Handlers.


@attrs.frozen
class HeardHandler:
    """A tool's handler, as `Tool.handler` of its stand-in.

    A blocking one runs in a thread of ours: what the host launches in a thread ends
    there at a moment that nobody else is told of. Cancelled, it is waited for as the
    host waits for any flight, until it stops or the recording ends.
    """

    tool: Tool
    _threads: Threads = attrs.field(eq=False)
    _note: Note = attrs.field(eq=False)
    _number: Callable[[], int] = attrs.field(eq=False)

    async def __call__(self, arguments: Mapping[str, Any], context: CallContext) -> Any:
        number, key = self._number(), self.tool.key
        whose: dict[str, Any]
        whose = {"npc": context.npc, "id": context.call_id} if context.npc else {}
        if context.call_id == "probe":
            whose = {"until": context.deadline}
        asked = AsJson(json.dumps(arguments))
        self._note("call", call=number, tool=key, arguments=asked, **whose)
        try:
            if self.tool.blocking:
                value = await self._threads.run(
                    key, self.tool.handler, arguments, context
                )
            else:
                value = await self.tool.handler(arguments, context)  # type: ignore[misc]
        except trio.Cancelled:
            self._note("answer", call=number, cancelled=True)
            raise
        except SystemExit as error:
            ended = FlightEnded(repr(error))
            self._note("answer", call=number, error=_failure(ended))
            raise
        except Exception as error:  # border: the handler is foreign code
            self._note("answer", call=number, error=_failure(error))
            raise
        except BaseException:
            self._note("answer", call=number, cancelled=True)
            raise
        self._note("answer", call=number, **_answer(value), **_in_spite())
        return value


def _answer(value: object) -> dict[str, Any]:
    try:
        result = ToolResult.of(value)
        return {"result": AsJson(json.dumps(attrs.asdict(result)))}
    except Exception as error:  # border: the value is foreign, and no result
        return {"error": _failure(error)}


def _in_spite() -> dict[str, Any]:
    cancelled = trio.current_effective_deadline() == -float("inf")
    return {"in_spite": True} if cancelled else {}


def _failure(error: Exception) -> dict[str, Any]:
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    known = (name for name, kind in FAILURES.items() if isinstance(error, kind))
    kind = next(known, "crashed")
    crash = {"error": type(error).__name__} if kind == "crashed" else {}
    return {"kind": kind, **crash, "detail": str(error)}


@attrs.define(eq=False)
class Threads:
    """Runs blocking handlers. One that goes on after its cancellation holds its task,
    so that the host counts it, but not beyond ``over``."""

    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _all: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(_THREADS), init=False
    )
    _seats: dict[str, trio.CapacityLimiter] = attrs.field(factory=dict, init=False)

    async def run(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        seats = self._seats.get(key)
        if seats is None:
            seats = self._seats[key] = trio.CapacityLimiter(_THREADS_PER_TOOL)
        token, ended = trio.lowlevel.current_trio_token(), trio.Event()
        # Each side first says what it did and then looks what the other did.
        began = done = cancelled = False

        def work() -> Any:
            nonlocal began, done
            began = True
            try:
                return outcome.capture(function, *args)
            finally:
                done = True
                if cancelled:
                    _tell(token, ended)

        async with seats:
            try:
                result = await trio.to_thread.run_sync(
                    work, abandon_on_cancel=True, limiter=self._all
                )
            except trio.Cancelled:
                cancelled = True
                if began and not done:
                    with trio.CancelScope(shield=True):
                        await _either(ended, self.over)
                raise
            return result.unwrap()


def _tell(token: trio.lowlevel.TrioToken, ended: trio.Event) -> None:
    with suppress(trio.RunFinishedError):  # nobody waits any more
        token.run_sync_soon(ended.set)


async def _either(one: trio.Event, other: trio.Event) -> None:
    async def end_after(event: trio.Event) -> None:
        await event.wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_after, one)
        nursery.start_soon(end_after, other)


# Players.


@attrs.frozen(eq=False)
class HeardRef(Ref[Any]):
    """An NPC's session.

    Args:
      told: called with each message; it returns the one that is sent instead.
      quiet: what people do comes last of all that happens at one instant, so that a
        replay knows its place. None is a clock on which nothing has one.
    """

    told: Callable[[Request[Any]], Request[Any]] = attrs.field(kw_only=True)
    quiet: Quiet | None = attrs.field(kw_only=True)

    async def ask(self, request: Request[Any], *, within: float) -> Any:
        if self.quiet is not None:
            with trio.fail_after(within):
                await until_quiet(self.quiet)
        return await super().ask(self.told(request), within=within)

    @classmethod
    def of(
        cls,
        ref: Ref[Any],
        told: Callable[[Request[Any]], Request[Any]],
        quiet: Quiet | None,
    ) -> HeardRef:
        if isinstance(ref, HeardRef):
            return ref
        sending = ref.name, ref._channel, ref._stopped, ref._counts
        return cls(*sending, told=told, quiet=quiet)


async def until_quiet(quiet: Quiet, *, first: bool = False) -> None:
    event = trio.Event()
    quiet.when_quiet(event.set, first=first)
    await event.wait()


@attrs.define(eq=False)
class HeardStream(Stream[TurnEvent]):
    """What a listener hears of one turn. Noted is when it took its time, and where
    it left: that decides what an NPC remembers of its own words."""

    say: int = attrs.field(kw_only=True)
    note: Note = attrs.field(kw_only=True)
    scope: trio.CancelScope = attrs.field(kw_only=True)
    quiet: Quiet | None = attrs.field(kw_only=True)
    _asked: int = attrs.field(default=0, init=False)
    _got: int = attrs.field(default=0, init=False)
    _given_at: float | None = attrs.field(default=None, init=False)
    _is_over: bool = attrs.field(default=False, init=False)
    gone: bool = attrs.field(default=False, init=False)

    def tell_if_behind(self) -> None:
        """Note how far it has come, if there is more to hear at this moment."""
        if self._events or self._handed:
            self.note("heard", say=self.say, events=self._asked)

    async def __anext__(self) -> TurnEvent:
        if self._given_at is not None and trio.current_time() > self._given_at:
            self.note("heard", say=self.say, events=self._asked)
        self._asked += 1
        event = await super().__anext__()
        self._given_at = trio.current_time()
        self._got += 1
        self._is_over = isinstance(event, TurnDone)
        return event

    async def send(self, event: TurnEvent) -> None:
        if self.quiet is not None and isinstance(event, FanOutDone):
            # What the calls say of their tools counts from the next round on, and
            # is told to an actor: it must not depend on who is first.
            await until_quiet(self.quiet, first=True)
        await super().send(event)

    def leave(self) -> None:
        if self.quiet is None or self._is_over:
            self._leave()
        else:
            self.quiet.when_quiet(self._leave)

    def _leave(self) -> None:
        over = {"over": True} if self._is_over else {}
        self.note("left", say=self.say, asked=self._asked, got=self._got, **over)
        self.gone = True
        self.scope.cancel("the listener left")
        super().leave()
