"""Open a connection to one server: TCP, its INFO, TLS, our CONNECT, its first PONG."""

from __future__ import annotations

import re
import ssl
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.certificates import trusted
from glyphoxa_trio.errors import words

from .errors import NatsError, NatsRefused, NatsUnreachable, ProtocolViolation
from .protocol import (
    PING,
    PONG,
    NatsEvent,
    NatsInfo,
    ServerPing,
    ServerPong,
    ServerTrouble,
    WireReader,
    connect,
)
from .servers import NatsAddress

AT_ONCE: Final = 64 * 1024  # bytes of one read
_REFUSED: Final = re.compile(
    "authori[sz]ation|authentication|credential|permission", re.IGNORECASE
)


class NatsDial(Protocol):
    """The function that opens a stream to a host; in tests, one in memory."""

    async def __call__(self, host: str, port: int) -> trio.abc.Stream:
        """Open a stream.

        Raises:
          OSError, UnicodeError: if that fails.
        """
        ...


async def dial(host: str, port: int) -> trio.abc.Stream:
    """Open a TCP stream. If cancelled, nothing stays open."""
    return await trio.open_tcp_stream(host, port)


@attrs.define(eq=False)
class NatsConnection:
    """A connection that a server has accepted, and the events that came along."""

    address: NatsAddress
    stream: trio.abc.Stream
    reader: WireReader
    info: NatsInfo
    early: list[NatsEvent]
    _complaint: str = attrs.field(default="", init=False)

    def complaint(self, text: str) -> str:
        """Keep an error of the server, and return it with the server's address."""
        shown = self.address.credentials.mask.text(text)[:300]
        self._complaint = f"{self.address} says: {shown}"
        return self._complaint

    def end(self) -> str:
        """Return why the connection ended, now that it has."""
        return self._complaint or f"{self.address} closed the connection"


async def open_connection(
    address: NatsAddress,
    *,
    name: str,
    tls: ssl.SSLContext | None = None,
    dial: NatsDial = dial,
) -> NatsConnection:
    """Open a connection. If cancelled, or if this fails, nothing stays open.

    Credentials are sent after TLS, if the address or the server asks for that.

    Raises:
      NatsRefused: the server does not accept the credentials.
      NatsUnreachable: there is no server, or none that can be used.
    """
    stream: trio.abc.Stream | None = None
    try:
        stream = await dial(address.host, address.port)
        reader = WireReader()
        info, rest = await _info(stream, reader)
        if address.tls and not (info.tls_required or info.tls_available):
            raise NatsUnreachable("the server offers no TLS")
        if address.tls or info.tls_required:
            if rest or not reader.is_between:
                raise ProtocolViolation("something came between INFO and TLS")
            stream = trio.SSLStream(
                stream,
                tls or await trusted(http=False),
                server_hostname=address.name,
                https_compatible=True,
            )
            await stream.do_handshake()
        await stream.send_all(connect(_options(address, info, name)) + PING)
        found, info = await _accepted(stream, reader, info, rest)
    except BaseException as error:
        if stream is not None:
            await trio.aclose_forcefully(stream)
        if isinstance(error, NatsRefused):
            raise NatsRefused(_told(address, error)) from None
        if isinstance(
            error, OSError | UnicodeError | NatsError | trio.BrokenResourceError
        ):
            raise NatsUnreachable(_told(address, error)) from None
        raise
    return NatsConnection(address, stream, reader, info, found)


async def receive(stream: trio.abc.Stream, reader: WireReader) -> list[NatsEvent]:
    """Wait for bytes, and return the events that they complete, perhaps none.

    Raises:
      trio.BrokenResourceError: the connection has ended.
      ProtocolViolation: what came is not NATS.
    """
    data = await stream.receive_some(AT_ONCE)
    if not data:
        raise trio.BrokenResourceError("the server closed the connection")
    return reader.receive(data)


def is_refusal(trouble: str) -> bool:
    """Return True if a server's words are about credentials or permissions."""
    return _REFUSED.search(trouble) is not None


async def _info(
    stream: trio.abc.Stream, reader: WireReader
) -> tuple[NatsInfo, list[NatsEvent]]:
    while not (events := await receive(stream, reader)):
        pass
    first, *rest = events
    if isinstance(first, ServerTrouble):
        raise NatsUnreachable(f"the server says: {first.text[:200]}")
    if not isinstance(first, NatsInfo):
        raise ProtocolViolation("the server does not begin with INFO")
    return first, rest


async def _accepted(
    stream: trio.abc.Stream,
    reader: WireReader,
    info: NatsInfo,
    events: list[NatsEvent],
) -> tuple[list[NatsEvent], NatsInfo]:
    """Wait for the PONG; return the events behind it, and the last INFO."""
    while True:
        for at, event in enumerate(events):
            match event:
                case ServerPong():
                    return events[at + 1 :], info
                case NatsInfo():
                    info = event
                case ServerPing():
                    await stream.send_all(PONG)
                case ServerTrouble(text) if is_refusal(text):
                    raise NatsRefused(f"the server says: {text[:200]}")
                case ServerTrouble(text):
                    raise NatsUnreachable(f"the server says: {text[:200]}")
        events = await receive(stream, reader)


def _options(address: NatsAddress, info: NatsInfo, name: str) -> dict[str, object]:
    return {
        "verbose": False,
        "pedantic": False,
        "tls_required": address.tls,
        "lang": "python",
        "version": "1",
        "name": name,
        "protocol": 1,  # INFO may come at any time
        "headers": info.headers,
        "no_responders": info.headers,
        **address.credentials.options(),
    }


def _told(address: NatsAddress, error: BaseException) -> str:
    """Return why a server cannot be used, in one line, without credentials."""
    cause = error.__cause__ if isinstance(error.__cause__, ssl.SSLError) else error
    while isinstance(cause, OSError) and cause.__cause__ is not None:
        # Trio joins the errors of several attempts, also of one.
        below = cause.__cause__
        cause = below.exceptions[0] if isinstance(below, ExceptionGroup) else below
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"its certificate is not valid: {cause.verify_message}"
    else:
        text = getattr(cause, "strerror", None) or words(cause, 300) or "it broke"
    return f"{address}: {address.credentials.mask.text(' '.join(text.split()))}"
