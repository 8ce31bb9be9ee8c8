"""Servers whose answers are legal, and as slow to parse as 15 MB can be."""

from __future__ import annotations

import json
from collections.abc import Callable

from .family import behaviour, choices
from .wire import TOOLS, Message, raw, send, serve, serve_between, tool

_SIZE = 15 * 2**20  # bytes; a client accepts at most 16 MiB
_HERE = b'"?"'


def _filled(piece: bytes, size: int = _SIZE) -> bytes:
    """Repeat ``piece`` with commas between, up to the size."""
    return b",".join([piece] * (size // (len(piece) + 1)))


def _texts(count: int) -> bytes:
    return b",".join([b'{"type":"text","text":"a"}'] * count)


def _keys(count: int, *, same: bool = False) -> bytes:
    keys = (b'"k%d":0' % (0 if same else number) for number in range(count))
    return b"{%s}" % b",".join(keys)


_TEXT = b'{"content":[{"type":"text","text":"?"}]}'
_DATA = b'{"content":[],"structuredContent":{"a":"?"}}'
_BLOCKS = b'{"content":["?"]}'

# By kind: the result, and the text that replaces the "?" in it.
_RESULTS: dict[str, tuple[bytes, Callable[[], bytes]]] = {
    "text": (_TEXT, lambda: b'"%s"' % (b"x" * _SIZE)),
    "escapes": (_TEXT, lambda: b'"%s"' % (rb"\u0001" * (_SIZE // 6))),
    "surrogates": (_TEXT, lambda: b'"%s"' % (rb"\ud83d\ude00" * (_SIZE // 12))),
    "quotes": (_TEXT, lambda: b'"%s"' % (rb"\"" * (_SIZE // 2))),
    "commas": (_TEXT, lambda: b'"%s"' % (b",[{" * (_SIZE // 3))),
    "lines": (_TEXT, lambda: b'"%s"' % (rb"\n" * (_SIZE // 2))),
    "blocks": (_BLOCKS, lambda: _texts(400_000)),
    "some_blocks": (_BLOCKS, lambda: _texts(60_000)),
    "pictures": (
        _BLOCKS,
        lambda: b",".join(
            [b'{"type":"image","mimeType":"image/png","data":"AAAA"}'] * 40_000
        ),
    ),
    "picture": (
        _BLOCKS,
        lambda: b'{"type":"image","mimeType":"image/png","data":"%s"}' % (b"A" * _SIZE),
    ),
    "links": (
        _BLOCKS,
        lambda: b",".join(
            [b'{"type":"resource_link","uri":"a:b","name":"c"}'] * 45_000
        ),
    ),
    "lists": (_DATA, lambda: b"[%s]" % _filled(b"[]")),
    "objects": (_DATA, lambda: b"[%s]" % _filled(b'{"a":{}}')),
    "some_lists": (_DATA, lambda: b"[%s]" % _filled(b"[]", 550_000)),
    "nulls": (_DATA, lambda: b"[%s]" % _filled(b"null")),
    "deep": (_DATA, lambda: b"[" * 100_000 + b"]" * 100_000),
    "digits": (_DATA, lambda: b"9" * (4 * 2**20)),
    "integers": (_DATA, lambda: b"[%s]" % _filled(b"9" * 25, 4 * 2**20)),
    "fractions": (_DATA, lambda: b"[%s]" % _filled(b"0." + b"1" * 300, 2**20)),
    "infinite": (_DATA, lambda: b"[%s]" % _filled(b"1e999", 2**20)),
    "names": (_DATA, lambda: _keys(150_000)),
    "same_name": (_DATA, lambda: _keys(190_000, same=True)),
    "long_name": (_DATA, lambda: b'{"%s":0}' % (b"k" * _SIZE)),
    "spaces": (_DATA, lambda: b" " * _SIZE + b"0"),
    "meta": (b'{"content":[],"_meta":{"a":"?"}}', lambda: _keys(150_000)),
}


@behaviour
@choices("kind", *_RESULTS, "error", "error_data", "first")
def answers_heavily(*, kind: str = "lists") -> None:
    """Answers a call of ``bad`` with up to 15 MB that are slow to parse."""

    def heavy(message: Message) -> None:
        ident = json.dumps(message["id"]).encode()
        if kind in ("error", "error_data"):
            said = {"code": -32000, "message": "no", "data": None}
            said["message" if kind == "error" else "data"] = "x" * _SIZE
            send({"id": message["id"], "error": said})
            return
        result, filling = _RESULTS["lists" if kind == "first" else kind]
        result = result.replace(_HERE, filling())
        if kind == "first":  # the id comes after everything else
            line = b'{"jsonrpc":"2.0","result":%s,"id":%s}\n' % (result, ident)
        else:
            line = b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (ident, result)
        raw(line)

    serve(bad=heavy)


_WORDS = "x" * 60_000
_LARGE = "y" * (2 * 2**20)
_DEEP = "[" * 20_000 + "]" * 20_000


def _notice(method: str, **params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def _request(ident: object, method: str, **params: object) -> str:
    asked = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
    return json.dumps(asked)


_FLOODS: dict[str, Callable[[], str]] = {
    "notices": lambda: _notice("notifications/message", level="info", data="hi"),
    "large_notices": lambda: _notice("notifications/message", data=_WORDS),
    "huge_notices": lambda: _notice("notifications/message", data=_LARGE),
    "intricate_notices": lambda: _notice("notifications/message", data=[[]] * 9_000),
    "deep_notices": lambda: _notice("notifications/message", data="?").replace(
        '"?"', _DEEP
    ),
    "unknown_notices": lambda: _notice("notifications/wizard", data=_WORDS),
    "progress": lambda: _notice(
        "notifications/progress", progressToken="unknown", progress=1, message=_WORDS
    ),
    "cancellations": lambda: _notice("notifications/cancelled", requestId=_WORDS),
    "updates": lambda: _notice("notifications/resources/updated", uri=_WORDS),
    "answers": lambda: json.dumps({"jsonrpc": "2.0", "id": 10**9, "result": {}}),
    "large_answers": lambda: json.dumps(
        {"jsonrpc": "2.0", "id": 10**9, "result": {"content": [_WORDS]}}
    ),
    "huge_answers": lambda: json.dumps(
        {"jsonrpc": "2.0", "id": 10**9, "result": {"content": [_LARGE]}}
    ),
    "one_id": lambda: _request("the same", "ping"),
    "roots": lambda: _request("r", "roots/list", _meta={"a": _WORDS}),
    "samplings": lambda: _request("s", "sampling/createMessage", messages=[_WORDS]),
    "elicitations": lambda: _request("e", "elicitation/create", message=_WORDS),
    "methods": lambda: _request("m", _WORDS),
    "batches": lambda: f"[{_notice('notifications/message', data='hi')}]",
    "no_text": lambda: '{"jsonrpc": "2.0", "method": "\udcff' + _WORDS + '"}',
}


@behaviour
@choices("kind", *_FLOODS)
def floods_heavily(*, kind: str = "large_notices") -> None:
    """Sends the same message as fast as it can, once its tools are listed."""
    line = _FLOODS[kind]().encode(errors="surrogateescape") + b"\n"
    block = line * max(1, 2**16 // len(line))
    serve_between(lambda: raw(block))


def _many(count: int, **more: object) -> list[Message]:
    return [{**tool(f"tool_{number}"), **more} for number in range(count)]


_LISTS: dict[str, Callable[[], list[Message]]] = {
    "descriptions": lambda: _many(200, description="x" * 60_000),
    "titles": lambda: _many(200, title="x" * 60_000),
    "icons": lambda: _many(100, icons=[{"src": "https://a.invalid/b"}] * 1_000),
    "annotations": lambda: _many(200, annotations={f"a{n}": n for n in range(2_000)}),
    "metas": lambda: _many(200, _meta={f"a{n}": n for n in range(2_000)}),
    "schemas": lambda: _many(
        900,
        inputSchema={
            "type": "object",
            "properties": {f"p{n}": {"type": "string"} for n in range(60)},
        },
    ),
    "nulls": lambda: _many(
        50, description=None, inputSchema=None, outputSchema=None, annotations=None
    ),
    "colliding": lambda: [tool(n) for n in ("a.b", "a_b", "a-b", "a b", "A_b", "a__b")],
    "unspeakable": lambda: [tool("\u202e" * n + "\u200b") for n in range(1, 200)],
    "long_names": lambda: [tool(f"{n}" + "x" * 60_000) for n in range(100)],
}


@behaviour
@choices("kind", *_LISTS)
def lists_heavily(*, kind: str = "descriptions") -> None:
    """Lists some megabytes of tools besides its own."""

    def heavy(message: Message) -> None:
        send({"id": message["id"], "result": {"tools": [*TOOLS, *_LISTS[kind]()]}})

    serve({"tools/list": heavy})


@behaviour
def lists_with_large_cursors() -> None:
    """Always has one more page of tools, under a cursor of a megabyte."""
    pages = 0

    def one_more(message: Message) -> None:
        nonlocal pages
        pages += 1
        page = {"tools": TOOLS, "nextCursor": f"{pages}" + "x" * 2**20}
        send({"id": message["id"], "result": page})

    serve({"tools/list": one_more})
