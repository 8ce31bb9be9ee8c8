"""HTTP bodies and event streams of a server, read in pieces and within limits.

A body is unpacked once, counted while it arrives, and never larger than `bounds`
allows. An event that is too large for the loop is read by a `Condenser`, and the SDK
gets the condensed form. Import this lazily: it needs the SDK.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

import attrs
import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import PARSE_ERROR

import trio

from glyphoxa_trio.tools.condense import data_of

from . import bounds
from .condensing import ENDS, Condenser, Unasked, Unusable, ident_in, is_unasked
from .framing import correlate, decode, misspelt_answer
from .rate_limit import RateLimit
from .unasked import lines_of, misshapen

_PIECE: Final = 2**13  # bytes of a stream that are handled without a pause
_GZIP: Final = 31
_LINES_OF_AN_EVENT: Final = 4
_MOST_OPEN: Final = 256  # requests whose answers may come over another stream
_RETRY: Final = re.compile(rb"(?m)^retry: *(\d+)")
_DATA: Final = re.compile(rb"(?:^|[\r\n])data: ?")


_LEFT: Final = "its caller no longer waits"


class TooMuch(httpx2.DecodingError):
    """A body exceeds a limit; the message says which."""


@attrs.define(eq=False)
class PendingRequest:
    """A request of ours: the parts that are needed to read its answer.

    ``is_left`` is set when its caller has stopped waiting.
    """

    ident: int | str
    method: str
    tool: str
    is_left: bool = False


@attrs.define(eq=False)
class Open:
    """The last requests of one session, by id."""

    _asked: dict[int | str, PendingRequest] = attrs.field(factory=dict, init=False)

    def note(self, request: httpx2.Request) -> PendingRequest | None:
        """Record a POST; return its request, or None if it is no request of ours.

        A notification that cancels another request is recorded, too.
        """
        try:
            message = json.loads(request.content)
        except (ValueError, RecursionError, httpx2.RequestNotRead):
            return None
        if not isinstance(message, dict) or "method" not in message:
            return None
        params = message.get("params")
        if message["method"] == "notifications/cancelled" and isinstance(params, dict):
            left = correlate(params.get("requestId"))
            if left is not None and left in self._asked:
                self._asked[left].is_left = True
        key = correlate(message.get("id"))
        if key is None:
            return None
        tool = params.get("name") if isinstance(params, dict) else None
        asked = PendingRequest(message["id"], message["method"], str(tool))
        self._asked.pop(key, None)
        self._asked[key] = asked
        while len(self._asked) > _MOST_OPEN:
            del self._asked[next(iter(self._asked))]
        return asked

    def has(self, ident: object) -> bool:
        """Return whether ``ident`` is the id of one of the requests."""
        return correlate(ident) in self._asked

    def named(self, head: bytes, tail: bytes) -> PendingRequest | None:
        """Return the request that a message answers, if either end of it says so."""
        key = correlate(ident_in(head, tail))
        return None if key is None else self._asked.get(key)


async def unpacked(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the unpacked body in small pieces, with a pause after each for other tasks.

    It is not cancelled in a pause: only a read that is cancelled closes the layers
    below.

    Raises:
      TooMuch: if it is compressed more than once, or in a way that was not asked for.
      httpx2.DecodingError: if it is damaged.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in bounds.CODINGS:
        layers = coding.count(",")
        raise TooMuch(
            "it is compressed more than once"
            if layers
            else "its compression is not supported"
        )
    unpack: Any = None
    window = _GZIP if "gzip" in coding else zlib.MAX_WBITS
    async with aclosing(response.aiter_raw()) as pieces:
        async for piece in pieces:
            await trio.lowlevel.cancel_shielded_checkpoint()
            if coding in ("", "identity"):
                for start in range(0, len(piece), _PIECE):
                    yield piece[start : start + _PIECE]
                    await trio.lowlevel.cancel_shielded_checkpoint()
                continue
            while piece:
                unpack = unpack or zlib.decompressobj(window)
                if unpack.eof:
                    break
                try:
                    yield unpack.decompress(piece, _PIECE)
                except zlib.error as error:
                    if window != zlib.MAX_WBITS:
                        raise httpx2.DecodingError(str(error)) from error
                    # Some servers send it without a header.
                    window, unpack = -zlib.MAX_WBITS, None
                    continue
                await trio.lowlevel.cancel_shielded_checkpoint()
                piece = unpack.unconsumed_tail
                if unpack.eof:
                    piece = b""  # data after the end is ignored


async def gathered(
    response: httpx2.Response, asked: PendingRequest | None = None
) -> bytearray:
    """Read the whole body, within the limits of an answer.

    Raises:
      TooMuch: if it exceeds them, or the caller of ``asked`` has stopped waiting.
    """
    body, nodes, bound = bytearray(), 0, None
    # Cancelling a read closes the layers below in order; leaving the loop would not.
    with trio.CancelScope() as enough:
        async for piece in unpacked(response):
            if bound is not None:
                continue
            body += piece
            nodes += bounds.nodes_of(piece) - 1
            bound = bounds.beyond(len(body), nodes)
            if asked is not None and asked.is_left:
                bound = _LEFT
            if bound:
                enough.cancel()
    if bound is not None:
        raise TooMuch(bound)
    return body


async def small_answer(
    condenser: Condenser,
    asked: PendingRequest,
    body: bytes | bytearray,
    *,
    event: bool = False,
) -> dict[str, Any]:
    """Return the message that the SDK reads in place of a large one.

    Raises:
      Unasked: if the message is not an answer.
    """
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.ident}
    try:
        params = {"name": asked.tool}
        result = await condenser.small(
            asked.method, params, asked.ident, body, event=event
        )
        return reply | {"result": result}
    except Unusable as error:
        return reply | _unusable(str(error))
    except MCPError as error:
        return reply | {"error": {"code": error.code, "message": error.message}}


def _unusable(text: str) -> dict[str, Any]:
    return {"error": {"code": PARSE_ERROR, "message": text}}


def read(body: bytes) -> dict[str, Any] | str:
    """Return the message of a small body, or a text that says why it is none."""
    message = decode(body)
    if message is not None:
        return misshapen(message) or message
    misspelt = misspelt_answer(body)
    return "it is not a JSON-RPC message" if misspelt is None else misspelt[1]


@attrs.define(eq=False)
class EventStream(httpx2.AsyncByteStream):
    """The events of an event stream, each of them small.

    Args:
      response: the stream's response, which is closed with this.
      condenser: reads large events.
      open: the requests whose answers may come.
      asked: the request that the stream answers, if it answers one.
    """

    _response: httpx2.Response
    _condenser: Condenser
    _open: Open
    _asked: PendingRequest | None
    _chatter: RateLimit = attrs.field(factory=RateLimit, init=False)
    _event: bytearray = attrs.field(factory=bytearray, init=False)
    _nodes: int = attrs.field(default=0, init=False)
    _beyond: str | None = attrs.field(default=None, init=False)
    _line_begun: bool = attrs.field(default=False, init=False)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(unpacked(self._response)) as pieces:
            async for piece in pieces:
                async with aclosing(self._take(piece)) as ready:
                    async for event in ready:
                        yield event
                if self._asked is not None and self._asked.is_left:
                    # The stream must not simply end here: the SDK would ask for the
                    # rest of it.
                    reply = {"jsonrpc": "2.0", "id": self._asked.ident}
                    yield _event(b"", reply | _unusable(_LEFT))
                    return
        if self._beyond is None and len(self._event) <= bounds.LOOP_BYTES:
            yield bytes(self._event)

    async def aclose(self) -> None:
        await self._response.aclose()

    async def _take(self, piece: bytes) -> AsyncGenerator[bytes]:
        """Yield the events that a piece completes; other tasks run between them."""
        *finished, rest = piece.split(b"\n")
        lines = len(finished) // _LINES_OF_AN_EVENT
        said = 0
        for line in finished:
            ends = not self._line_begun and line in (b"", b"\r")
            self._line_begun = False
            self._grow(line + b"\n")
            if not ends:
                continue
            if bounds.is_small(self._event) and self._beyond is None:
                event, counts = self._small(bytes(self._event))
                said += len(self._event)
                lines += counts
            else:
                event = await self._large()
            self._event, self._nodes, self._beyond = bytearray(), 0, None
            if event:
                yield event
            if lines >= bounds.LINES_OF_AN_EVENT:
                await self._chatter.one_more(said, lines=lines)
                said, lines = 0, 0
        if rest:
            self._line_begun = True
            self._grow(rest)
        if self._beyond is not None:
            said += len(piece)
        await self._chatter.one_more(said, lines=lines)

    def _grow(self, text: bytes) -> None:
        """Add text to the unfinished event, and check the limits."""
        if self._beyond is not None:
            return
        self._event += text
        self._nodes += bounds.nodes_of(text) - 1
        if bound := bounds.beyond(len(self._event), self._nodes):
            self._beyond = bound
            # Its beginning names the request that it answers.
            del self._event[2 * ENDS :]

    def _small(self, event: bytes) -> tuple[bytes, int]:
        """Return what the SDK reads of a small event, and its count of lines."""
        event = event.removeprefix(codecs.BOM_UTF8)
        if b"retry" in event:
            event = _RETRY.sub(_patient, event)
        if not (data := data_of(event)):
            return event, 0
        message = read(data)
        if not isinstance(message, str):
            lines = lines_of(
                message, answers=self._open.has, is_reply=self._asked is not None
            )
            # What stood there for an empty object, or before the data.
            if b"[]" in data or codecs.BOM_UTF8 in event:
                event = _event(event, message)
            return (event, lines) if lines is not None else (_ident(event), 1)
        asked = self._open.named(data[:ENDS], data[-ENDS:]) or self._asked
        if asked is None or is_unasked(data[:ENDS]):
            return _ident(event), 1
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.ident}
        text = f"its answer is not usable: {message}"
        return _event(event, reply | _unusable(text)), bounds.LINES_OF_AN_EVENT

    async def _large(self) -> bytes:
        """Return what the SDK reads of a large event; nothing if it is no answer."""
        self._event = self._event.removeprefix(codecs.BOM_UTF8)
        head, tail = self._event[: 2 * ENDS], self._event[-ENDS:]
        begins = bytes(_DATA.split(head, maxsplit=1)[-1]).removeprefix(codecs.BOM_UTF8)
        asked = self._open.named(begins, bytes(tail.rstrip())) or self._asked
        if asked is None or is_unasked(begins):
            await self._chatter.one_more(len(self._event))
            return b""
        if self._beyond is not None:
            reply: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.ident}
            text = f"its answer is not usable: {self._beyond}"
            return _event(b"", reply | _unusable(text))
        try:
            small = await small_answer(self._condenser, asked, self._event, event=True)
        except Unasked:
            await self._chatter.one_more(len(self._event))
            return b""
        return _event(bytes(head), small)


def _event(head: bytes, message: Mapping[str, Any]) -> bytes:
    """Return an event with the id of the one that begins with ``head``."""
    return (
        _ident(head).rstrip(b"\n")
        + b"\ndata: "
        + json.dumps(message).encode()
        + b"\n\n"
    )


def _ident(event: bytes) -> bytes:
    """Return an event that has only the id of ``event``; nothing if it has none."""
    found = re.search(rb"(?m)^id:[^\r\n]*(?=\r?\n)", event)
    return b"" if found is None else found[0] + b"\n\n"


def _patient(found: re.Match[bytes]) -> bytes:
    """Raise a ``retry`` field to the least delay that we allow."""
    digits = found[1][:9]
    return b"retry: " + str(max(int(digits), bounds.RECONNECT)).encode()
