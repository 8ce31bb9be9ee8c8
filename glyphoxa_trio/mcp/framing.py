"""JSON-RPC on byte streams, one message a line: no I/O, no tasks, no clock.

A server's output is not trusted: `decode` returns None for a line that is not a
message, and never raises. Import this lazily: the parser comes with the SDK.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from typing import Any, Final

import attrs
from pydantic_core import from_json, to_json

from . import bounds

LONGEST_MESSAGE: Final = bounds.MOST_BYTES  # bytes of a message
MOST_QUEUED: Final = 1024  # messages that wait to be written
MOST_QUEUED_BYTES: Final = LONGEST_MESSAGE
MOST_ANSWERS: Final = 64  # of those, answers to requests of the server

# What a pipe holds. No more is written to it at once, because a message that is still
# queued can be taken back, and is known to have had no effect.
_BATCH: Final = 2**16

_CHEAP: Final = bounds.LOOP_NODES  # a line so short has no more nodes than that
_ENDS: Final = 300  # bytes kept of either end of a line that is dropped

_MARK: Final = codecs.BOM_UTF8  # .NET writes it before a text

_EXACT: Final = json.JSONEncoder(allow_nan=False)
_LONGEST_INTEGER: Final = 18  # digits: our own ids stay below


class FrameNotSendable(ValueError):
    """The message cannot be written as JSON."""


@attrs.frozen(eq=False)
class Large:
    """A line that is too large for the loop, and an upper bound of its nodes."""

    line: bytearray
    nodes: int


@attrs.define(eq=False)
class LineTooLarge:
    """A line that exceeds a limit and is dropped.

    It is returned as soon as that is known, with the first bytes of the line, and once
    more with the last bytes when the line ends.
    """

    bound: str
    head: bytes
    tail: bytes = b""


@attrs.define(eq=False)
class Framing:
    """A splitter of chunks of bytes into lines. Empty lines are skipped.

    Lines are checked against the limits while they arrive, so no more of a line is kept
    than may be parsed, and nothing is parsed here that would block the loop.
    """

    _unfinished: bytearray = attrs.field(factory=bytearray, init=False)
    _nodes: int = attrs.field(default=0, init=False)
    _dropped: LineTooLarge | None = attrs.field(default=None, init=False)
    _lost: int = attrs.field(default=0, init=False)

    @property
    def is_endless(self) -> bool:
        """True if too much of a line was dropped to wait for its end."""
        return self._dropped is not None and self._lost > bounds.MOST_DROPPED

    @property
    def dropping(self) -> bool:
        """True if the line that is arriving will be dropped."""
        return self._dropped is not None

    def feed(self, chunk: bytes | bytearray) -> list[bytes | Large | LineTooLarge]:
        """Return the lines that ``chunk`` completes, and those that exceed a limit."""
        *finished, rest = bytes(chunk).split(b"\n")
        lines: list[bytes | Large | LineTooLarge] = []
        for piece in finished:
            if self._unfinished or self._dropped is not None or len(piece) > _CHEAP:
                self._grow(piece, lines)
                self._end(lines)
            elif piece and not piece.isspace():
                lines.append(piece.removeprefix(_MARK))
        self._grow(rest, lines)
        return lines

    def _grow(self, piece: bytes, lines: list[bytes | Large | LineTooLarge]) -> None:
        """Add a piece to the unfinished line, and check the limits."""
        if self._dropped is not None:
            self._dropped.tail = (self._dropped.tail + piece[-_ENDS:])[-_ENDS:]
            self._lost += len(piece)
            return
        self._unfinished += piece
        if len(self._unfinished) <= bounds.LOOP_NODES:
            return
        if len(self._unfinished) - len(piece) <= bounds.LOOP_NODES:
            self._nodes = bounds.nodes_of(self._unfinished)
        else:
            self._nodes += bounds.nodes_of(piece) - 1
        bound = bounds.beyond(len(self._unfinished), self._nodes)
        if bound is not None:
            head, tail = self._unfinished[:_ENDS], self._unfinished[-_ENDS:]
            self._dropped = LineTooLarge(bound, bytes(head), bytes(tail))
            self._unfinished, self._lost = bytearray(), 0
            lines.append(attrs.evolve(self._dropped, tail=b""))

    def _end(self, lines: list[bytes | Large | LineTooLarge]) -> None:
        """Finish the line."""
        line, nodes = self._unfinished, self._nodes
        if self._dropped is not None:
            lines.append(self._dropped)
            self._dropped = None
        elif len(line) <= bounds.LOOP_NODES or (
            len(line) <= bounds.LOOP_BYTES and nodes <= bounds.LOOP_NODES
        ):
            if not line.isspace():
                lines.append(bytes(line).removeprefix(_MARK))
        else:
            if line.startswith(_MARK):
                del line[: len(_MARK)]
            lines.append(Large(line, nodes))
        self._unfinished, self._nodes = bytearray(), 0


@attrs.define(eq=False)
class ByteOutbox:
    """The messages that wait to be written, in order, within limits.

    A message that waits can be taken back. Answers have a small limit of their own, so
    that a server that asks without end cannot crowd out our requests.
    """

    _lines: dict[object, bytes] = attrs.field(factory=dict, init=False)
    _answers: set[object] = attrs.field(factory=set, init=False)
    _size: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def takes_answers(self) -> bool:
        """True if another answer may be queued."""
        return len(self._answers) < MOST_ANSWERS

    def put(self, key: object, line: bytes, *, answer: bool = False) -> bool:
        """Queue a line under a key of its own; return False if there is no room."""
        size = self._size + len(line)
        if len(self._lines) >= MOST_QUEUED or size > MOST_QUEUED_BYTES:
            return False
        if answer:
            self._answers.add(key)
        self._lines[key] = line
        self._size = size
        return True

    def take_back(self, key: object) -> None:
        """Remove a line that was not written yet."""
        self._size -= len(self._lines.pop(key))

    def batch(self) -> tuple[list[object], bytes]:
        """Return the oldest lines as one text, and their keys.

        That is one line, or as many as fit into 64 KiB.
        """
        keys: list[object] = []
        size = 0
        for key, line in self._lines.items():
            size += len(line)
            if keys and size > _BATCH:
                break
            keys.append(key)
        data = b"".join([self._lines.pop(key) for key in keys])
        self._size -= len(data)
        if self._answers:
            self._answers.difference_update(keys)
        return keys, data

    def clear(self) -> None:
        """Remove all lines."""
        self._lines.clear()
        self._answers.clear()
        self._size = 0


def encode(message: Mapping[str, Any]) -> bytes:
    """Encode one message as one line.

    Raises:
      NotSendable: for what JSON cannot hold: a NaN, a lone surrogate, a foreign object.
    """
    try:
        line = to_json(message)
        if b"NaN" in line or b"Infinity" in line:  # usually part of a text
            _EXACT.encode(message)
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameNotSendable(str(error)) from error
    return line + b"\n"


def decode(line: bytes) -> dict[str, Any] | None:
    """Return the message of a line; None if it is garbage, a batch or not JSON."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        message = from_json(line, allow_inf_nan=False)
    except ValueError:
        return None
    if type(message) is not dict or message.get("jsonrpc") != "2.0":
        return None
    for key in ("result", "params"):
        if message.get(key) == []:  # PHP writes an empty object so
            message[key] = {}
    return None if _is_endless(message) else message


def misspelt_answer(line: bytes) -> tuple[int | str, str] | None:
    """Return the id that an almost valid answer is for, and its fault.

    Python's `json` writes NaN, and cutting a text can leave a lone surrogate. The
    caller that waits for the answer should get an error at once instead of waiting in
    vain. Returns None if the line is not an answer.
    """
    if not line.lstrip().startswith(b"{"):
        return None
    wrong = "a number in it is too large"
    try:
        from_json(line, allow_inf_nan=False)
    except ValueError as error:
        wrong = str(error)
    try:
        message = json.loads(line, parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    if message.get("jsonrpc") != "2.0" or "result" not in message:
        return None
    ident = correlate(message.get("id"))
    return None if ident is None else (ident, wrong)


def _integer(digits: str) -> int:
    """Read an integer that could be an id; Python refuses to read very long ones."""
    return int(digits) if len(digits) <= _LONGEST_INTEGER else 0


def _is_endless(message: dict[str, Any]) -> bool:
    """Return whether a message contains an infinity: 1e999 is valid JSON."""
    try:  # the loss of the session is reported elsewhere
        if b"Infinity" in to_json(message):  # perhaps only in a text
            _EXACT.encode(message)
    except ValueError:
        return True
    return False


def correlate(ident: object) -> int | str | None:
    """Normalise an id; None if it is no valid id. "7" and 7 are the same id."""
    kind = type(ident)
    if kind is int:
        return ident  # type: ignore[return-value]  # mypy does not follow `kind`
    if kind is not str:
        return None
    text: str = ident  # type: ignore[assignment]
    digits = text.removeprefix("-")
    if len(digits) <= _LONGEST_INTEGER and digits.isascii() and digits.isdigit():
        return int(text)
    return text
