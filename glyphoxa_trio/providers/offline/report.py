"""Describe tool results in words: short, neutral and true."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from glyphoxa_trio.providers.llm import Message

NOTHING_KNOWN: Final = "I remember nothing of that."
_MOST_SAID: Final = 300  # characters spoken of one result


def report(turn: Sequence[Message]) -> list[str]:
    """Return a short sentence for each result of this turn."""
    names = {call.id: call.name for one in turn for call in one.calls}
    sentences = [
        sentence(names.get(one.call_id) or one.name or "that", one.content)
        for one in turn
        if one.role == "tool"
    ]
    # One tool of memory may know what another one does not.
    return [x for x in sentences if x != NOTHING_KNOWN] or sentences[:1]


def sentence(name: str, content: str) -> str:
    """Return a sentence about the result of one tool."""
    tool = _plain(name)
    try:
        result = json.loads(content)
    except (ValueError, RecursionError):
        result = content
    status, message, data = "ok", "", result
    if isinstance(result, dict) and result.keys() & {
        "status",
        "message",
        "data",
        "error",
    }:
        failed = result.get("error")
        status = str(result.get("status") or ("tool_error" if failed else "ok"))
        message = _short(result.get("message") or failed)
        data = result.get("data")
    match status:
        case "ok":
            return _closed(message or _short(data) or f"{tool} is done")
        case "timeout" | "skipped":
            return f"I could not finish {tool} in time."
        case "cancelled":
            return f"I stopped {tool}."
        case "denied":
            return f"I may not use {tool}."
        case "unavailable" | "crashed":
            return f"I cannot use {tool} right now."
    return _closed(f"{tool} did not work: {message}" if message else f"{tool} failed")


def _short(value: object) -> str:
    """Describe data in words: the values that can be spoken, with their names."""
    if isinstance(value, str):
        said = value
    elif isinstance(value, dict):
        named = ((name, _short(inner)) for name, inner in value.items())
        said = ", ".join(
            f"{_plain(str(name))} {inner}" for name, inner in named if inner
        )
    elif isinstance(value, list):
        said = ", ".join(inner for one in value[:3] if (inner := _short(one)))
    elif value is None:
        said = ""
    else:
        said = json.dumps(value)
    said = " ".join(said.split())
    return said if len(said) <= _MOST_SAID else said[: _MOST_SAID - 1] + "…"


def _closed(text: str) -> str:
    """Return a text as a sentence: with a capital letter and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _plain(name: str) -> str:
    """Return the name of a tool as people say it."""
    return name.rpartition("__")[2].replace("_", " ").strip() or name
