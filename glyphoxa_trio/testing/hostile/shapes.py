"""Servers whose results have the wrong shape, in one place or in all of them."""

from __future__ import annotations

import time
from typing import Any

from .family import behaviour, choices
from .lists import CHANGED
from .wire import TOOLS, Message, raw, reply, send, serve, serve_between, text, tool


def _block(**fields: Any) -> Message:
    return {"result": {"content": [fields]}}


_DATA = {"type": "image", "mimeType": "image/png", "data": "AAAA"}

_SHAPES: dict[str, Message] = {
    "nothing": {},
    "null": {"result": None},
    "list": {"result": [1, 2]},
    "number": {"result": 7},
    "words": {"result": "yes"},
    "empty": {"result": {}},
    "content_null": {"result": {"content": None}},
    "content_object": {"result": {"content": {"type": "text", "text": "yes"}}},
    "content_number": {"result": {"content": 7}},
    "blocks_null": {"result": {"content": [None, None]}},
    "blocks_lists": {"result": {"content": [[], [[]]]}},
    "block_unknown": _block(type="hologram", light="blue"),
    "block_typeless": _block(text="yes"),
    "block_type_list": _block(type=["text"], text="yes"),
    "text_number": _block(type="text", text=7),
    "text_null": _block(type="text", text=None),
    "text_object": _block(type="text", text={"text": "yes"}),
    "image_without_data": _block(type="image", mimeType="image/png"),
    "image_no_base64": _block(**_DATA | {"data": "\u00fc" * 50}),
    "image_mime_list": _block(**_DATA | {"mimeType": ["image/png"]}),
    "image_mime_lines": _block(**_DATA | {"mimeType": "image/png\r\nX-A: b"}),
    "audio_null": _block(type="audio", mimeType=None, data=None),
    "resource_words": _block(type="resource", resource="a book"),
    "resource_both": _block(
        type="resource", resource={"uri": "a:b", "text": "c", "blob": 7}
    ),
    "link_without_uri": _block(type="resource_link", name="c"),
    "annotations_list": _block(type="text", text="yes", annotations=[1]),
    "is_error_words": {"result": {**text("yes"), "isError": "no"}},
    "is_error_list": {"result": {**text("yes"), "isError": []}},
    "structured_number": {"result": {**text("yes"), "structuredContent": 7}},
    "structured_list": {"result": {**text("yes"), "structuredContent": [1]}},
    "structured_null": {"result": {**text("yes"), "structuredContent": None}},
    "structured_words": {"result": {"content": [], "structuredContent": "yes"}},
    "meta_list": {"result": {**text("yes"), "_meta": [1]}},
    "meta_null": {"result": {**text("yes"), "_meta": None}},
    "result_type": {"result": {**text("yes"), "resultType": ["complete"]}},
    "input_required": {"result": {"resultType": "input_required", "requestState": 7}},
    "error_null": {"error": None},
    "error_words": {"error": "no"},
    "error_code_words": {"error": {"code": "one", "message": "no"}},
    "error_code_large": {"error": {"code": 10**30, "message": "no"}},
    "error_code_bool": {"error": {"code": True, "message": "no"}},
    "error_message_list": {"error": {"code": 1, "message": ["no"]}},
    "error_message_empty": {"error": {"code": 1, "message": ""}},
    "error_of_ours": {"error": {"code": -33004, "message": "busy", "data": {}}},
    "both": {"result": text("yes"), "error": {"code": 1, "message": "no"}},
    "half_a_letter": _block(type="text", text="\ud83d"),
    "controls": _block(type="text", text="\x1b[2J\x00\u202e\u200b\r\n" * 20),
}
SHAPES = tuple(_SHAPES)


@behaviour
@choices("kind", *SHAPES)
def answers_out_of_shape(*, kind: str = "content_null") -> None:
    """Answers a call of ``bad`` with something of the wrong shape."""

    def odd(message: Message) -> None:
        send({"id": message["id"], **_SHAPES[kind]})

    serve(bad=odd)


@behaviour
def answers_out_of_every_shape() -> None:
    """Answers each call of ``bad`` with the next one of all wrong shapes."""
    calls = 0

    def odd(message: Message) -> None:
        nonlocal calls
        send({"id": message["id"], **_SHAPES[SHAPES[calls % len(SHAPES)]]})
        calls += 1

    serve(bad=odd)


@behaviour
@choices("kind", "all", "one_more", "schemas")
def renames_its_tools(*, kind: str = "all", ms: int = 100) -> None:
    """Renames its tools every tenth of a second, and announces it."""
    changes = 0

    def change() -> None:
        nonlocal changes
        time.sleep(ms / 1000)
        changes += 1
        send(CHANGED)

    def hear(message: Message) -> None:
        if message.get("method") != "tools/list":
            reply(message)
            return
        fresh = [tool(f"tool_{changes}_{number}") for number in range(20)]
        if kind == "one_more":
            fresh = [tool(f"tool_{number}") for number in range(changes)]
        elif kind == "schemas":
            schema = {"type": "object", "properties": {f"p{changes}": {}}}
            fresh = [tool(f"tool_{n}", inputSchema=schema) for n in range(20)]
        send({"id": message["id"], "result": {"tools": [*TOOLS, *fresh]}})

    serve_between(change, otherwise=hear)


@behaviour
@choices("kind", "words", "escaped")
def never_ends_an_answer(*, kind: str = "words") -> None:
    """Begins an answer to a call of ``bad``, and never ends it."""

    def endless(message: Message) -> None:
        head = b'{"jsonrpc": "2.0", "id": %d, "result": {"content": ["'
        ident = message["id"] if isinstance(message["id"], int) else 0
        raw(head % ident)
        block = (b"x" if kind == "words" else b'\\"') * 2**16
        while True:
            raw(block)

    serve(bad=endless)
