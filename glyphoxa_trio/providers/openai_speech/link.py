"""``POST …/audio/speech`` as a `Synthesizer`: one request for each sentence."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs

import trio

from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.providers.body import hang_up
from glyphoxa_trio.providers.failures import excerpt
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.speech_server import SpeechServer
from glyphoxa_trio.providers.timed_audio import TimedAudio

from .wire import AudioReader, is_audio, request, stated_rate

if TYPE_CHECKING:
    import httpx2

PIECE: Final = 0.05  # seconds of audio that are handed over at a time
RATE: Final = 24_000  # Hz, of the vendor and of most that are compatible


@attrs.define(eq=False, kw_only=True)
class OpenAISpeech:
    """One model at one server. `VoiceStyle.name` is one of its voices.

    Audio is played as it arrives. Connections are kept for the next sentence; close
    them with `aclose`.

    Args:
      model: the model's name.
      server: the address and the key.
      rate: of the audio that is returned, and of raw audio whose rate the server does
        not state, in Hz. A WAV states its own; audio of another rate is resampled,
        which needs the extra ``voice``.
      timeout: seconds from the request to the first audio.
    """

    model: str
    server: SpeechServer
    rate: int = RATE
    timeout: float = 5.0

    @property
    def label(self) -> str:
        return f"{self.model} at {self.server.base_url}"

    @asynccontextmanager
    async def speak(
        self, text: str, voice: VoiceStyle
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Speak one sentence; leaving closes the connection at once.

        Raises:
          SpeechError: see `Synthesizer.speak`.
        """
        timed = TimedAudio(label=self.label, text=text, timeout=self.timeout)
        body = request(self.model, text, voice)
        async with AsyncExitStack() as stack:
            with timed.limit():
                asked = self.server.post("/audio/speech", accept="audio/*", json=body)
                response = await stack.enter_async_context(asked)
                await self._check(response)
            audio = await stack.enter_async_context(aclosing(self._audio(response)))
            yield await stack.enter_async_context(aclosing(timed.pieces(audio)))

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        await self.server.aclose()

    async def _check(self, response: httpx2.Response) -> None:
        """Check that a response is audio.

        Raises:
          SpeechError: if it is not.
        """
        if response.status_code != 200:
            raise await self.server.refusal(response)
        if not is_audio(response.headers.get("content-type", "")):
            text = await self.server.read(response)
            words = excerpt(text, self.server.api_key)
            raise SpeechError(f"not audio, but: {words}", ErrorKind.MALFORMED)

    async def _audio(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        """Yield the audio as it arrives; a piece may be empty.

        Raises:
          SpeechError: if it breaks off, or is no audio.
        """
        stated = stated_rate(response.headers.get("content-type", ""))
        reader = AudioReader(stated or self.rate, self.rate)
        chunks = response.aiter_bytes()
        enough = 0  # the first piece is played at once
        audio = b""
        try:
            while True:
                with self.server.translating():
                    chunk = await anext(chunks, None)
                if chunk is None:
                    break
                audio += reader.feed(chunk)
                if len(audio) > enough:
                    yield audio
                    audio, enough = b"", bytes_of(PIECE, self.rate)
            yield audio + reader.end()
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await hang_up(response, chunks)
