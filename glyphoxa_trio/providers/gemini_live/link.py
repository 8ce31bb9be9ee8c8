"""Gemini Live over a WebSocket: the model's address, and its configuration."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final
from urllib.parse import urlsplit

import attrs

from glyphoxa_trio.providers.address import check_address
from glyphoxa_trio.providers.live_socket import Dial, LiveSocket, dial, open_live_socket
from glyphoxa_trio.providers.s2s import Capabilities, Command, Event, Setup
from glyphoxa_trio.secret import Secret

from .options import SessionOptions
from .profiles import Profile, on_vertex, profile_of
from .wire import GeminiWire

BASE_URL: Final = "https://generativelanguage.googleapis.com"
VERSION: Final = "v1beta"
"""The documented version, which gets preview models and new fields first."""

_METHOD: Final = "BidiGenerateContent"
_SERVICES: Final = {
    False: "google.ai.generativelanguage.{version}.GenerativeService.{method}",
    True: "google.cloud.aiplatform.{version}.LlmBidiService/{method}",
}


def _bare(url: str | None) -> str:
    return (url or BASE_URL).rstrip("/")


@attrs.frozen(kw_only=True)
class GeminiLive:
    """A Gemini Live model; an `S2S`.

    Args:
      model: its name; on Vertex its whole path, ``projects/P/locations/...``.
      base_url: the server's address; Google's if None. A path that ends with the method
        is used unchanged, to any other the service's own path is added.
      api_key: sent in a header, never in the address. On Vertex an access token.
      version: of the API, in the path.
      vertex: True if the model is on Vertex, which has another path and kind of key.
      profile: what the model supports; by default its name decides.
      options: the options of each session.
      dial: opens the connection; for tests.

    Raises:
      ValueError: for an address that is not plain http(s), or that carries credentials
        or a query; for Vertex without its own address; for a key that a header cannot
        hold; for ``options`` that the model is known to refuse.
    """

    model: str
    base_url: str = attrs.field(default=None, converter=_bare)
    api_key: Secret | None = None
    version: str = VERSION
    vertex: bool = False
    profile: Profile = attrs.field()
    options: SessionOptions = attrs.field(factory=SessionOptions)
    dial: Dial = attrs.field(default=dial, repr=False)

    @profile.default
    def _by_name(self) -> Profile:
        profile = profile_of(self.model)
        return on_vertex(profile) if self.vertex else profile

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)
        if self.vertex and self.base_url == BASE_URL:
            raise ValueError(
                "base_url: must be set for Vertex, which has one for every region"
            )
        self.options.check_model(self.model, self.profile)

    @property
    def label(self) -> str:
        return f"{self.model.rpartition('/')[2]} at {self.base_url}"

    @property
    def capabilities(self) -> Capabilities:
        return self.profile.capabilities

    @property
    def url(self) -> str:
        """The address of the socket. It holds no secret."""
        parts = urlsplit(self.base_url)
        scheme, path = "wss" if parts.scheme == "https" else "ws", parts.path
        if not path.endswith(_METHOD):
            service = _SERVICES[self.vertex]
            path += "/ws/" + service.format(version=self.version, method=_METHOD)
        return parts._replace(scheme=scheme, path=path).geturl()

    def connect(
        self, setup: Setup
    ) -> AbstractAsyncContextManager[LiveSocket[Command, Event]]:
        """Open a socket; see `S2S.connect`.

        Raises:
          LinkClosed: on entering, if it cannot be opened.
        """
        wire = GeminiWire(
            model=self.model,
            profile=self.profile,
            setup=setup,
            options=self.options,
            secret=self.api_key,
        )
        return open_live_socket(
            wire,
            url=self.url,
            headers=self._headers(),
            secret=self.api_key,
            dial=self.dial,
        )

    def _headers(self) -> list[tuple[bytes, bytes]]:
        if self.api_key is None:
            return []
        key = self.api_key.reveal().encode()
        if self.vertex:
            return [(b"Authorization", b"Bearer " + key)]
        return [(b"x-goog-api-key", key)]
