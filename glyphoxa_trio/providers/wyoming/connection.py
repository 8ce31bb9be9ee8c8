"""A Wyoming server, and the connections to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from urllib.parse import urlsplit

import attrs

import trio

from glyphoxa_trio.providers.audio import AudioError
from glyphoxa_trio.providers.failures import excerpt
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError

from .wire import (
    DESCRIBE,
    EventReader,
    Offer,
    WyomingEvent,
    encoded,
    error_of,
    select_program,
)

CONNECT_TIMEOUT: Final = 5.0  # seconds, also for what the server offers
_READ: Final = 16 * 1024  # bytes at a time


@attrs.define(eq=False)
class WyomingServer:
    """A server at an address such as ``tcp://127.0.0.1:10200``.

    What it offers is asked for once, and again after a failure.

    Args:
      program: the one of its programs that is used; else its first.

    Raises:
      ValueError: for another address.
    """

    address: str
    program: str | None = None
    _at: tuple[str, int] = attrs.field(init=False)
    _offer: Offer | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        parts = urlsplit(self.address)
        host, port = parts.hostname, parts.port
        if parts.scheme != "tcp" or not host or not port or "@" in parts.netloc:
            raise ValueError("base_url: must be an address such as tcp://HOST:PORT")
        self._at = host, port

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[WyomingConnection]:
        """Open a connection to a server whose offer is known; leaving closes it at
        once.

        Raises:
          SpeechError: if that is not possible.
        """
        host, port = self._at
        try:
            with trio.fail_after(CONNECT_TIMEOUT):
                stream = await trio.open_tcp_stream(host, port)
        except (OSError, trio.TooSlowError) as error:
            words = excerpt(str(error)) or f"no connection in {CONNECT_TIMEOUT:g} s"
            raise SpeechError(
                f"{self.address}: {words}", ErrorKind.UNREACHABLE
            ) from None
        try:
            connection = WyomingConnection(stream, self.address)
            if self.program:
                await connection.send(select_program(self.program))
            self._offer = await connection.describe(self._offer)
            yield connection
        except SpeechError:
            self._offer = None
            raise
        finally:
            await trio.aclose_forcefully(stream)


@attrs.define(eq=False)
class WyomingConnection:
    """One connection.

    Args:
      label: the address, for errors.
    """

    _stream: trio.SocketStream
    _label: str
    offer: Offer = attrs.field(factory=Offer, init=False)
    _reader: EventReader = attrs.field(factory=EventReader, init=False)
    _events: list[WyomingEvent] = attrs.field(factory=list, init=False)

    async def describe(self, known: Offer | None) -> Offer:
        """Return what the server offers, and ask for it if that is not known.

        Raises:
          SpeechError: if it does not say so.
        """
        if known is None:
            event = WyomingEvent("")
            with trio.move_on_after(CONNECT_TIMEOUT) as patience:
                await self.send(DESCRIBE)
                while event.type != "info":
                    event = await self.receive()
            if patience.cancelled_caught:
                raise SpeechError(
                    f"{self._label}: it does not say what it offers",
                    ErrorKind.FIRST_TOKEN,
                )
            known = Offer.of(event)
        self.offer = known
        return known

    async def send(self, *events: WyomingEvent) -> None:
        """Send events.

        Raises:
          SpeechError: if the connection is lost.
        """
        with self.translating():
            await self._stream.send_all(b"".join(map(encoded, events)))

    async def receive(self) -> WyomingEvent:
        """Return the next event.

        Raises:
          SpeechError: for an error that the server reports, for what is no event, and
            at the end of the connection.
        """
        while not self._events:
            with self.translating():
                data = await self._stream.receive_some(_READ)
                if not data:
                    raise SpeechError("it has closed the connection")
                self._events += reversed(list(self._reader.feed(bytes(data))))
        event = self._events.pop()
        if event.type == "error":
            with self.translating():
                raise error_of(event)
        return event

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Convert errors to `SpeechError`, and name the server in them."""
        try:
            yield
        except SpeechError as error:
            raise SpeechError(f"{self._label}: {error}", error.kind) from None
        except AudioError as error:
            raise SpeechError(f"{self._label}: {error}", ErrorKind.MALFORMED) from None
        except (trio.BrokenResourceError, OSError):
            raise SpeechError(f"{self._label}: the connection broke off") from None
