"""The user's speech as the server reports it: when they speak, and what they said."""

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

MAX_UTTERANCES: Final = 64  # utterances that are being transcribed at once

Message = dict[str, Any]


@attrs.define(eq=False)
class Hearing:
    """The user's speech on one socket.

    Args:
      sequencer: is told when the user speaks.
      secret: removed from the server's words that are quoted.
      answers: True if the server answers speech by itself.
      stops: True if the server stops the model by itself when the user speaks.
      writer: the model of the transcripts, for prices.
    """

    _sequencer: Sequencer
    _secret: Secret | None = attrs.field(repr=False)
    _answers: bool = attrs.field(kw_only=True)
    _stops: bool = attrs.field(kw_only=True)
    _writer: str = attrs.field(default="", kw_only=True)
    # The transcript of each utterance so far, by its item.
    _heard: OrderedDict[str, str] = attrs.field(factory=OrderedDict, init=False)
    _paid: deque[str | None] = attrs.field(
        factory=lambda: deque(maxlen=MAX_UTTERANCES), init=False
    )

    def on_speech_started(self, _: Message, now: float) -> list[Event]:
        """Take ``speech_started``: the user speaks."""
        self._sequencer.user_speaks(now, interrupts=self._stops)
        return [SpeechStarted()]

    def on_speech_stopped(self, message: Message, now: float) -> list[Event]:
        """Take ``speech_stopped``: the user has finished."""
        self._sequencer.user_finished(now, answered=self._answers)
        return [SpeechStopped(_item(message))]

    def on_committed(self, message: Message, _: float) -> list[Event]:
        """Take ``committed``: the utterance has an id."""
        item = _item(message)
        return [] if item is None else [Committed(item)]

    def on_cleared(self, _: Message, now: float) -> list[Event]:
        """Take ``cleared``: the audio was dropped."""
        self._sequencer.user_was_nobody(now)
        return []

    def on_heard(self, message: Message, _: float) -> list[Event]:
        """Take a piece of a transcript."""
        item_id = string(message.get("item_id"))
        text = self._heard.pop(item_id, "") + string(message.get("delta"))
        self._heard[item_id] = text
        if len(self._heard) > MAX_UTTERANCES:
            self._heard.popitem(last=False)
        return [Heard(text, final=False, item=item_id or None)]

    def on_understood(self, message: Message, _: float) -> list[Event]:
        """Take a whole transcript, with its usage."""
        self._heard.pop(string(message.get("item_id")), None)
        text = string(message.get("transcript"))
        heard = Heard(text, final=True, item=_item(message))
        used = self._usage(message.get("usage"))
        if used is None or (heard.item and heard.item in self._paid):
            return [heard]
        self._paid.append(heard.item)  # once, however often the transcript is sent
        return [heard, UsageSeen(used)]

    def _usage(self, usage: object) -> Usage | None:
        """Return the cost of the transcript, whose model has a price of its own."""
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
        """Take an error of the transcription."""
        self._heard.pop(string(message.get("item_id")), None)
        return [complaint(message.get("error"), "transcription_failed", self._secret)]


def _item(message: Message) -> str | None:
    return string(message.get("item_id")) or None
