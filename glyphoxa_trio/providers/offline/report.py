"""Tool results as words: short, without a character of their own, and honest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from glyphoxa_trio.providers.llm import Message

_MOST_SAID: Final = 300  # characters spoken of one result


def report(turn: Sequence[Message]) -> list[str]:
    """A short sentence per result of this turn."""
    names = {call.id: call.name for one in turn for call in one.calls}
    return [
        sentence(names.get(one.call_id) or one.name or "that", one.content)
        for one in turn
        if one.role == "tool"
    ]


def sentence(name: str, content: str) -> str:
    """What a tool of that name has answered."""
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
            return f"I broke off {tool}."
        case "denied":
            return f"I may not use {tool}."
        case "unavailable" | "crashed":
            return f"I cannot use {tool} right now."
    return _closed(f"{tool} did not work: {message}" if message else f"{tool} failed")


def _short(value: object) -> str:
    """Data as words: the values that can be said, with their names."""
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
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _plain(name: str) -> str:
    """The name of a tool as one would say it."""
    return name.rpartition("__")[2].replace("_", " ").strip() or name
