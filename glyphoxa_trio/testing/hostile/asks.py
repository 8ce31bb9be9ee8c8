"""Servers that send requests to their client, a few or without end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from .family import behaviour, choices
from .wire import Message, messages, reply, send, serve_between, text

_QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "ping": ("ping", {}),
    "roots": ("roots/list", {}),
    "sampling": (
        "sampling/createMessage",
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
            "maxTokens": 10,
        },
    ),
    "elicitation": (
        "elicitation/create",
        {
            "message": "your password?",
            "requestedSchema": {
                "type": "object",
                "properties": {"password": {"type": "string"}},
            },
        },
    ),
    "unknown": ("wizard/summon", {"level": 20}),
    "broken": ("sampling/createMessage", {"messages": 7}),
}


@behaviour
@choices("what", *_QUESTIONS)
def asks(*, what: str = "ping") -> None:
    """Sends its client a request during a call of ``bad``, and answers its reply."""
    method, params = _QUESTIONS[what]
    idents = count(1)
    incoming = messages()

    def ask_back(message: Message) -> None:
        ident = f"ask-{next(idents)}"
        send({"id": ident, "method": method, "params": params})
        said = _until_answered(incoming, ident)
        send({"id": message["id"], "result": text(json.dumps(said))})

    for message in incoming:
        params_ = message.get("params") or {}
        if message.get("method") == "tools/call" and params_.get("name") == "bad":
            ask_back(message)
        else:
            reply(message)


def _until_answered(incoming: Iterator[Message], ident: str) -> Message:
    for message in incoming:
        if message.get("id") == ident and "method" not in message:
            return {key: message[key] for key in ("result", "error") if key in message}
        reply(message)
    return {}


@behaviour
@choices("what", *_QUESTIONS)
@choices("reading", "yes", "no")
def floods_requests(*, what: str = "ping", reading: str = "yes") -> None:
    """Sends its client requests as fast as it can, and may not read the answers."""
    method, params = _QUESTIONS[what]
    idents = count(1)

    def ask() -> None:
        send({"id": next(idents), "method": method, "params": params})

    def deaf(message: Message) -> None:
        reply(message)
        if reading == "no" and message.get("method") == "tools/list":
            while True:
                ask()

    serve_between(ask, otherwise=deaf)


@behaviour
def floods_progress() -> None:
    """Reports progress, as fast as it can, of requests that were never made."""
    numbers = count(1)

    def report() -> None:
        number = next(numbers)
        params = {"progressToken": number % 50, "progress": number}
        send({"method": "notifications/progress", "params": params})

    serve_between(report)
