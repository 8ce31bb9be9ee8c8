"""The responses of one socket: their output, their calls, and how they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.g711 import Law
from glyphoxa_trio.providers.llm import ErrorKind, Usage
from glyphoxa_trio.providers.payloads import count, string
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    CallReady,
    Complaint,
    Event,
    InteractionEnded,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SendResult,
    Spoken,
)
from glyphoxa_trio.secret import Secret

from .answers import Item, Items, Response
from .calls import Calls
from .complaints import complaint
from .sequencer import Sequencer, SequencerState

_ENDS: Final[Mapping[str, ResponseEnd]] = {
    "completed": ResponseEnd.COMPLETED,
    "cancelled": ResponseEnd.CANCELLED,
    "incomplete": ResponseEnd.INCOMPLETE,
}

Message = dict[str, Any]


@attrs.define(eq=False)
class Responding:
    """All responses of one socket.

    Args:
      sequencer: is told when responses start and end.
      model: the name under which the usage has a price.
      secret: removed from the server's words that are quoted.
      unknown: called with the name of each thing that has no meaning here.
      law: of G.711, if the audio is encoded so.
    """

    sequencer: Sequencer
    _model: str
    _secret: Secret | None = attrs.field(repr=False)
    _unknown: Callable[[str], None] = attrs.field(repr=False)
    _law: Law | None = None
    _running: dict[str, Response] = attrs.field(factory=dict, init=False)
    _over: deque[str] = attrs.field(factory=lambda: deque(maxlen=64), init=False)
    _items: Items = attrs.field(init=False)
    _calls: Calls = attrs.field(factory=Calls, init=False)
    _due: list[SendResult] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._items = Items(self._law)

    def answer(self, result: SendResult) -> None:
        """Take a result; it is `due` once the response of its call is over.

        Raises:
          ValueError: see `Calls.answer`.
        """
        due = self._calls.answer(result)
        if due is not None:
            self._due.append(due)

    def due(self) -> list[SendResult]:
        """Return the results to send now."""
        due, self._due = self._due, []
        return due

    def item(self, item_id: str) -> Item | None:
        """Return an item, None if it is not known."""
        return self._items.known(item_id)

    def wake(self, now: float) -> list[Event]:
        """Give up a response that is overdue: the sequencer's alarm was reached."""
        running = self.sequencer.response
        given_up = self.sequencer.wake(now)
        if given_up is None:
            return []
        what = "created" if given_up is SequencerState.CREATING else "ended"
        detail = f"the server has not {what} a response in time"
        events: list[Event] = [
            Complaint(
                kind=ErrorKind.SILENCE, code=f"response_not_{what}", detail=detail
            )
        ]
        if running is not None:
            events += self._end(running, ResponseEnd.FAILED, detail=detail)
        return events

    def on_created(self, message: Message, now: float) -> list[Event]:
        """Take ``response.created``."""
        response = _object(message.get("response"))
        response_id = string(response.get("id"))
        if response_id in self._running or response_id in self._over:
            return []
        events: list[Event] = []
        for older in list(self._running):  # its end was lost
            events += self._end(older, ResponseEnd.FAILED, detail="superseded")
        self.sequencer.started(response_id, now)
        self._running[response_id] = Response(response_id)
        return [*events, ResponseStarted(response_id)]

    def on_audio(self, message: Message, _: float) -> list[Event]:
        """Take a piece of audio."""
        response = self._of(message)
        if response is None:
            return []
        item_id = string(message.get("item_id"))
        item = self._items.of(item_id)
        try:
            base64 = string(message.get("delta"))
            pcm = item.hear(count(message.get("content_index")), base64)
        except ValueError:
            self._unknown("audio that is not base64")
            return []
        return [AudioOut(response.id, item_id, pcm)] if pcm else []

    def on_words(self, message: Message, _: float) -> list[Event]:
        """Take a piece of text."""
        return self._words(message, whole=None)

    def on_all_words(self, message: Message, _: float) -> list[Event]:
        """Take the whole text of a part."""
        said = message.get("transcript", message.get("text"))
        return self._words(message, whole=string(said))

    def _words(self, message: Message, whole: str | None) -> list[Event]:
        """Take text; ``whole`` is the whole text of a part, None for a piece of it."""
        response = self._of(message)
        if response is None:
            return []
        item_id = string(message.get("item_id"))
        item = self._items.of(item_id)
        place = count(message.get("content_index"))
        if whole is None:
            text = item.read(place, string(message.get("delta")))
        else:
            text = item.rest(place, whole)
        return [Spoken(response.id, item_id, text)] if text else []

    def on_item_done(self, message: Message, _: float) -> list[Event]:
        """Take an item that is done, which may be a call."""
        response = self._of(message)
        if response is None:
            return []
        return self._called(response, _object(message.get("item")))

    def _called(self, response: Response, item: Message) -> list[Event]:
        """Take a call; it is reported once, however often the server sends it."""
        if item.get("type") != "function_call":
            return []
        call_id = string(item.get("call_id"))
        if not call_id:  # such a call cannot be answered
            self._unknown("function_call without call_id")
            return []
        if not response.knows(call_id):
            if response.is_full:
                self._unknown("too many calls in one response")
                return []
            if not self._calls.made(call_id, response.id):
                return []
        call = response.add(item)
        return [] if call is None else [CallReady(response.id, call)]

    def on_done(self, message: Message, now: float) -> list[Event]:
        """Take ``response.done``."""
        done = _object(message.get("response"))
        response_id = string(done.get("id"))
        if response_id in self._over:
            return []
        events: list[Event] = []
        if response_id not in self._running:
            if self._running:
                self._unknown("for no active response")
                return []
            events += self.on_created(message, now)  # its beginning was lost
        status = string(done.get("status")) or "completed"
        end = _ENDS.get(status, ResponseEnd.FAILED)
        details = _object(done.get("status_details"))
        detail = string(details.get("reason"))
        if end is ResponseEnd.FAILED:
            failed = complaint(details.get("error"), "response_failed", self._secret)
            events.append(failed)
            detail = failed.detail
        response = self._running[response_id]
        output = done.get("output")
        for item in output if isinstance(output, list) else []:
            item = _object(item)
            # A call of a response that did not complete must not be started.
            found = self._called(response, item)
            events += found if end is ResponseEnd.COMPLETED else []
        usage = self.usage_of(done.get("usage"))
        events += self._end(response_id, end, detail=detail, usage=usage, now=now)
        return events

    def _end(
        self,
        response_id: str,
        end: ResponseEnd,
        *,
        detail: str,
        usage: Usage | None = None,
        now: float | None = None,
    ) -> list[Event]:
        """End a response; ``now`` is given if the server has reported the end."""
        response = self._running.pop(response_id, None)
        if response is None:
            return []
        self._over.append(response_id)
        self._due += self._calls.over(response_id)
        if now is not None:
            self.sequencer.ended(response_id, now)
        calls, void = response.calls(completed=end is ResponseEnd.COMPLETED)
        unsaid = [call for call in calls if call.id not in response.ready]
        events: list[Event] = [CallReady(response_id, call) for call in unsaid]
        events.append(
            ResponseEnded(
                response=response_id,
                end=end,
                calls=tuple(calls),
                void=tuple(void),
                detail=detail,
                usage=usage,
            )
        )
        if not calls and not self.sequencer.is_wanted:
            events.append(InteractionEnded())
        return events

    def usage_of(self, usage: object) -> Usage | None:
        """Return the usage of a response, as reported at its end."""
        if not isinstance(usage, dict):
            return None
        details = _object(usage.get("input_token_details"))
        cached = _object(details.get("cached_tokens_details"))
        said = _object(usage.get("output_token_details"))
        return Usage(
            input_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=count(details.get("cached_tokens")),
            audio_input_tokens=count(details.get("audio_tokens")),
            audio_output_tokens=count(said.get("audio_tokens")),
            audio_cached_tokens=count(cached.get("audio_tokens")),
            model=self._model,
        )

    def _of(self, message: Message) -> Response | None:
        """Return the response that a message is about, if it is not over."""
        response_id = string(message.get("response_id"))
        response = self._running.get(response_id)
        if response is None:
            self._unknown("for no active response")
        return response


def _object(value: object) -> Message:
    return value if isinstance(value, dict) else {}
