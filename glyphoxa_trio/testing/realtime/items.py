"""The conversation of one Realtime session: its items in order, and its calls."""

from __future__ import annotations

import json
from typing import Any

import attrs

from ..voice.speech import BYTES_PER_MS
from ..voice.steps import SpokenLine, ToolOutput


class ItemError(Exception):
    """A client's impossible request for an item. ``code`` is the vendor's."""

    def __init__(self, code: str, detail: str, param: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.param = param


@attrs.define(eq=False)
class FakeItem:
    """One item. ``wire`` is its form on the wire, ``audio`` its spoken audio."""

    wire: dict[str, Any]
    audio: bytearray = attrs.field(factory=bytearray, repr=False)
    truncated_ms: int | None = None

    @property
    def id(self) -> str:
        return str(self.wire["id"])

    @property
    def audio_ms(self) -> int:
        """The milliseconds of audio that are in the history."""
        whole = len(self.audio) // BYTES_PER_MS
        return whole if self.truncated_ms is None else self.truncated_ms

    def say(self, pcm: bytes) -> None:
        """Add spoken audio to it."""
        self.audio += pcm

    def line(self) -> SpokenLine | None:
        """Return the line of a message; None for another item."""
        if self.wire["type"] != "message":
            return None
        parts = [p.get("text", p.get("transcript")) for p in self.wire["content"]]
        return SpokenLine(self.wire["role"], " ".join(filter(None, parts)))


@attrs.define(eq=False)
class ModelCall:
    """One call that the model made. ``over``: its response has ended."""

    item: FakeItem
    response: str
    over: bool = False
    answered: bool = False

    @property
    def id(self) -> str:
        return str(self.item.wire["call_id"])

    @property
    def is_owed(self) -> bool:
        return not self.answered and self.item.wire["status"] == "completed"


@attrs.define(eq=False)
class FakeConversation:
    """Items in order, and calls by id. Raises `ItemError` for an unknown id.

    ``tokens`` is about the number that was ever in it.
    """

    items: list[FakeItem] = attrs.field(factory=list)
    calls: dict[str, ModelCall] = attrs.field(factory=dict)
    tokens: int = 0

    def add(self, item: FakeItem, after: str | None = None) -> str | None:
        """Insert an item at the end, at the start (``root``), or after another.

        Returns the id of the item before it.
        """
        if any(other.id == item.id for other in self.items):
            detail = f"An item with the id {item.id!r} is already there."
            raise ItemError("item_create_invalid_item_id", detail, "item.id")
        place = len(self.items)
        if after == "root":
            place = 0
        elif after is not None:
            code = "item_create_invalid_previous_item_id"
            place = self.place(after, code, "previous_item_id") + 1
        self.items.insert(place, item)
        self.tokens += len(json.dumps(item.wire)) // 4
        return self.items[place - 1].id if place else None

    def place(self, item_id: str, code: str, param: str = "item_id") -> int:
        for place, item in enumerate(self.items):
            if item.id == item_id:
                return place
        raise ItemError(code, f"There is no item {item_id!r}.", param)

    def before(self, item: FakeItem) -> str | None:
        """Return the id of the item before this one."""
        place = self.items.index(item)
        return self.items[place - 1].id if place else None

    def delete(self, item_id: str) -> None:
        del self.items[self.place(item_id, "item_delete_invalid_item_id")]

    def truncate(self, item_id: str, content_index: int, audio_end_ms: int) -> None:
        """Drop the audio that was not heard, and the whole transcript."""
        code = "item_truncate_invalid_item_id"
        item = self.items[self.place(item_id, code)]
        content = item.wire.get("content", [])
        if item.wire.get("role") != "assistant":
            detail = "Only messages of the model can be truncated."
            raise ItemError(code, detail, "item_id")
        if content_index >= len(content) or (
            content[content_index]["type"] != "output_audio"
        ):
            detail = f"There is no audio at {content_index}."
            raise ItemError("invalid_value", detail, "content_index")
        if audio_end_ms > item.audio_ms:
            detail = (
                f"Audio content of {item.audio_ms}ms is already shorter than"
                f" {audio_end_ms}ms"
            )
            raise ItemError("invalid_value", detail, "audio_end_ms")
        item.truncated_ms = audio_end_ms
        content[content_index].pop("transcript", None)

    def answer(self, call_id: str) -> ModelCall:
        """Return the call that a client has an output for."""
        call = self.calls.get(call_id)
        if call is None:
            detail = f"Tool call ID '{call_id}' not found in conversation."
            raise ItemError("invalid_tool_call_id", detail, "item.call_id")
        if call.answered:
            detail = f"Tool call ID '{call_id}' already has an output."
            raise ItemError("invalid_tool_call_id", detail, "item.call_id")
        return call

    def answered(self, call: ModelCall) -> None:
        """Mark a call as answered: its output is in the conversation."""
        call.answered = True

    def ended(self, items: list[FakeItem]) -> None:
        """Mark the calls among these items as over: their response has ended."""
        for item in items:
            call = self.calls.get(item.wire.get("call_id", ""))
            if call is not None:
                call.over = True

    def owed(self) -> list[ModelCall]:
        return [call for call in self.calls.values() if call.is_owed]


def told(
    items: list[FakeItem],
) -> tuple[str, tuple[SpokenLine, ...], tuple[ToolOutput, ...]]:
    """Return the user's last words, every line, and the outputs since then."""
    user = ""
    lines: list[SpokenLine] = []
    outputs: list[ToolOutput] = []
    names: dict[str, str] = {}
    for item in items:
        line = item.line()
        if line is not None:
            lines.append(line)
            if line.role == "user":
                user = line.text
                outputs.clear()
        elif item.wire["type"] == "function_call":
            names[item.wire["call_id"]] = item.wire["name"]
        else:
            call_id = item.wire["call_id"]
            name = names.get(call_id, "")
            outputs.append(ToolOutput(name, call_id, item.wire["output"]))
    return user, tuple(lines), tuple(outputs)
