"""The response loop of one interaction: the model speaks, calls, and speaks again.

This module reads the wire's events, for an NPC's turn and for a bridge without an NPC.
Calls run beside the reading: a model that does not wait for its tools is heard
meanwhile, and a user who interrupts ends both. The tool clock runs while any call runs.

The user is not left in silence. After about a second of it, while calls run or were
left running, the model is asked to say something; if everything that it waits for was
left, it is asked at once. The outcomes of such calls are told later, in an interaction
of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.host import RunsCalls
from glyphoxa_trio.npc.model_timeout import ModelTimeout
from glyphoxa_trio.providers.llm import ErrorKind, LLMError
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    CallsCancelled,
    Complaint,
    Event,
    InteractionEnded,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    Schedule,
    TranscriptLine,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .bridge import ToolBridge
from .happenings import (
    Answered,
    BargedIn,
    CallsReady,
    Happening,
    LinkBack,
    LinkGone,
    LinkLost,
    Overflowed,
)
from .interaction import Interaction
from .talk import STILL_WORKING, Talk

_RETELLINGS = 2  # per turn, over any number of lost sockets
_FATAL = (ErrorKind.RATE_LIMITED, ErrorKind.AUTHENTICATION, ErrorKind.NOT_FOUND)


class CallsRound(Protocol):
    """The calls of one response, as the maker of the turn runs them."""

    async def run(self, fan_out: RunsCalls) -> object:
        """Run the calls with ``fan_out``, within the time of the turn."""
        ...

    async def tell(self) -> None:
        """Report the outcomes to the listener. The model continues meanwhile."""
        ...


RoundOf = Callable[[int, Sequence[ToolCall], bool], CallsRound]


@attrs.frozen(eq=False)
class CallBatch:
    """The calls of one response while they run."""

    calls: tuple[ToolCall, ...]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


@attrs.define(eq=False, kw_only=True)
class ResponseLoop:
    """Reads one interaction to its end.

    Args:
      bridge: runs and answers the calls.
      interaction: the interaction to read.
      hear: receives every event of the wire in order; may wait for a slow listener.
      round_of: makes the round with this number, counted from 0, for these calls. Its
        last argument is True for the last round, in which the model may call nothing
        more.
      retell: returns what the model is told of this turn on a socket that does not know
        it; empty if there is nothing to tell.
      patience: limits the time that the model may take; None means no limit.
      first_token: how long to wait for the first event of the model, in seconds.
      silence: how long to wait for each later one, in seconds.
      max_rounds: how many rounds of calls are run.
      talk: the state of the model's silences.
    """

    bridge: ToolBridge
    interaction: Interaction
    hear: Callable[[Event], Awaitable[object]]
    round_of: RoundOf
    retell: Callable[[], tuple[TranscriptLine, ...]] = tuple
    patience: ModelTimeout | None = None
    first_token: float = 5.0
    silence: float = 5.0
    max_rounds: int = 4
    talk: Talk = attrs.field(factory=Talk)
    finished: bool = attrs.field(default=False, init=False)
    barged: bool = attrs.field(default=False, init=False)
    # the results need no spoken reply
    silent: bool = attrs.field(default=False, init=False)
    _nursery: trio.Nursery = attrs.field(init=False)
    _batches: list[CallBatch] = attrs.field(factory=list, init=False)
    _round: int = attrs.field(default=0, init=False)
    _heard: bool = attrs.field(default=False, init=False)  # a response has begun
    _expecting: bool = attrs.field(default=True, init=False)  # the model should speak
    _ended: bool = attrs.field(default=False, init=False)  # as far as is known
    _retold: int = attrs.field(default=0, init=False)

    async def run(self) -> None:
        """Return when the model has finished, or the user has interrupted it.

        Cancelling it cancels the running calls.

        Raises:
          LLMError: the model failed, or sent nothing in time.
        """
        with lone_errors():
            await self._read()

    async def _read(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            while not (self.finished or self.barged):
                await self._on(await self._take())
            # does nothing if the model has finished
            nursery.cancel_scope.cancel("the user interrupted")

    async def _take(self) -> Happening:
        """Wait for the next event, while the model's time runs."""
        patience = self.patience
        if patience is None:
            return await self.interaction.take()
        event: Happening | None = None
        with patience.fresh() as scope:
            if not self._batches:
                kind = ErrorKind.SILENCE if self._heard else ErrorKind.FIRST_TOKEN
                limit = self.silence if self._heard else self.first_token
                patience.wait_for(kind, limit)
            try:
                event = await self.interaction.take()
            finally:
                patience.pause()
        if event is not None:
            return event
        assert scope.cancelled_caught
        if self.interaction.reports and not self._heard:
            self.silent, self._expecting = True, False
            # the report was our idea: the model owes no reply
            return InteractionEnded()
        if patience.kind is ErrorKind.SILENCE and not self._asks:
            self._expecting = False
            return InteractionEnded()  # the model had nothing to say to the results
        # the model was not connected at all
        if (fault := self.bridge.live.fault) is not None:
            raise LLMError(fault.kind, fault.detail, retry_after=fault.retry_after)
        raise LLMError(patience.kind, f"{patience.what} after {patience.limit:g} s")

    async def _on(self, event: Happening) -> None:
        match event:
            case BargedIn():
                self.barged = True
                return
            case Overflowed():
                raise LLMError(
                    ErrorKind.INTERRUPTED, "the listener fell too far behind"
                )
            case LinkLost():
                return  # no event follows until there is another socket
            case LinkBack(_, heard_again=True):
                self._be_heard_again()
                return
            case LinkBack(resumed):
                self._come_back(resumed=resumed)
                return
            case LinkGone(error):
                raise LLMError(error.kind, error.detail, retry_after=error.retry_after)
            case Answered():
                if self._ended or (self._waits_for_none and not self.talk.going_on):
                    self._finish_if_done()
                return
            case CallsReady(_, calls):
                batch = CallBatch(calls)
                self._batches.append(batch)
                self._watch()
                self._nursery.start_soon(self._answer, batch)
                return
            case _:
                pass
        if isinstance(event, ResponseStarted):
            self._heard, self._expecting, self._ended = True, False, False
            self.talk.begins()
        elif isinstance(event, AudioOut):
            rate = self.bridge.live.capabilities.output_rate
            seconds = len(event.pcm) / 2 / rate
            self.talk.is_heard(trio.current_time(), seconds)
            if self.patience is not None:
                self.patience.speaks(seconds)
        elif isinstance(event, ResponseEnded):
            self.talk.ends()
        await self.hear(event)
        match event:
            case ResponseEnded(end=ResponseEnd.FAILED, detail=detail):
                raise LLMError(ErrorKind.OVERLOADED, detail or "the response failed")
            case ResponseEnded() if self._asks or self._waits_for_none:
                self._finish_if_done()
            case InteractionEnded():
                self._finish_if_done()
            case CallsCancelled(ids):
                for batch in self._batches:
                    if all(call.id in ids for call in batch.calls):
                        batch.scope.cancel("the server cancelled the calls")
            case Complaint(kind=kind, detail=detail) if kind in _FATAL:
                if self._expecting and not self._batches:
                    raise LLMError(kind, detail)

    @property
    def _asks(self) -> bool:
        return self.bridge.live.capabilities.asks_for_responses

    @property
    def _waits_for_none(self) -> bool:
        """True if calls that were left still run, and no others.

        A server that waits for all its calls does not say, meanwhile, that the model
        has finished.
        """
        return not self._asks and self.bridge.live.has_left and not self._batches

    def _finish_if_done(self) -> None:
        self._ended = True
        self.finished = not self._batches and not self._expecting

    def _be_heard_again(self) -> None:
        """Expect an answer again: the utterance's audio is sent to another socket."""
        self._retold += 1
        if self._retold > _RETELLINGS:
            raise LLMError(ErrorKind.INTERRUPTED, "its connection was lost")
        self._expecting = True

    def _come_back(self, *, resumed: bool) -> None:
        """Continue on another socket; the response that was running is lost."""
        live = self.bridge.live
        if self._batches:
            if not resumed:
                for line in self.retell():
                    live.say(line, reply=False)
            return  # the results of the calls ask for the rest
        lines = () if resumed and self._heard else self.retell()
        self._retold += 1
        if self._retold > _RETELLINGS or not (lines or resumed):
            raise LLMError(ErrorKind.INTERRUPTED, "its connection was lost")
        for line in lines[:-1]:
            live.say(line, reply=False)
        if lines:
            live.say(lines[-1])
        else:
            live.respond()
        self._expecting = True

    async def _answer(self, batch: CallBatch) -> None:
        """Run one round of calls, answer each, and let the model continue."""
        index, bridge = self._round, self.bridge
        self._round += 1
        last = index >= self.max_rounds
        round_ = self.round_of(index, batch.calls, last)
        try:
            with batch.scope:
                await round_.run(bridge.run)
        finally:
            self._batches.remove(batch)
            self.talk.waits(trio.current_time())
            bridge.live.refuse(batch.calls)  # calls that were not run
            self.interaction.put(Answered())
        if not batch.scope.cancelled_caught:
            silent = all(
                bridge.schedule_of(call) is Schedule.SILENT for call in batch.calls
            )
            if silent and not last:
                self.silent = True
                self._expecting = False
            else:
                self._go_on(batch, last=last)
            await round_.tell()

    def _go_on(self, batch: CallBatch, *, last: bool) -> None:
        """Have the model speak of the results, or of the calls left running."""
        bridge, live = self.bridge, self.bridge.live
        bridge.refresh()  # tools may have been loaded meanwhile
        left = [call for call in batch.calls if live.goes_on(call)]
        if len(left) < len(batch.calls):
            self._expecting = True
            live.respond(tools_forbidden=last or not bridge.showing.shown)
        elif self._asks and not self.talk.over:
            self._talk_over()
        elif not self.talk.over:
            self._expecting = True
            if any(bridge.stays_owed(call) for call in left):
                self.talk.is_due()

    def _watch(self) -> None:
        """Watch for silence from now on, because calls are starting."""
        self.talk.waits(trio.current_time())
        if self.talk.calls_begin():
            self._nursery.start_soon(self._end_silences)

    async def _end_silences(self) -> None:
        talk = self.talk
        while True:
            await trio.sleep_until(talk.until + self._pause)
            if trio.current_time() < talk.until + self._pause:
                continue
            talk.waits(trio.current_time())
            beside = self._runs_beside_talk and not talk.fills
            if not talk.going_on and (talk.due or beside):
                self._talk_over()

    @property
    def _running(self) -> list[ToolCall]:
        return [call for batch in self._batches for call in batch.calls]

    @property
    def _pause(self) -> float:
        """The longest silence that the model may make, in seconds."""
        return self.bridge.patience(self._running)

    @property
    def _runs_beside_talk(self) -> bool:
        """True if calls run and the model may talk meanwhile."""
        owed = [call for call in self._running if self.bridge.live.owes(call)]
        return bool(owed) and all(self.bridge.stays_owed(call) for call in owed)

    def _talk_over(self) -> None:
        """Ask the model to say something while it waits for its calls."""
        live = self.bridge.live
        self._expecting = True
        self.talk.is_asked()
        if self._asks:
            live.respond(instructions=STILL_WORKING, tools_forbidden=True)
        else:
            live.say(TranscriptLine("user", f"({STILL_WORKING})"))
