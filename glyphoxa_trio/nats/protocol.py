"""The client's side of NATS core, without I/O: bytes to events, and commands to bytes.

    reader = WireReader()
    for event in reader.receive(data): ...
    data = publish("table.42", b"hello", most=info.max_payload)

Lines end with CR LF, and a payload follows those that announce one. The reader takes
bytes split anywhere, in time linear in their number, and has bounds on a line and on a
payload. Whoever sends headers may have made them up, so bad ones are no violation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from .errors import PayloadTooLarge, ProtocolViolation

MAX_LINE: Final = 64 * 1024  # bytes: INFO names every member of a cluster
MAX_RECEIVED: Final = 8 * 1024 * 1024  # bytes of a message, headers included
MAX_SUBJECT: Final = 1024  # bytes; a server's whole line has 4096 by default
NO_RESPONDERS: Final = 503

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"
_END: Final = b"\r\n"
_HEAD: Final = b"NATS/1.0"

_TOKEN = r"[^\s.*>\x00-\x1f\x7f]+"
_SUBJECT: Final = re.compile(rf"{_TOKEN}(?:\.{_TOKEN})*")
_PATTERN: Final = re.compile(rf"(?:(?:{_TOKEN}|\*)(?:\.(?:{_TOKEN}|\*))*(?:\.>)?|>)")
_QUEUE: Final = re.compile(r"[^\s\x00-\x1f\x7f]+")
_FIELD: Final = re.compile(r"[!-9;-~]+")  # a header's name
_VALUE: Final = re.compile(r"[^\r\n\x00]*")
_NUMBER: Final = re.compile(rb"[0-9]{1,10}")
_STATUS: Final = re.compile(rb"NATS/1\.0 ([0-9]{3})(?: |$)")


@attrs.frozen
class NatsInfo:
    """The server's description of itself.

    ``max_payload`` is in bytes; ``connect_urls`` are members of its cluster, as
    ``host:port``; ``lame_duck`` means that it will stop soon.
    """

    max_payload: int = 1024 * 1024
    headers: bool = False
    tls_required: bool = False
    tls_available: bool = False
    lame_duck: bool = False
    server_name: str = ""
    connect_urls: tuple[str, ...] = ()


@attrs.frozen
class NatsMessage:
    """A message that arrived. ``reply`` is the subject for an answer, or empty."""

    subject: str
    sid: int
    reply: str
    payload: bytes = attrs.field(repr=False)
    head: bytes = attrs.field(default=b"", repr=False)

    @property
    def status(self) -> int | None:
        """The status in the headers, such as `NO_RESPONDERS`; mostly there is none."""
        found = _STATUS.match(self.head.partition(_END)[0])
        return int(found[1]) if found else None

    @property
    def headers(self) -> dict[str, str]:
        """The headers; the last of a name counts, and lines that are none do not."""
        lines = self.head.split(_END)[1:] if self.head.startswith(_HEAD) else []
        pairs = (line.decode("utf-8", "replace").partition(":") for line in lines)
        return {name: value.strip() for name, colon, value in pairs if name and colon}


@attrs.frozen
class ServerPing:
    """The server asks for a PONG."""


@attrs.frozen
class ServerPong:
    """The answer to the oldest PING that has none yet."""


@attrs.frozen
class ServerTrouble:
    """An error of the server, in its own words: one printable line."""

    text: str


NatsEvent = NatsInfo | NatsMessage | ServerPing | ServerPong | ServerTrouble


@attrs.frozen
class _Announced:
    """The line before a payload: sizes in bytes."""

    subject: str
    sid: int
    reply: str
    head: int
    size: int


@attrs.define(eq=False)
class WireReader:
    """The events in the bytes of one connection."""

    _buffer: bytearray = attrs.field(factory=bytearray, init=False, repr=False)
    _searched: int = attrs.field(default=0, init=False)
    _announced: _Announced | None = attrs.field(default=None, init=False)

    @property
    def is_between(self) -> bool:
        """True if no part of an unfinished event was received."""
        return not self._buffer and self._announced is None

    def receive(self, data: bytes | bytearray) -> list[NatsEvent]:
        """Return the events that these bytes complete. An ``+OK`` is none.

        Raises:
          ProtocolViolation: after it, this reader is of no use.
        """
        self._buffer += data
        events: list[NatsEvent] = []
        at = 0
        while True:
            if self._announced is not None:
                end = at + self._announced.size
                if len(self._buffer) < end + 2:
                    break
                if self._buffer[end : end + 2] != _END:
                    raise ProtocolViolation("a payload has not the size that was said")
                data, said = bytes(self._buffer[at:end]), self._announced
                payload, head = data[said.head :], data[: said.head]
                events.append(
                    NatsMessage(said.subject, said.sid, said.reply, payload, head)
                )
                self._announced = None
                at = end + 2
            else:
                end = self._buffer.find(_END, at + self._searched)
                if end < 0:
                    # The CR may be there already.
                    self._searched = max(0, len(self._buffer) - at - 1)
                    if self._searched > MAX_LINE:
                        raise ProtocolViolation("a line is too long")
                    break
                if end - at > MAX_LINE:
                    raise ProtocolViolation("a line is too long")
                found = _line(bytes(self._buffer[at:end]))
                if isinstance(found, _Announced):
                    self._announced = found
                elif found is not None:
                    events.append(found)
                self._searched = 0
                at = end + 2
        if at:
            del self._buffer[:at]
        return events


def _line(line: bytes) -> NatsEvent | _Announced | None:
    word, _, rest = line.partition(b" ")
    match word.upper():
        case b"MSG" | b"HMSG":
            return _announced(rest.split(), has_head=len(word) == 4)
        case b"PING":
            return ServerPing()
        case b"PONG":
            return ServerPong()
        case b"INFO":
            return _info(rest)
        case b"-ERR":
            text = rest.decode("utf-8", "replace").strip().strip("'")
            return ServerTrouble("".join(x if x.isprintable() else "?" for x in text))
        case b"+OK":
            return None
    raise ProtocolViolation("a line is no command of a NATS server")


def _announced(words: list[bytes], *, has_head: bool) -> _Announced:
    sizes = words[-2:] if has_head else [b"0", *words[-1:]]
    names = words[: -2 if has_head else -1]
    if len(names) not in (2, 3) or not all(map(_NUMBER.fullmatch, (names[1], *sizes))):
        raise ProtocolViolation("the line before a payload is malformed")
    head, size = map(int, sizes)
    if not head <= size <= MAX_RECEIVED:
        raise ProtocolViolation(f"a payload of {size} bytes is too large")
    reply = names[2] if len(names) == 3 else b""
    subject = names[0].decode("utf-8", "replace")
    return _Announced(
        subject, int(names[1]), reply.decode("utf-8", "replace"), head, size
    )


def _info(text: bytes) -> NatsInfo:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProtocolViolation("the server's INFO is not JSON")
    most, urls = found.get("max_payload"), found.get("connect_urls")
    urls = urls if isinstance(urls, list) else []
    name = found.get("server_name")
    plain = NatsInfo()
    return NatsInfo(
        max_payload=most if type(most) is int and most > 0 else plain.max_payload,
        headers=found.get("headers") is True,
        tls_required=found.get("tls_required") is True,
        tls_available=found.get("tls_available") is True,
        lame_duck=found.get("ldm") is True,
        server_name=name if isinstance(name, str) else "",
        connect_urls=tuple(x for x in urls if isinstance(x, str)),
    )


def connect(options: Mapping[str, Any]) -> bytes:
    """Return a CONNECT with these options, which may hold credentials."""
    return b"CONNECT %b\r\n" % json.dumps(options, separators=(",", ":")).encode()


def publish(
    subject: str,
    payload: bytes,
    *,
    reply: str = "",
    headers: Mapping[str, str] | None = None,
    most: int,
) -> bytes:
    """Return a PUB, or HPUB with headers.

    Args:
      most: bytes that the server takes, headers included.

    Raises:
      ValueError: for a subject or header that NATS does not allow.
      PayloadTooLarge: more than ``most``.
    """
    check_subject(subject)
    if reply:
        check_subject(reply)
    head = b"" if headers is None else _head(headers)
    size = len(head) + len(payload)
    if size > most:
        raise PayloadTooLarge(
            f"a message of {size} bytes to {subject}: the server takes {most}"
        )
    to = f"{subject} {reply}" if reply else subject
    sizes = f"{len(head)} {size}" if head else f"{size}"
    line = f"{'HPUB' if head else 'PUB'} {to} {sizes}\r\n"
    return b"".join((line.encode(), head, payload, _END))


def subscribe(pattern: str, sid: int, *, queue: str = "") -> bytes:
    """Return a SUB.

    Raises:
      ValueError: for a pattern or a queue's name that NATS does not allow.
    """
    check_pattern(pattern)
    if queue and not _QUEUE.fullmatch(queue):
        raise ValueError(f"{queue!r} is no name of a queue")
    return f"SUB {pattern} {queue} {sid}\r\n".replace("  ", " ").encode()


def unsubscribe(sid: int) -> bytes:
    return b"UNSUB %d\r\n" % sid


def check_subject(subject: str) -> None:
    """Raise ValueError unless a message can be published to ``subject``."""
    if not _SUBJECT.fullmatch(subject) or len(subject.encode()) > MAX_SUBJECT:
        raise ValueError(f"{subject[:100]!r} is no subject to publish to")


def check_pattern(pattern: str) -> None:
    """Raise ValueError unless ``pattern``, with wildcards or not, can be subscribed."""
    if not _PATTERN.fullmatch(pattern) or len(pattern.encode()) > MAX_SUBJECT:
        raise ValueError(f"{pattern[:100]!r} is no subject to subscribe to")


def _head(headers: Mapping[str, str]) -> bytes:
    for name, value in headers.items():
        if not _FIELD.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"{name[:100]!r} or its value is no header")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return b"%b\r\n%b\r\n" % (_HEAD, lines.encode())
