"""What the server hears of people: when they speak, and in the end what they said."""

from __future__ import annotations

from collections import OrderedDict, deque
from math import inf
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import Usage
from glyphoxa_trio.providers.payloads import count, string
from glyphoxa_trio.providers.s2s import (
    Committed,
    Event,
    Heard,
    SpeechStarted,
    SpeechStopped,
    UsageSeen,
)
from glyphoxa_trio.secret import Secret

from .complaints import complaint
from .sequencer import Sequencer

MAX_UTTERANCES: Final = 64  # that are being written down at once

Message = dict[str, Any]


@attrs.define(eq=False)
class Hearing:
    """What one socket hears. The server ``answers`` what it hears by itself, and
    ``stops`` by itself when somebody speaks. ``writer``: the model of transcripts."""

    _sequencer: Sequencer
    _secret: Secret | None = attrs.field(repr=False)
    _answers: bool = attrs.field(kw_only=True)
    _stops: bool = attrs.field(kw_only=True)
    _writer: str = attrs.field(default="", kw_only=True)
    # What of each utterance is written down so far, by its item.
    _heard: OrderedDict[str, str] = attrs.field(factory=OrderedDict, init=False)
    _paid: deque[str | None] = attrs.field(
        factory=lambda: deque(maxlen=MAX_UTTERANCES), init=False
    )

    def on_speech_started(self, _: Message, now: float) -> list[Event]:
        self._sequencer.user_speaks(now, interrupts=self._stops)
        return [SpeechStarted()]

    def on_speech_stopped(self, message: Message, now: float) -> list[Event]:
        self._sequencer.user_finished(now, answered=self._answers)
        return [SpeechStopped(_item(message))]

    def on_committed(self, message: Message, _: float) -> list[Event]:
        item = _item(message)
        return [] if item is None else [Committed(item)]

    def on_cleared(self, _: Message, now: float) -> list[Event]:
        self._sequencer.user_was_nobody(now)
        return []

    def on_heard(self, message: Message, _: float) -> list[Event]:
        item_id = string(message.get("item_id"))
        text = self._heard.pop(item_id, "") + string(message.get("delta"))
        self._heard[item_id] = text
        if len(self._heard) > MAX_UTTERANCES:
            self._heard.popitem(last=False)
        return [Heard(text, final=False, item=item_id or None)]

    def on_understood(self, message: Message, _: float) -> list[Event]:
        self._heard.pop(string(message.get("item_id")), None)
        text = string(message.get("transcript"))
        heard = Heard(text, final=True, item=_item(message))
        used = self._usage(message.get("usage"))
        if used is None or (heard.item and heard.item in self._paid):
            return [heard]
        self._paid.append(heard.item)  # once, however often it is said
        return [heard, UsageSeen(used)]

    def _usage(self, usage: object) -> Usage | None:
        """What the transcript took, of a model that has a price of its own."""
        if not isinstance(usage, dict):
            return None
        if usage.get("type") == "duration":
            seconds = usage.get("seconds")
            if not isinstance(seconds, int | float) or not 0 < seconds < inf:
                return None
            return Usage(audio_time=float(seconds), model=self._writer)
        details = usage.get("input_token_details")
        audio = details.get("audio_tokens") if isinstance(details, dict) else None
        return Usage(
            input_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            audio_input_tokens=count(audio),
            model=self._writer,
        )

    def on_not_understood(self, message: Message, _: float) -> list[Event]:
        self._heard.pop(string(message.get("item_id")), None)
        return [complaint(message.get("error"), "transcription_failed", self._secret)]


def _item(message: Message) -> str | None:
    return string(message.get("item_id")) or None
