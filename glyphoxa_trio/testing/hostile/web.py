"""Any server of the family on HTTP, and bad ways to pack its answers.

The behaviour runs in a child process on pipes, as everywhere; this process carries its
lines. A line that answers a POST is the answer of that POST, and every other line is an
event for the client's GET. A packing changes the answer to a call of the tool ``bad``;
everything else is sent plainly, so that a client gets that far.

Standard library only, one thread a connection.
"""

from __future__ import annotations

import gzip
import json
import os
import queue
import re
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from . import wire

_PATIENCE = 600.0  # seconds for an answer of the child
_ANSWERS = re.compile(
    rb'\s*\{"jsonrpc": ?"2\.0", ?"id": ?("[^"\\]*"|-?\d+), ?"(?:result|error)"'
)
_TAIL = re.compile(rb'"id": ?("[^"\\]*"|-?\d+)\}\s*$')
_BLOCK = 2**16
_HEAVY = 2**20

Send = Callable[[bytes], None]


def _head(
    more: str = "", *, kind: str = "application/json", status: str = "200 OK"
) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}\r\n".encode()


def _sized(body: bytes, more: str = "") -> bytes:
    return _head(f"Content-Length: {len(body)}\r\n{more}") + body


def _coded(body: bytes, coding: str) -> bytes:
    return _sized(body, f"Content-Encoding: {coding}\r\n")


def _zeros(megabytes: int) -> Iterator[bytes]:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    for _ in range(megabytes):
        yield packer.compress(b" " * _HEAVY)
    yield packer.flush()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_CHUNKED = "Transfer-Encoding: chunked\r\n"
_STREAM = "text/event-stream"


def plain(body: bytes, send: Send) -> None:
    send(_sized(body))


def gzipped(body: bytes, send: Send) -> None:
    send(_coded(gzip.compress(body, 1), "gzip"))


def gzip_twice(body: bytes, send: Send) -> None:
    send(_coded(gzip.compress(gzip.compress(body, 1)), "gzip, gzip"))


def gzip_thrice(body: bytes, send: Send) -> None:
    """Send a small answer in three layers, each a thousand times smaller."""
    body = body + b" " * (8 * _HEAVY)
    for _ in range(3):
        body = gzip.compress(body, 9)
    send(_coded(body, "gzip, gzip, gzip"))


def gzip_bomb(body: bytes, send: Send) -> None:
    send(_coded(b"".join(_zeros(200)), "gzip"))


def gzip_for_ever(body: bytes, send: Send) -> None:
    send(_head(f"{_CHUNKED}Content-Encoding: gzip\r\n"))
    for packed in _zeros(10**9):
        if packed:
            send(_chunk(packed))


def gzip_cut(body: bytes, send: Send) -> None:
    packed = gzip.compress(body)
    send(_coded(packed[: len(packed) // 2], "gzip"))


def gzip_lie(body: bytes, send: Send) -> None:
    send(_coded(body, "gzip"))


def deflated(body: bytes, send: Send) -> None:
    send(_coded(zlib.compress(body), "deflate"))


def unknown_coding(body: bytes, send: Send) -> None:
    send(_coded(body, "br, zstd, wizardry"))


def tiny_chunks(body: bytes, send: Send) -> None:
    """Send a quarter of a million chunks of one byte."""
    padded = (body + b" " * (_HEAVY // 4))[: max(len(body), _HEAVY // 4)]
    send(_head(_CHUNKED))
    for at in range(0, len(padded), _BLOCK):
        send(b"".join(map(_chunk, _bytes(padded[at : at + _BLOCK]))))
    send(b"0\r\n\r\n")


def tiny_events(body: bytes, send: Send) -> None:
    """Send an event stream in chunks of one byte, with comments between."""
    send(_head(_CHUNKED, kind=_STREAM))
    for _ in range(2_000):
        send(b"".join(map(_chunk, _bytes(b": still here\n"))))
    send(_chunk(_event(body)) + b"0\r\n\r\n")


def endless_chunks(body: bytes, send: Send) -> None:
    send(_head(_CHUNKED))
    _for_ever(_chunk(b" ") * 5_000, send)


def endless_body(body: bytes, send: Send) -> None:
    send(_head("Content-Length: 999999999999\r\n"))
    _for_ever(b" " * _BLOCK, send)


def no_length(body: bytes, send: Send) -> None:
    send(_head("Connection: close\r\n"))
    _for_ever(b" " * _BLOCK, send)


def too_short(body: bytes, send: Send) -> None:
    send(_head(f"Content-Length: {len(body) + 1000}\r\n") + body)


def too_long(body: bytes, send: Send) -> None:
    send(_head(f"Content-Length: {len(body) // 2}\r\n") + body)


def two_lengths(body: bytes, send: Send) -> None:
    send(_head(f"Content-Length: {len(body)}\r\nContent-Length: 5\r\n") + body)


def huge_chunk(body: bytes, send: Send) -> None:
    send(_head(_CHUNKED) + b"f" * 4_000 + b"\r\n")


def endless_headers(body: bytes, send: Send) -> None:
    send(b"HTTP/1.1 200 OK\r\n")
    _for_ever(b"X-A: b\r\n" * 5_000, send)


def long_header(body: bytes, send: Send) -> None:
    send(b"HTTP/1.1 200 OK\r\nX-A: ")
    _for_ever(b"a" * _BLOCK, send)


def endless_statuses(body: bytes, send: Send) -> None:
    _for_ever(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000, send)


def garbage(body: bytes, send: Send) -> None:
    _for_ever(bytes(range(256)) * 256, send)


def events(body: bytes, send: Send) -> None:
    send(_head(_CHUNKED, kind=_STREAM))
    for at in range(0, len(data := _event(body)), _BLOCK):
        send(_chunk(data[at : at + _BLOCK]))
    send(b"0\r\n\r\n")


def event_lines(body: bytes, send: Send) -> None:
    """Send one event in which each letter has a line of its own."""
    lines = b"".join(b"data: %c\n" % byte for byte in body[:_BLOCK])
    send(_head(_CHUNKED, kind=_STREAM) + _chunk(lines + b"\n") + b"0\r\n\r\n")


def endless_comments(body: bytes, send: Send) -> None:
    send(_head(_CHUNKED, kind=_STREAM))
    _for_ever(_chunk(b": still here\n" * 5_000), send)


def endless_comment(body: bytes, send: Send) -> None:
    send(_head(_CHUNKED, kind=_STREAM) + _chunk(b": "))
    _for_ever(_chunk(b"x" * _BLOCK), send)


def endless_event(body: bytes, send: Send) -> None:
    send(_head(_CHUNKED, kind=_STREAM) + _chunk(b'data: {"jsonrpc": "2.0"'))
    _for_ever(_chunk(b" " * _BLOCK), send)


def endless_notices(body: bytes, send: Send) -> None:
    """Send notifications without end in the stream that should have the answer."""
    notice = {"jsonrpc": "2.0", "method": "notifications/message"}
    notice["params"] = {"level": "info", "data": "still here"}  # type: ignore[assignment]
    send(_head(_CHUNKED, kind=_STREAM))
    _for_ever(_chunk(_event(json.dumps(notice).encode()) * 500), send)


def large_notices(body: bytes, send: Send) -> None:
    notice = {"jsonrpc": "2.0", "method": "notifications/message"}
    notice["params"] = {"level": "info", "data": "x" * 5 * _HEAVY}  # type: ignore[assignment]
    send(_head(_CHUNKED, kind=_STREAM))
    _for_ever(_chunk(_event(json.dumps(notice).encode())), send)


def retry_at_once(body: bytes, send: Send) -> None:
    """Send an event stream that ends without the answer, and asks to be read again."""
    send(_head(_CHUNKED, kind=_STREAM))
    send(_chunk(b"id: 7\nretry: 0\ndata: \n\n") + b"0\r\n\r\n")


def redirects(body: bytes, send: Send) -> None:
    more = "Location: /mcp\r\nContent-Length: 0\r\n"
    send(_head(more, status="307 Temporary Redirect"))


def many_cookies(body: bytes, send: Send) -> None:
    cookies = "".join(f"Set-Cookie: c{n}={'x' * 100}\r\n" for n in range(90))
    send(_sized(body, cookies))


def no_json(body: bytes, send: Send) -> None:
    send(_sized(b"\xff\xfe" * 100_000))


def _event(data: bytes) -> bytes:
    return b"event: message\ndata: " + data.strip() + b"\n\n"


def _bytes(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


def _for_ever(data: bytes, send: Send) -> None:
    while True:
        send(data)


PACKINGS: dict[str, Callable[[bytes, Send], None]] = {
    packing.__name__: packing
    for packing in (
        plain,
        gzipped,
        gzip_twice,
        gzip_thrice,
        gzip_bomb,
        gzip_for_ever,
        gzip_cut,
        gzip_lie,
        deflated,
        unknown_coding,
        tiny_chunks,
        tiny_events,
        endless_chunks,
        endless_body,
        no_length,
        too_short,
        too_long,
        two_lengths,
        huge_chunk,
        endless_headers,
        long_header,
        endless_statuses,
        garbage,
        events,
        event_lines,
        endless_comments,
        endless_comment,
        endless_event,
        endless_notices,
        large_notices,
        retry_at_once,
        redirects,
        many_cookies,
        no_json,
    )
}
"""How an answer may be packed, by name. `plain` and `events` are as they should be."""


class _Carrier:
    """The child's pipes, and the requests that wait for its lines."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._stdin, self._stdout = stdin, stdout
        self._writing = threading.Lock()
        self._waiting: dict[bytes, queue.Queue[bytes]] = {}
        self._unasked: queue.Queue[bytes] = queue.Queue(64)

    def read(self) -> None:
        """Pass each line to the request that it answers; exit when the child ends."""
        with os.fdopen(self._stdout, "rb", buffering=_HEAVY) as lines:
            for line in lines:
                found = _ANSWERS.match(line[:200]) or _TAIL.search(line[-200:])
                waiting = self._waiting.pop(found[1], None) if found else None
                if waiting is not None:
                    waiting.put(line)
                else:
                    with suppress(queue.Full):
                        self._unasked.put_nowait(line)
        os._exit(0)

    def say(self, message: bytes) -> None:
        with self._writing:
            wire.raw(message.replace(b"\n", b" ") + b"\n", to=self._stdin)

    def ask(self, ident: Any, message: bytes) -> bytes:
        mine = self._waiting[json.dumps(ident).encode()] = queue.Queue(1)
        self.say(message)
        return mine.get(timeout=_PATIENCE)

    def unasked(self) -> bytes:
        return self._unasked.get(timeout=_PATIENCE)


def serve(packing: str, run: Callable[[], None]) -> None:
    """Serve HTTP until killed; print the port. ``run`` is the child's work."""
    to_child, from_parent = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.dup2(to_child[0], 0)
        os.dup2(from_parent[1], 1)
        for end in (*to_child, *from_parent):
            os.close(end)
        run()
        os._exit(0)
    os.close(to_child[0])
    os.close(from_parent[1])
    carrier = _Carrier(to_child[1], from_parent[0])
    threading.Thread(target=carrier.read, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0))
    wire.raw(b"%d\n" % listener.getsockname()[1])
    while True:
        client, _ = listener.accept()
        threading.Thread(
            target=_serve, args=(client, carrier, PACKINGS[packing]), daemon=True
        ).start()


def _serve(
    client: socket.socket, carrier: _Carrier, pack: Callable[[bytes, Send], None]
) -> None:
    with client, client.makefile("rb") as said, suppress(OSError, ValueError):
        while start := said.readline():
            length = 0
            while (header := said.readline()).strip():
                name, _, value = header.partition(b":")
                if name.strip().lower() == b"content-length":
                    length = int(value)
            method, body = start.split()[0], said.read(length)
            if method == b"GET":
                _listened_to(client, carrier)
                return
            if method == b"DELETE":
                client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
                continue
            _post(client, carrier, pack, body)


def _post(
    client: socket.socket,
    carrier: _Carrier,
    pack: Callable[[bytes, Send], None],
    body: bytes,
) -> None:
    message = json.loads(body)
    if "id" not in message or "method" not in message:
        carrier.say(body)
        client.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        return
    answer = carrier.ask(message["id"], body)
    if wire.is_bad(message):
        pack(answer, client.sendall)
        return
    session = "Mcp-Session-Id: hostile\r\n" if message["method"] == "initialize" else ""
    client.sendall(_sized(answer, session))


def _listened_to(client: socket.socket, carrier: _Carrier) -> None:
    client.sendall(_head(_CHUNKED, kind=_STREAM))
    while True:
        with suppress(queue.Empty):
            client.sendall(_chunk(_event(carrier.unasked())))
