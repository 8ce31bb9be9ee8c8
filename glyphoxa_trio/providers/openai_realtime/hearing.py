"""What the server hears of people: when they speak, and in the end what they said."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.payloads import string
from glyphoxa_trio.providers.s2s import (
    Committed,
    Event,
    Heard,
    SpeechStarted,
    SpeechStopped,
)
from glyphoxa_trio.secret import Secret

from .complaints import complaint
from .sequencer import Sequencer

MAX_UTTERANCES: Final = 64  # that are being written down at once

Message = dict[str, Any]


@attrs.define(eq=False)
class Hearing:
    """What one socket hears. The server ``answers`` what it hears by itself, and
    ``stops`` by itself when somebody speaks."""

    _sequencer: Sequencer
    _secret: Secret | None = attrs.field(repr=False)
    _answers: bool = attrs.field(kw_only=True)
    _stops: bool = attrs.field(kw_only=True)
    # What of each utterance is written down so far, by its item.
    _heard: OrderedDict[str, str] = attrs.field(factory=OrderedDict, init=False)

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
        return [Heard(text, final=True, item=_item(message))]

    def on_not_understood(self, message: Message, _: float) -> list[Event]:
        self._heard.pop(string(message.get("item_id")), None)
        return [complaint(message.get("error"), "transcription_failed", self._secret)]


def _item(message: Message) -> str | None:
    return string(message.get("item_id")) or None
