"""``POST …/audio/transcriptions`` as a `Recognizer`: one request for each utterance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

import trio

from glyphoxa_trio.providers.address import check_address
from glyphoxa_trio.providers.at_endpoint import bare
from glyphoxa_trio.providers.endpointing import RATE, USUAL, Endpointing
from glyphoxa_trio.providers.failures import excerpt
from glyphoxa_trio.providers.speech import Final as Said
from glyphoxa_trio.providers.speech import NotUnderstood, SpeechError
from glyphoxa_trio.providers.utterances import RecognitionRun, open_listening
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask, Secret

from .wire import MAX_ANSWER, Hopeless, fields, file, text_of

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT: Final = 5.0  # seconds


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
    _own: httpx2.AsyncClient | None = attrs.field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)

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
        understand = partial(self._understand, language=language)
        is_speech, how = self.endpointing.detector(), self.endpointing
        async with open_listening(is_speech, understand, how=how) as listening:
            yield listening

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    async def _understand(
        self, listening: RecognitionRun, *, language: str | None
    ) -> None:
        """Recognize utterances, until cancelled."""
        while True:
            await listening.begin()
            pcm = await listening.utterances.whole()
            try:
                text = await self.transcribe(pcm, language=language)
            except Hopeless:
                raise
            except SpeechError as error:
                await listening.tell(NotUnderstood(str(error)))
            else:
                await listening.tell(Said(text))

    async def transcribe(self, pcm: bytes, *, language: str | None = None) -> str:
        """Return the words of one utterance; ``pcm`` has the rate `rate`.

        Raises:
          SpeechError: if the server fails, or takes longer than ``timeout``.
        """
        import httpx2

        try:
            with trio.fail_after(self.timeout), quiet(Mask.around(self.api_key).text):
                return await self._ask(pcm, language)
        except trio.TooSlowError:
            raise SpeechError(
                f"{self.base_url}: no transcript after {self.timeout:g} s"
            ) from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            words = f"{self.base_url}: {error or type(error).__name__}"
            raise SpeechError(excerpt(words, self.api_key)) from None

    async def _ask(self, pcm: bytes, language: str | None) -> str:
        """Send one utterance; return its words."""
        import httpx2

        client = self.client or self._own_client()
        headers = {"accept": "application/json"}
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key.reveal()}"
        request = client.build_request(
            "POST",
            f"{self.base_url}/audio/transcriptions",
            data=fields(self.model, language=language, prompt=self.prompt),
            files={"file": file(pcm, self.rate)},
            headers=headers,
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
        )
        response = await client.send(request, stream=True, follow_redirects=False)
        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk[: MAX_ANSWER + 1 - len(body)]  # the rest is too much
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await response.aclose()
        return text_of(
            response.status_code, response.headers, bytes(body), self.api_key
        )

    def _own_client(self) -> httpx2.AsyncClient:
        from glyphoxa_trio.providers.reading import client_for

        if self._own is None:
            self._own = client_for(self.base_url)
        return self._own
