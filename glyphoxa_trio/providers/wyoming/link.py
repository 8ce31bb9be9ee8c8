"""A Wyoming server as a `Synthesizer`, and as what recognizes utterances: a connection
for each sentence and each utterance."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.providers.audio import Resampler
from glyphoxa_trio.providers.endpointing import RATE as HEARD
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.timed_audio import TimedAudio

from .connection import WyomingConnection, WyomingServer
from .wire import (
    AUDIO_STOP,
    WyomingEvent,
    audio_chunk,
    audio_start,
    malformed,
    rate_of,
    synthesize,
    transcribe,
    words_of,
)

RATE: Final = 22_050  # Hz, of most voices of piper; others are resampled to it
MAX_WORDS: Final = 64 * 1024  # characters of a transcript


@attrs.define(eq=False, kw_only=True)
class WyomingSynthesis:
    """The voices of one server. `VoiceStyle.name` is one of them; speed is not in the
    protocol.

    Args:
      server: the address.
      rate: of the audio that is returned, in Hz. Audio of another rate is resampled,
        which needs the extra ``voice``.
      timeout: seconds from a sentence to its first audio.
    """

    server: WyomingServer
    rate: int = RATE
    timeout: float = 5.0

    @property
    def label(self) -> str:
        return self.server.address

    @asynccontextmanager
    async def speak(
        self, text: str, voice: VoiceStyle
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Speak one sentence; leaving closes the connection at once.

        Raises:
          SpeechError: see `Synthesizer.speak`.
        """
        timed = TimedAudio(label=self.label, text=text, timeout=self.timeout)
        async with AsyncExitStack() as stack:
            with timed.limit():
                server = await stack.enter_async_context(self.server.connect())
                if not server.offer.speaks:
                    raise SpeechError(
                        f"{self.label}: it offers no synthesizer", ErrorKind.NOT_FOUND
                    )
                streaming = server.offer.streams_speech
                await server.send(*synthesize(text, voice, streaming=streaming))
            audio = await stack.enter_async_context(
                aclosing(self._audio(server, streaming=streaming))
            )
            yield await stack.enter_async_context(aclosing(timed.pieces(audio)))

    async def _audio(
        self, server: WyomingConnection, *, streaming: bool
    ) -> AsyncGenerator[bytes]:
        """Yield the audio as it arrives; a piece may be empty.

        Raises:
          SpeechError: if it breaks off, or is no audio.
        """
        last = "synthesize-stopped" if streaming else "audio-stop"
        resampler: Resampler | None = None
        while (event := await server.receive()).type != last:
            if event.type == "audio-chunk":
                with server.translating():
                    rate = rate_of(event)
                    if resampler is None or resampler.from_rate != rate:
                        resampler = Resampler(rate, self.rate)
                yield resampler.feed(event.payload)
        if resampler is not None:
            yield resampler.end()


@attrs.define(eq=False, kw_only=True)
class WyomingRecognition:
    """The ears of one server. It is sent an utterance while that is spoken.

    Args:
      server: the address.
      model: the name of one of its models.
      names: words that are likely, such as the names of NPCs, as a hint.
      timeout: seconds for one utterance, from its end to its words.
    """

    server: WyomingServer
    model: str | None = None
    names: tuple[str, ...] = ()
    timeout: float = 15.0

    @property
    def label(self) -> str:
        return self.server.address

    async def recognize(
        self,
        audio: AsyncIterator[bytes],
        *,
        language: str | None,
        tell: Callable[[str], Awaitable[None]],
    ) -> str:
        """Return the words of one utterance; see `UtteranceRecognizer.recognize`."""
        async with self.server.connect() as server:
            if not server.offer.hears:
                raise SpeechError(
                    f"{self.label}: it offers no recognizer", ErrorKind.NOT_FOUND
                )
            patience = trio.CancelScope()

            async def send() -> None:
                asked = transcribe(self.model, language, self.names)
                await self._send(server, asked, audio_start(HEARD))
                async for pcm in audio:
                    await self._send(server, audio_chunk(pcm, HEARD))
                patience.deadline = trio.current_time() + self.timeout
                await self._send(server, AUDIO_STOP)

            with lone_errors():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(send)
                    with patience:
                        words = await self._words(server, tell)
                    if patience.cancelled_caught:
                        raise self._slow()
                    nursery.cancel_scope.cancel("its words are known")
            return words

    async def _send(self, server: WyomingConnection, *events: WyomingEvent) -> None:
        with trio.move_on_after(self.timeout) as patience:
            await server.send(*events)
        if patience.cancelled_caught:
            raise self._slow()

    def _slow(self) -> SpeechError:
        return SpeechError(
            f"{self.label}: no transcript after {self.timeout:g} s",
            ErrorKind.FIRST_TOKEN,
        )

    async def _words(
        self, server: WyomingConnection, tell: Callable[[str], Awaitable[None]]
    ) -> str:
        """Return the transcript, and report its beginning as it comes."""
        said = ""
        while True:
            event = await server.receive()
            match event.type:
                case "transcript":
                    with server.translating():
                        return words_of(event).strip()
                case "transcript-chunk":
                    with server.translating():
                        said += words_of(event)
                        if len(said) > MAX_WORDS:
                            raise malformed("a transcript without end")
                    await tell(said.strip())
                case "transcript-stop":
                    return said.strip()
