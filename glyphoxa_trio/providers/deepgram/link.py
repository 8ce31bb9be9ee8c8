"""Deepgram as a `Recognizer`: its address, its key and its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.providers.address import check_address
from glyphoxa_trio.providers.live_socket import Dial, dial, open_live_socket
from glyphoxa_trio.secret import Secret

from .listening import FluxLink, FluxRecognition
from .wire import RATE, FluxWire, address

BASE_URL: Final = "https://api.deepgram.com"
_GRACE: Final = 0.2  # seconds for a socket that is left
_OPENING: Final = 5.0  # seconds; an outage is bridged by several attempts


def _bare(url: str | None) -> str:
    return (url or BASE_URL).rstrip("/")


@attrs.frozen(kw_only=True)
class Deepgram:
    """Flux at Deepgram, or at a server with the same API.

    It finds the end of a turn by what is said, not only by silence.

    Args:
      model: the model; None chooses it by the language.
      base_url: up to the host; Deepgram's if None.
      api_key: the key, which is sent in a header.
      phrases: names and words that are likely.
      eager: how sure the model must be (0.3 to 0.9) to report the words of a turn that
        has probably ended, before it has; None does not report them early.
      timeout: seconds for which it may be away before recognition ends with an error.
      dial: opens the connection; for tests.

    Raises:
      ValueError: for an address or a key that no request can carry.
    """

    model: str | None = None
    base_url: str = attrs.field(default=None, converter=_bare)
    api_key: Secret | None = None
    phrases: tuple[str, ...] = ()
    eager: float | None = attrs.field(default=None)
    timeout: float = attrs.field(default=15.0, validator=attrs.validators.gt(0))
    dial: Dial = attrs.field(default=dial, repr=False)

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)
        if self.eager is not None and not 0.3 <= self.eager <= 0.9:
            raise ValueError("eager must be 0.3 to 0.9")

    @property
    def label(self) -> str:
        return f"{self.model or 'flux'} at {self.base_url}"

    @property
    def rate(self) -> int:
        return RATE

    @asynccontextmanager
    async def listen(
        self, *, language: str | None = None
    ) -> AsyncIterator[FluxRecognition]:
        """Listen to one speaker; the socket is opened meanwhile.

        A server that refuses, or is away for ``timeout``, is an error of the events.
        """

        def connect() -> AbstractAsyncContextManager[FluxLink]:
            return self._connect(language)

        listening = FluxRecognition(self.label, connect, self.timeout)
        with lone_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listening.run)
                try:
                    yield listening
                finally:
                    nursery.cancel_scope.cancel("listening has ended")

    def _connect(self, language: str | None) -> AbstractAsyncContextManager[FluxLink]:
        headers = []
        if self.api_key is not None:
            headers.append(
                (b"authorization", b"Token " + self.api_key.reveal().encode())
            )
        return open_live_socket(
            FluxWire(self.api_key),
            url=address(
                self.base_url,
                self.model,
                language=language,
                phrases=self.phrases,
                eager=self.eager,
            ),
            headers=headers,
            secret=self.api_key,
            dial=self.dial,
            opening=min(_OPENING, self.timeout),
            grace=_GRACE,
        )
