"""ElevenLabs as a `Synthesizer`: one socket for each sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Never

import attrs

import trio

from glyphoxa_trio.providers.address import check_address
from glyphoxa_trio.providers.live_socket import Dial, LiveSocket, dial, open_live_socket
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.secret import Secret

from .alignment import WordedSentence
from .wire import RATES, SentenceWire, SpeechEvent, SpeechPiece, address, language_of

BASE_URL: Final = "https://api.elevenlabs.io"
MODEL: Final = "eleven_flash_v2_5"  # the fastest one
RATE: Final = 24_000
_GRACE: Final = 0.1  # seconds for a sentence that is cut; the next turn waits for it


def _bare(url: str | None) -> str:
    return (url or BASE_URL).rstrip("/")


def _model(name: str | None) -> str:
    return name or MODEL


@attrs.frozen(kw_only=True)
class ElevenLabs:
    """One model at ElevenLabs, or at a server with the same API.

    `VoiceStyle.name` is the id of one of its voices. The audio tells when its words end
    (`TellsWords`).

    Args:
      model: the model's id; `MODEL` if None.
      base_url: up to the host; ElevenLabs' if None.
      api_key: the key, which is sent in a header.
      rate: of the audio, in Hz.
      timeout: seconds from a sentence to its first audio.
      dial: opens the connection; for tests.

    Raises:
      ValueError: for an address or a key that no request can carry, or a rate that is
        not one of `RATES`.
    """

    model: str = attrs.field(default=None, converter=_model)
    base_url: str = attrs.field(default=None, converter=_bare)
    api_key: Secret | None = None
    rate: int = RATE
    timeout: float = attrs.field(default=5.0, validator=attrs.validators.gt(0))
    dial: Dial = attrs.field(default=dial, repr=False)

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)
        if self.rate not in RATES:
            known = ", ".join(map(str, RATES))
            raise ValueError(f"the rate must be one of {known}, not {self.rate}")

    @property
    def label(self) -> str:
        return f"{self.model} at {self.base_url}"

    @asynccontextmanager
    async def speak(
        self, text: str, voice: VoiceStyle
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Speak one sentence; leaving closes the socket, within a tenth of a second.

        Raises:
          SpeechError: see `Synthesizer.speak`.
        """
        if not voice.name:
            detail = f"{self.label}: no voice is configured"
            raise SpeechError(detail, ErrorKind.NOT_FOUND)
        wire = SentenceWire(
            WordedSentence.of(text, voice.pronunciation),
            voice,
            self.rate,
            trio.current_time() + self.timeout,
            self.api_key,
        )
        language = language_of(self.model, voice)
        headers = []
        if self.api_key is not None:
            headers.append((b"xi-api-key", self.api_key.reveal().encode()))
        try:
            async with open_live_socket(
                wire,
                url=address(self.base_url, voice.name, self.model, self.rate, language),
                headers=headers,
                secret=self.api_key,
                dial=self.dial,
                opening=self.timeout,
                grace=_GRACE,
            ) as link:
                yield _AlignedPieces(link, self.label)
        except LinkClosed as end:
            raise _failed(self.label, end) from None


@attrs.define(eq=False)
class _AlignedPieces:
    """The audio of one sentence, as it arrives."""

    _link: LiveSocket[Never, SpeechEvent]
    _label: str
    _told: Callable[[int, float], None] | None = attrs.field(default=None, init=False)
    _over: bool = attrs.field(default=False, init=False)

    def tell_words(self, told: Callable[[int, float], None]) -> None:
        """Tell the ends of words; see `TellsWords`."""
        self._told = told

    def __aiter__(self) -> _AlignedPieces:
        return self

    async def __anext__(self) -> bytes:
        while not self._over:
            try:
                event = await self._link.receive()
            except LinkClosed as end:
                raise _failed(self._label, end) from None
            if not isinstance(event, SpeechPiece):
                self._over = True
                break
            for words, end_of in event.words:
                if self._told is not None:
                    self._told(words, end_of)
            if event.pcm:
                return event.pcm
        raise StopAsyncIteration


def _failed(label: str, end: LinkClosed) -> SpeechError:
    return SpeechError(f"{label}: {end.detail}", end.kind)
