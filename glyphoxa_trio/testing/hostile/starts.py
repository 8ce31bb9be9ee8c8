"""Servers that never get as far as serving."""

from __future__ import annotations

import os
import time

from .family import behaviour, choices
from .wire import Message, ignore, reply, say, send, serve


@behaviour
def good() -> None:
    """Does everything right."""
    serve()


@behaviour
def never_initializes() -> None:
    """Reads everything and never answers the handshake."""
    serve(otherwise=ignore)


@behaviour
def initializes_late(*, ms: int = 1000) -> None:
    """Answers the handshake late."""

    def late(message: Message) -> None:
        time.sleep(ms / 1000)
        reply(message)

    serve({"initialize": late})


@behaviour
def exits_at_once(*, status: int = 3) -> None:
    """Prints a reason on stderr and exits before it has read anything."""
    say("the cellar is flooded")
    os._exit(status)


@behaviour
def refuses_to_initialize() -> None:
    """Answers the handshake, and every other request, with an error."""

    def refuse(message: Message) -> None:
        if "id" in message:
            error = {"code": -32603, "message": "not today"}
            send({"id": message["id"], "error": error})

    serve(otherwise=refuse)


@behaviour
def speaks_another_version(*, version: str = "1999-12-31") -> None:
    """Answers the handshake with an unknown protocol version."""

    def elsewhen(message: Message) -> None:
        result = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }
        send({"id": message["id"], "result": result})

    serve({"initialize": elsewhen})


@behaviour
@choices("kind", "empty", "list", "text")
def initializes_wrongly(*, kind: str = "empty") -> None:
    """Answers the handshake with an invalid result."""
    results: dict[str, object] = {"empty": {}, "list": [1, 2], "text": "hello"}

    def nonsense(message: Message) -> None:
        send({"id": message["id"], "result": results[kind]})

    serve({"initialize": nonsense})
