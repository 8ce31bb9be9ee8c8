"""Turn a Gemini Live model's messages into responses, one turn after another.

The protocol has turns and no responses, so responses are defined here: one begins with
the first output of a turn, or the first after a call, and ends with the turn, an
interruption or a call. A call is complete when it arrives, and a model that waits for
its tools says nothing more until they are answered; so a call ends its response at
once. Results are sent back by the call's id.

A response that was requested and then cancelled is never reported, although the server
may have started it: until the server confirms that it has stopped, its output is
dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    CallReady,
    CallsCancelled,
    Complaint,
    Event,
    InteractionEnded,
    Interrupted,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    Spoken,
)
from glyphoxa_trio.providers.schemas.values import listed, mapping
from glyphoxa_trio.tools.outcome import ToolCall

from . import incoming
from .calls import Calls
from .hearing import Hearing

STOPPING: Final = 3.0  # seconds in which a server confirms that it has stopped

_ORDINARY: Final = frozenset(
    {"", "TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT"}
)
# States of an interaction that continues.
_GOES_ON: Final = ("IN_PROGRESS", "REQUIRES_ACTION")
# All other reasons are filters.
_FAILED: Final = frozenset({"MALFORMED_FUNCTION_CALL", "MAX_REGENERATION_REACHED"})


@attrs.define(eq=False, kw_only=True)
class Turns:
    """The model's side of one socket.

    Args:
      new_id: makes ids of responses, and of calls that have none.
      speaks: True if its audio is wanted, not only the transcript.
      ends_with_status: see `Profile`.
      hearing: the user's utterances.
      asked: True if an answer was requested, and has not begun.
    """

    new_id: Callable[[], str]
    speaks: bool
    ends_with_status: bool
    hearing: Hearing
    asked: bool = False
    calls: Calls = attrs.field(init=False)
    _response: str | None = attrs.field(default=None, init=False)
    # Of the current turn: the last response, and how the turn went.
    _last: str | None = attrs.field(default=None, init=False)
    _was_interrupted: bool = attrs.field(default=False, init=False)
    _cancelling: bool = attrs.field(default=False, init=False)
    # True if an explicit request has not been answered, cancelled or not.
    _requested: bool = attrs.field(default=False, init=False)
    _to_text: bool = attrs.field(default=False, init=False)  # or to a result
    _in_progress: bool = attrs.field(default=False, init=False)  # beyond its turn
    _resumes: bool = attrs.field(default=False, init=False)
    _for_nobody_until: float = attrs.field(default=-inf, init=False)
    _refused: list[ToolCall] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.calls = Calls(self.new_id)

    def is_idle(self, now: float) -> bool:
        """Return True if nothing is being said, expected or unanswered."""
        waits = self.hearing.waits(now)
        return not (self.is_busy or waits or self.calls.owed)

    @property
    def is_busy(self) -> bool:
        """True during a turn, and while a requested answer has not begun."""
        return self._last is not None or self.asked

    def ask(self, *, to_text: bool = True, resumes: bool = False) -> None:
        """Note that the client requests an answer.

        Args:
          to_text: the request is text or a result, not speech.
          resumes: the answer continues the current turn.
        """
        self.asked = self._requested = True
        self._to_text, self._resumes = to_text, resumes

    def cancel(self, now: float) -> None:
        """Note that the client stops the current response, or one it has requested."""
        if self._requested and self._response is None:
            self._for_nobody_until = now + STOPPING
        self.asked = self._requested = self._to_text = False
        self._cancelling = True

    def take(self, bag: Mapping[str, Any], now: float) -> list[Event]:
        """Return the events of a message.

        The order inside a message is ours: the user's words, the model's words, calls,
        cancellations, and the end of the turn.
        """
        events: list[Event] = []
        content = mapping(bag.get("serverContent"))
        self._hear(content, events, now)
        calls = self._say(content, events, now)
        calls += listed(mapping(bag.get("toolCall")).get("functionCalls"))
        self._call(calls, events, now)
        ids = listed(mapping(bag.get("toolCallCancellation")).get("ids"))
        if gone := self.calls.cancel(i for i in ids if isinstance(i, str)):
            events.append(CallsCancelled(gone))
        if content.get("interrupted") is True:
            self._interrupt(events, now)
        status = content.get("interactionStatus")
        complete = content.get("turnComplete") is True
        # A server that has not read the latest request may still report IDLE.
        stale = self._requested and self._last is None
        if status is not None:
            # The interaction may only wait for a call. A model that thinks may say
            # more.
            waits = self.calls.owed and not self.ends_with_status
            self._in_progress = status in _GOES_ON and not waits
        if complete or (status == "IDLE" and not stale):
            reason = incoming.text(content.get("turnCompleteReason"))[:64]
            self._complete("" if reason in _ORDINARY else reason, events, now)
            if self._is_over(status):
                events.append(InteractionEnded())
        return events

    def take_refused(self) -> list[ToolCall]:
        """Return and reset the dropped calls, which must be answered all the same."""
        refused, self._refused = self._refused, []
        return refused

    def _hear(
        self, content: Mapping[str, Any], events: list[Event], now: float
    ) -> None:
        """Take the user's transcript."""
        heard = mapping(content.get("inputTranscription"))
        text = incoming.text(heard.get("text"))
        events += self.hearing.piece(
            text,
            now,
            answering=self._last is not None and not self._was_interrupted,
            last=heard.get("finished") is True,
        )

    def _say(
        self, content: Mapping[str, Any], events: list[Event], now: float
    ) -> list[Any]:
        """Take the model's speech and transcript; return the calls among the parts."""
        calls: list[Any] = []
        unheard = now < self._for_nobody_until
        for part in map(
            mapping, listed(mapping(content.get("modelTurn")).get("parts"))
        ):
            if "functionCall" in part:
                calls.append(part["functionCall"])
            try:
                pcm = incoming.audio_of(part)
            except ValueError as error:
                events.append(incoming.malformed(str(error)))
                continue
            if pcm and not unheard:
                response = self._begin(events, now)
                if self.speaks:
                    events.append(AudioOut(response, response, pcm))
        # Speech comes with a transcript; text among the parts is thoughts.
        said = incoming.text(mapping(content.get("outputTranscription")).get("text"))
        if said and not unheard:
            # Transcripts are late: this may belong to a response that a call has ended.
            response = self._response or self._last or self._begin(events, now)
            events.append(Spoken(response, response, said))
        return calls

    def _call(self, calls: list[Any], events: list[Event], now: float) -> None:
        """Take calls."""
        taken: list[ToolCall] = []
        for value in calls:
            given, name, arguments = incoming.call_of(value)
            call = self.calls.take(given, name, arguments)
            taken += [call] if call is not None else []
        if not taken:
            return
        if now < self._for_nobody_until:
            self._refused += taken
            return
        response = self._begin(events, now)
        events += self.hearing.finish()
        events += [CallReady(response, call, more=True) for call in taken[:-1]]
        events.append(CallReady(response, taken[-1]))
        self._end(events, ResponseEnd.COMPLETED, calls=tuple(taken))

    def _interrupt(self, events: list[Event], now: float) -> None:
        """Take an interruption."""
        if not self._cancelling:  # otherwise it was the client, and no user speaks
            events += self.hearing.interrupted(now)
            self._to_text = False
        if self._response is not None:
            events.append(Interrupted())
            self._end(events, ResponseEnd.CANCELLED)
        # Otherwise it confirms our own, of a response that had not begun.
        elif not self._cancelling:
            events.append(Interrupted())
        self._was_interrupted, self._cancelling = True, False
        self._in_progress = False
        self._for_nobody_until = -inf

    def _complete(self, reason: str, events: list[Event], now: float) -> None:
        """End the turn; ``reason`` is given if it did not end normally."""
        if not self._was_interrupted:
            events += self.hearing.turn_ends(now)
        end = ResponseEnd.COMPLETED
        if reason:
            failed = reason in _FAILED
            end = ResponseEnd.FAILED if failed else ResponseEnd.INCOMPLETE
            kind = ErrorKind.MALFORMED if failed else ErrorKind.BAD_REQUEST
            detail = f"the turn ended with {reason}"
            events.append(Complaint(kind=kind, code=reason, detail=detail))
        unheard = self._was_interrupted or now < self._for_nobody_until
        expected = self.asked or self.hearing.waits(now)
        if self._last is None and not unheard and (expected or reason):
            self._begin(events, now)  # an empty answer is an answer as well
        if self._response is not None:
            self._end(events, end, detail=reason)
        if self._resumes:  # it had nothing more to say
            self.asked = self._requested = self._resumes = self._to_text = False
        self._last, self._was_interrupted, self._cancelling = None, False, False
        self._for_nobody_until = -inf
        self.calls.end_turn()

    def _is_over(self, status: object) -> bool:
        """Return whether the model owes nothing, now that its turn has ended."""
        if status == "IDLE":
            return True
        if self.ends_with_status or status in _GOES_ON:
            return False
        return not (self.calls.owed or self.asked)

    def _begin(self, events: list[Event], now: float) -> str:
        """Return the current response; start one if there is none."""
        if self._response is None:
            goes_on = self._last is not None or self._in_progress
            heard: str | None = None
            if not self._to_text and (self.hearing.unanswered or not goes_on):
                events += self.hearing.answer_begins(now)
                heard = self.hearing.item
            self._response = self._last = self.new_id()
            self.asked = self._requested = self._cancelling = False
            self._resumes = self._to_text = self._in_progress = False
            events.append(ResponseStarted(self._response, heard))
        return self._response

    def _end(
        self,
        events: list[Event],
        end: ResponseEnd,
        *,
        calls: tuple[ToolCall, ...] = (),
        detail: str = "",
    ) -> None:
        """End the current response."""
        assert self._response is not None
        events.append(
            ResponseEnded(response=self._response, end=end, calls=calls, detail=detail)
        )
        self._response = None
