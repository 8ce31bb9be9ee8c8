"""``POST …/audio/transcriptions`` as a `Recognizer`: one request for each utterance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs

import trio

from glyphoxa_trio.providers.at_endpoint import bare
from glyphoxa_trio.providers.endpointing import RATE, USUAL, Endpointing
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError
from glyphoxa_trio.providers.speech_server import SpeechServer
from glyphoxa_trio.providers.utterance_recognizer import ByUtterance, Tell
from glyphoxa_trio.providers.utterances import RecognitionRun
from glyphoxa_trio.secret import Secret

from .wire import MAX_ANSWER, fields, file, text_of

if TYPE_CHECKING:
    import httpx2


@attrs.define(eq=False, kw_only=True)
class Transcriptions:
    """One model at one server. Words come only after an utterance: no `Partial`s.

    Connections are kept for the next utterance; close it with `aclose`.

    Args:
      model: the model's name.
      base_url: up to and including ``/v1``.
      api_key: the key, if the server wants one.
      prompt: words that are likely, such as the names of NPCs, as a hint.
      timeout: seconds for one utterance, from its end to its words.
      endpointing: how utterances are detected.
      client: a client to share, which its owner closes.

    Raises:
      ValueError: for an address or a key that no request can carry.
    """

    model: str
    base_url: str = attrs.field(converter=bare)
    api_key: Secret | None = None
    prompt: str = ""
    timeout: float = 15.0
    endpointing: Endpointing = USUAL
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    _server: SpeechServer = attrs.field(init=False, repr=False)

    @_server.default
    def _at_the_address(self) -> SpeechServer:
        return SpeechServer(
            base_url=self.base_url, api_key=self.api_key, client=self.client
        )

    @property
    def label(self) -> str:
        return f"{self.model} at {self.base_url}"

    @property
    def rate(self) -> int:
        return RATE

    @asynccontextmanager
    async def listen(
        self, *, language: str | None = None
    ) -> AsyncIterator[RecognitionRun]:
        """Listen to one speaker. Requests are sent only after they have spoken.

        Raises:
          SpeechError: see `Recognizer.listen`.
        """
        by_utterance = ByUtterance(model=self, endpointing=self.endpointing)
        async with by_utterance.listen(language=language) as listening:
            yield listening

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        await self._server.aclose()

    async def recognize(
        self, audio: AsyncIterator[bytes], *, language: str | None, tell: Tell
    ) -> str:
        """Return the words of one utterance; see `UtteranceRecognizer.recognize`."""
        pcm = b"".join([piece async for piece in audio])
        return await self.transcribe(pcm, language=language)

    async def transcribe(self, pcm: bytes, *, language: str | None = None) -> str:
        """Return the words of one utterance; ``pcm`` has the rate `rate`.

        Raises:
          SpeechError: if the server fails, or takes longer than ``timeout``.
        """
        try:
            with trio.fail_after(self.timeout):
                async with self._server.post(
                    "/audio/transcriptions",
                    accept="application/json",
                    data=fields(self.model, language=language, prompt=self.prompt),
                    files={"file": file(pcm, self.rate)},
                ) as response:
                    body = await self._server.read_bytes(response, MAX_ANSWER + 1)
        except trio.TooSlowError:
            raise SpeechError(
                f"{self.base_url}: no transcript after {self.timeout:g} s",
                ErrorKind.FIRST_TOKEN,
            ) from None
        return text_of(response.status_code, response.headers, body, self.api_key)
