"""Servers whose answers come late, twice, under a wrong id, or never."""

from __future__ import annotations

import json
import time
from typing import Any

from .family import behaviour, choices
from .wire import Message, answer, ignore, meanwhile, raw, reply, send, serve, text


@behaviour
def never_answers() -> None:
    """Reads a call of ``bad`` and never answers it."""
    serve(bad=ignore)


@behaviour
def answers_late(*, ms: int = 1000) -> None:
    """Answers a call of ``bad`` late; other calls at once."""

    def late(message: Message) -> None:
        def wait_and_reply() -> None:
            time.sleep(ms / 1000)
            reply(message)

        meanwhile(wait_and_reply)

    serve(bad=late)


@behaviour
def answers_twice() -> None:
    """Answers everything twice, the second time with something else."""

    def twice(message: Message) -> None:
        good = answer(message)
        if good is not None:
            send(good)
            send({"id": good["id"], "result": text("once more")})

    serve(otherwise=twice)


@behaviour
@choices("kind", "unknown", "type", "null", "absent", "object")
def answers_with_a_wrong_id(*, kind: str = "unknown") -> None:
    """Answers a call of ``bad`` with an id that was never used."""

    def wrong(message: Message) -> None:
        good = answer(message) or {}
        ident = good.pop("id")
        other: dict[str, Any] = {
            # A text that cannot be read as the number, whatever the ids look like.
            "type": f"{ident!r}?" if isinstance(ident, str) else f"id {ident}",
            "unknown": 10**9 + 7,
            "null": None,
            "object": {"id": ident},
        }
        send(good if kind == "absent" else {"id": other[kind], **good})

    serve(bad=wrong)


@behaviour
@choices(
    "kind", "nothing", "both", "result", "content", "block", "error", "array", "version"
)
def answers_with_nonsense(*, kind: str = "result") -> None:
    """Answers a call of ``bad`` with something that is no answer."""

    def nonsense(message: Message) -> None:
        ident = message["id"]
        if kind == "array":
            raw(b"[" + _line({"id": ident, "result": text("yes")}) + b"]\n")
            return
        forms: dict[str, Message] = {
            "nothing": {},
            "both": {"result": text("yes"), "error": {"code": 1, "message": "no"}},
            "result": {"result": "yes"},
            "content": {"result": {"content": "yes"}},
            "block": {"result": {"content": [{"type": "text"}, {"type": 7}, 7]}},
            "error": {"error": "no"},
            "version": {"jsonrpc": "1.0", "result": text("yes")},
        }
        send({"id": ident, **forms[kind]})

    serve(bad=nonsense)


@behaviour
def answers_at_length(*, mb: int = 15) -> None:
    """Answers a call of ``bad`` with many megabytes of text."""

    def at_length(message: Message) -> None:
        send({"id": message["id"], "result": text("x" * (mb * 2**20))})

    serve(bad=at_length)


@behaviour
def answers_deeply(*, levels: int = 100_000) -> None:
    """Answers a call of ``bad`` with structured content nested very deeply."""

    def deeply(message: Message) -> None:
        nested = b'{"a":' * levels + b"1" + b"}" * levels
        raw(_line(_structured(message)).replace(b'"?"', nested) + b"\n")

    serve(bad=deeply)


@behaviour
@choices("number", "NaN", "Infinity", "-Infinity", "1e999", "digits")
def answers_with_no_number(*, number: str = "NaN") -> None:
    """Answers a call of ``bad`` with a number that JSON, or a float, does not have."""

    def no_number(message: Message) -> None:
        written = "9" * 5000 if number == "digits" else number
        value = b'{"value": ' + written.encode() + b"}"
        raw(_line(_structured(message)).replace(b'"?"', value) + b"\n")

    serve(bad=no_number)


def _structured(message: Message) -> Message:
    """Return an answer with a placeholder for its structured content."""
    result = {**text("see the structured content"), "structuredContent": "?"}
    return {"id": message["id"], "result": result}


def _line(message: Message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()
