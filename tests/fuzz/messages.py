"""Messages of servers as they are, and what chance makes of them.

A `Mill` gives the same messages for the same seed. Most are real ones that went wrong
in a place or two: bits, ends, types, names, ids, nesting, encodings.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import attrs

_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
# As servers on the SDKs write them. An answer's id is put in where it is used.
RECORDED: tuple[dict[str, Any], ...] = (
    {"result": {"content": [{"type": "text", "text": "Eleven."}], "isError": False}},
    {
        "result": {
            "content": [{"type": "text", "text": '{"sum": 11}'}],
            "structuredContent": {"sum": 11, "dice": [5, 6]},
            "isError": False,
            "_meta": {"glyphoxa/took_ms": 3},
        }
    },
    {
        "result": {
            "content": [
                {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
                {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
                {
                    "type": "resource",
                    "resource": {"uri": "shelf://herbal", "text": "Mugwort."},
                },
                {
                    "type": "resource",
                    "resource": {"uri": "shelf://map", "blob": "AAAA"},
                },
                {"type": "resource_link", "uri": "shelf://book", "name": "book"},
            ]
        }
    },
    {
        "result": {
            "content": [{"type": "text", "text": "No such die."}],
            "isError": True,
        }
    },
    {"result": {"content": [{"type": "text", "text": "Grüße, 冒険者 🐉\u2028"}]}},
    {"error": {"code": -32602, "message": "Unknown tool: rol", "data": None}},
    {"error": {"code": -32603, "message": "Internal error", "data": {"trace": ["a"]}}},
    {"result": {}},
    {
        "result": {
            "tools": [{"name": "roll", "inputSchema": _SCHEMA}],
            "nextCursor": "2",
        }
    },
    {"result": {"resources": [{"uri": "shelf://herbal", "name": "herbal"}]}},
    {"result": {"contents": [{"uri": "shelf://herbal", "text": "Mugwort."}]}},
    {
        "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "dice", "version": "1.2.0"},
            "instructions": "Roll once.",
        }
    },
    {
        "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 0.5, "total": 1, "message": "half"},
    },
    {
        "method": "notifications/message",
        "params": {"level": "info", "logger": "dice", "data": {"said": "still here"}},
    },
    {"method": "notifications/tools/list_changed"},
    {"method": "notifications/resources/updated", "params": {"uri": "shelf://map"}},
    {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "no"}},
    {"id": "s-1", "method": "ping"},
    {"id": "s-2", "method": "roots/list"},
    {
        "id": "s-3",
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
            "maxTokens": 100,
        },
    },
    {
        "id": "s-4",
        "method": "elicitation/create",
        "params": {"message": "name?", "requestedSchema": _SCHEMA},
    },
)

_ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    7,
    2**53,
    10**30,
    -0.0,
    1e308,
    "",
    "x",
    "x" * 5_000,
    "\x00\x1b[2J",
    "\ud800",
    "\u202e\u200b",
    "2.0",
    "NaN",
    [],
    {},
    [[]] * 200,
    [None],
    {"": None},
    {"type": "text", "text": "x"},
    {"$ref": "#"},
)
# Pieces of text that JSON, or a reader of it, may trip over.
_PIECES = (
    *(
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"-",
        b"0x1",
        b"\\u0000",
        b"\\ud800",
    ),
    *(b"null", b"[", b"]", b"{", b"}", b'"', b",", b":", b"\\", b"\xff", b"\xc0\x80"),
    *(b"\xed\xa0\x80", b"\r", b"\x00", b"\xef\xbb\xbf", b"9" * 400, b"[" * 300),
    *(b'"id":', b'"result":', b'"jsonrpc":"2.0",', b"/*", b"'", b"\xe2\x80\xa8"),
)


@attrs.define(eq=False)
class Mill:
    """Grinds messages. ``ground`` counts them."""

    seed: int
    ground: int = 0
    _chance: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def message(self, ident: Any) -> bytes:
        """One message for a client that waits for the answer ``ident``; no newline."""
        self.ground += 1
        chance = self._chance
        message = self._recorded(ident)
        for _ in range(chance.choice((0, 1, 1, 2, 4))):
            message = self._bent(message)
        line = self._written(message)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
            line = chance.choice(_BREAKS)(self, line)
        return line.replace(b"\n", b" ")

    def number(self, below: int) -> int:
        return self._chance.randrange(max(1, below))

    def pick(self, *these: Any) -> Any:
        return self._chance.choice(these)

    def _recorded(self, ident: Any) -> Any:
        chance = self._chance
        message = {"jsonrpc": "2.0", **json.loads(json.dumps(chance.choice(RECORDED)))}
        if "method" not in message:
            others = (
                ident,
                ident,
                ident,
                str(ident),
                None,
                0,
                -1,
                10**9,
                [ident],
                True,
            )
            message = {"jsonrpc": "2.0", "id": chance.choice(others), **message}
        elif "id" in message and chance.random() < 0.5:
            message["id"] = chance.choice((ident, None, chance.randrange(5), [], 1.5))
        if chance.random() < 0.2:
            pairs = list(message.items())
            chance.shuffle(pairs)
            message = dict(pairs)
        return message

    def _bent(self, message: Any) -> Any:
        """With something else in one place."""
        chance = self._chance
        if isinstance(message, dict) and message and chance.random() < 0.9:
            key = chance.choice([*message])
            if chance.random() < 0.65:
                return {**message, key: self._bent(message[key])}
            match chance.randrange(4):
                case 0:
                    return {k: v for k, v in message.items() if k != key}
                case 1:
                    return {**message, chance.choice(("", "_meta", "x")): message[key]}
                case 2:
                    return {**message, key: [message[key]] * chance.choice((1, 2, 50))}
                case _:
                    return {**message, key: chance.choice(_ODD)}
        if isinstance(message, list) and message and chance.random() < 0.9:
            at = chance.randrange(len(message))
            return [*message[:at], self._bent(message[at]), *message[at + 1 :]]
        if chance.random() < 0.1:
            nested = message
            for _ in range(chance.choice((10, 90, 250))):
                nested = [nested] if chance.random() < 0.5 else {"a": nested}
            return nested
        return chance.choice(_ODD)

    def _written(self, message: Any) -> bytes:
        chance = self._chance
        spaced = (",", ":") if chance.random() < 0.5 else None
        plain = chance.random() < 0.6
        try:
            text = json.dumps(message, separators=spaced, ensure_ascii=plain)
        except RecursionError:  # bent more than once, it may be deeper than Python is
            text = "[" * 2000 + "]" * 2000
        coding = "utf-8" if chance.random() < 0.95 else chance.choice(_CODINGS)
        return text.encode(
            coding, errors="surrogatepass" if "utf" in coding else "replace"
        )


_CODINGS = ("utf-16", "latin-1", "utf-8-sig", "utf-16-le", "cp1252")


def _flip(mill: Mill, line: bytes) -> bytes:
    data = bytearray(line)
    if data:
        data[mill.number(len(data))] ^= 1 << mill.number(8)
    return bytes(data)


def _cut(mill: Mill, line: bytes) -> bytes:
    return line[: mill.number(len(line) + 1)]


def _behead(mill: Mill, line: bytes) -> bytes:
    return line[mill.number(len(line) + 1) :]


def _put(mill: Mill, line: bytes) -> bytes:
    at = mill.number(len(line) + 1)
    piece: bytes = mill.pick(*_PIECES)
    return line[:at] + piece + line[at:]


def _splice(mill: Mill, line: bytes) -> bytes:
    other = json.dumps(mill.pick(*RECORDED)).encode()
    return line[: mill.number(len(line))] + other[mill.number(len(other)) :]


def _twice(mill: Mill, line: bytes) -> bytes:
    return line + (b"" if mill.number(2) else b",") + line


def _wrapped(mill: Mill, line: bytes) -> bytes:
    before, after = mill.pick((b"[", b"]"), (b'{"a":', b"}"), (b" " * 99, b"\t"))
    return bytes(before) + line + bytes(after)


def _again(mill: Mill, line: bytes) -> bytes:
    start = mill.number(len(line))
    piece = line[start : start + mill.number(40)]
    return line[:start] + piece * mill.number(30) + line[start:]


_BREAKS: tuple[Callable[[Mill, bytes], bytes], ...] = (
    _flip,
    _flip,
    _cut,
    _behead,
    _put,
    _put,
    _splice,
    _twice,
    _wrapped,
    _again,
)
