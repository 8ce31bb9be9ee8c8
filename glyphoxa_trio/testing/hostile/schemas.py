"""Servers whose tools have schemas that are hard to parse or to check."""

from __future__ import annotations

import json

from .family import behaviour, choices
from .hard import SCHEMAS, value_of
from .wire import TOOLS, Message, answer, raw, send, serve, text, tool

_HERE = '"the schema"'


def _list_with(message: Message, side: str, kind: str) -> None:
    hard = {**tool("bad"), side: "the schema"}
    page = answer(message, [*TOOLS[:-1], hard]) or {}
    line = json.dumps({"jsonrpc": "2.0", **page}).replace(_HERE, SCHEMAS[kind][0]())
    raw(line.encode() + b"\n")


@behaviour
@choices("kind", *SCHEMAS)
def asks_for_hard_arguments(*, kind: str = "pattern") -> None:
    """Its tool ``bad`` has an input schema that is hard to check."""
    serve({"tools/list": lambda message: _list_with(message, "inputSchema", kind)})


@behaviour
@choices("kind", *SCHEMAS)
def promises_hard_results(*, kind: str = "pattern") -> None:
    """``bad`` has an output schema that is hard to check, as its result is."""

    def hard(message: Message) -> None:
        result = {**text("see the data"), "structuredContent": value_of(kind)}
        send({"id": message["id"], "result": result})

    serve({"tools/list": lambda m: _list_with(m, "outputSchema", kind)}, bad=hard)
