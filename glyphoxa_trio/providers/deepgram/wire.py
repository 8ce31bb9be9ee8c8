"""Deepgram's ``/v2/listen``: the address, the messages, and their meaning. No I/O.

    client   audio audio audio …                      binary, PCM16
    server   Connected  TurnInfo(StartOfTurn)  TurnInfo(Update) …  TurnInfo(EndOfTurn)

There is no message that keeps a socket open: audio does, so silence is sent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from math import isfinite
from typing import Any, Final, TypeGuard
from urllib.parse import urlencode

import attrs

from glyphoxa_trio.providers.failures import stream_error
from glyphoxa_trio.providers.live_wire import RETRYABLE, Frame, Lane
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.secret import Secret

RATE: Final = 16_000
ENGLISH: Final = "flux-general-en"
MULTILINGUAL: Final = "flux-general-multi"
_NAMES: Final = 16  # of unknown messages that are counted


class FluxTurnEvent(StrEnum):
    """The event of a `TurnInfo`."""

    START = "StartOfTurn"
    UPDATE = "Update"
    EAGER_END = "EagerEndOfTurn"
    RESUMED = "TurnResumed"
    END = "EndOfTurn"


@attrs.frozen
class SendSound:
    """A piece of audio. ``again``: it was sent to another socket before."""

    pcm: bytes
    again: bool = False


@attrs.frozen
class Connected:
    """The server is ready for audio."""


@attrs.frozen(kw_only=True)
class TurnInfo:
    """The state of a turn of the user.

    ``text`` has all words so far, and they sounded for ``spoken`` seconds. ``ends`` is
    how much audio of this socket was examined, in seconds.
    """

    event: FluxTurnEvent
    index: int
    text: str
    ends: float
    spoken: float


FluxEvent = Connected | TurnInfo


def address(
    base_url: str,
    model: str | None,
    *,
    language: str | None,
    phrases: Sequence[str],
    eager: float | None,
) -> str:
    """Return the address of the socket. Without a model, the language chooses it."""
    english = (language or "en").lower().startswith("en")
    model = model or (ENGLISH if english else MULTILINGUAL)
    query = [("model", model), ("encoding", "linear16"), ("sample_rate", str(RATE))]
    if language and model == MULTILINGUAL:
        query.append(("language_hint", language.partition("-")[0].lower()))
    if eager is not None:
        query.append(("eager_eot_threshold", f"{eager:g}"))
    query += [("keyterm", phrase) for phrase in phrases]
    scheme, _, rest = base_url.partition("://")
    return (
        f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v2/listen?{urlencode(query)}"
    )


@attrs.define(eq=False)
class FluxWire:
    """A `VendorWire` for one socket. A message that it does not know is counted."""

    secret: Secret | None = None
    ready: bool = attrs.field(default=False, init=False)
    alarm: float | None = attrs.field(default=None, init=False)
    unknown: Counter[str] = attrs.field(factory=Counter, init=False)
    _frames: list[Frame] = attrs.field(factory=list, init=False)
    _last: int = attrs.field(default=-1, init=False)  # sequence number

    def opening(self, now: float) -> None:
        pass  # everything is in the address

    def send(self, command: SendSound, now: float) -> None:
        # What is sent again must not be dropped, and comes before what is new.
        lane = Lane.CONTROL if command.again else Lane.AUDIO
        self._frames.append(Frame(command.pcm, lane))

    def receive(self, message: str | bytes, now: float) -> list[FluxEvent]:
        try:
            found = json.loads(message)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self._count("no JSON object")
            return []
        if not self._is_new(found.get("sequence_id")):
            return []
        match found.get("type"):
            case "Connected":
                self.ready = True
                return [Connected()]
            case "TurnInfo":
                info = _turn_info(found)
                if info is not None:
                    return [info]
                self._count("TurnInfo")
            case "Error":
                raise self._error(found)
            case other:
                self._count(str(other))
        return []

    def wake(self, now: float) -> list[FluxEvent]:
        return []

    def outgoing(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def _is_new(self, number: object) -> bool:
        """Return False for a message that has come before, or too late."""
        if not isinstance(number, int):
            return True
        if number <= self._last:
            return False
        self._last = number
        return True

    def _count(self, name: str) -> None:
        if name in self.unknown or len(self.unknown) < _NAMES:
            self.unknown[name[:32]] += 1

    def _error(self, found: dict[str, Any]) -> LinkClosed:
        fields = {"type": found.get("code"), "message": found.get("description")}
        error = stream_error(fields, self.secret)
        retryable = error.kind in RETRYABLE
        return LinkClosed(error.kind, error.detail, retryable=retryable)


def _turn_info(found: dict[str, Any]) -> TurnInfo | None:
    """Return the state that a message tells; None if it is nonsense."""
    index, text = found.get("turn_index"), found.get("transcript")
    begins, ends = found.get("audio_window_start"), found.get("audio_window_end")
    if not (isinstance(index, int) and index >= 0 and isinstance(text, str)):
        return None
    if not (_is_time(begins) and _is_time(ends)):
        return None
    try:
        event = FluxTurnEvent(found.get("event", ""))
    except ValueError:
        event = FluxTurnEvent.UPDATE  # one of a later version
    spoken = _spoken(found.get("words"))
    return TurnInfo(
        event=event,
        index=index,
        text=text.strip(),
        ends=ends,
        spoken=max(0.0, ends - begins) if spoken is None else spoken,
    )


def _spoken(words: object) -> float | None:
    """Return the seconds from the first word to the end of the last one."""
    if not (isinstance(words, list) and words):
        return None
    first, last = words[0], words[-1]
    if not (isinstance(first, dict) and isinstance(last, dict)):
        return None
    begins, ends = first.get("start"), last.get("end")
    if not (_is_time(begins) and _is_time(ends)):
        return None
    return max(0.0, ends - begins)


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and isfinite(value) and value >= 0
