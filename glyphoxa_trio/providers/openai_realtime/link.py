"""OpenAI Realtime as a speech-to-speech model: its address and its abilities."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final
from urllib.parse import urlencode, urlsplit

import attrs

from glyphoxa_trio.providers.address import check_address
from glyphoxa_trio.providers.live_socket import Dial, LiveSocket, dial, open_live_socket
from glyphoxa_trio.providers.s2s import Calling, Capabilities, Command, Event, Setup
from glyphoxa_trio.secret import Secret

from .encoding import MAX_RESULT, MAX_TOOLS
from .options import PCM_RATE, SessionOptions
from .wire import RealtimeWire

BASE_URL: Final = "https://api.openai.com/v1"

CAPABILITIES: Final = Capabilities(
    live_tools=True,
    acknowledges_tools=True,
    asks_for_responses=True,
    takes_text=True,
    silent_text=True,
    forgets_text=True,
    cancels=True,
    truncates=True,
    forbids_tools=True,
    # It is not declared: the model goes on talking while a call is open, and the client
    # that answers it decides when a response is wanted.
    calling=(Calling.BLOCKING, Calling.NON_BLOCKING),
    stays_owed=frozenset(Calling),
    scheduling=frozenset(),
    resumes=False,
    lifetime=60 * 60.0,
    input_rate=PCM_RATE,
    output_rate=PCM_RATE,
    max_tools=MAX_TOOLS,
    max_result=MAX_RESULT,
    recites=True,
)


def _bare(url: str | None) -> str:
    return (url or BASE_URL).rstrip("/")


@attrs.frozen(kw_only=True)
class OpenAIRealtime:
    """One model at OpenAI, or at a server with the same API (GA).

    Args:
      model: the model's name.
      base_url: as the vendor's SDK takes it, up to and including ``/v1``; OpenAI's if
        None.
      api_key: the key, if the server wants one.
      options: the options of each session.
      headers: sent with the upgrade besides the key, such as ``OpenAI-Organization``;
        never shown.
      dial: opens the connection; for tests.

    Raises:
      ValueError: for an address that is not plain http(s) or carries credentials or a
        query, for a key that a header cannot hold, and for options that the model is
        known not to accept.
    """

    model: str
    base_url: str = attrs.field(default=None, converter=_bare)
    api_key: Secret | None = None
    options: SessionOptions = attrs.field(factory=SessionOptions)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    dial: Dial = attrs.field(default=dial, repr=False)

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)
        self.options.check_model(self.model)

    @property
    def label(self) -> str:
        return f"{self.model} at {self.base_url}"

    @property
    def capabilities(self) -> Capabilities:
        return attrs.evolve(
            CAPABILITIES,
            answers_speech=self.options.create_response,
            input_rate=self.options.rate,
            output_rate=self.options.rate,
        )

    def connect(
        self, setup: Setup
    ) -> AbstractAsyncContextManager[LiveSocket[Command, Event]]:
        """Open a socket; see `S2S.connect`.

        Raises:
          LinkClosed: on entering, if it cannot be opened.
          ValueError: for tools that cannot be declared.
        """
        wire = RealtimeWire(
            setup=setup, model=self.model, options=self.options, secret=self.api_key
        )
        headers = list(self.headers)
        if self.api_key is not None:
            headers.append(("Authorization", f"Bearer {self.api_key.reveal()}"))
        return open_live_socket(
            wire,
            url=_address(self.base_url, self.model),
            headers=[(name.encode(), value.encode()) for name, value in headers],
            secret=self.api_key,
            dial=self.dial,
        )


def _address(base_url: str, model: str) -> str:
    """Return the address of the socket: ``wss://host/v1/realtime?model=…``."""
    parts = urlsplit(base_url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    query = urlencode({"model": model})
    return f"{scheme}://{parts.netloc}{parts.path}/realtime?{query}"
