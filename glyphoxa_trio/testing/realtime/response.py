"""One response of the fake Realtime model, as events.

Events are sent at once, before anything else can happen. So a response is always ended
between two events, by itself or from outside, and `FakeResponse.end` is the one place
where open items are closed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

import trio

from ..voice.speech import BYTES_PER_MS
from .items import FakeItem
from .state import RealtimeState, copy


@attrs.define(eq=False)
class FakeResponse:
    """A response that is running, or was. ``aside``: it is outside the conversation.

    Args:
      request: the client's settings for this one only.
      settings: the settings in force for it, including those.
      automatic: whether the server began it by itself.
      on_end: called at its end, after the last event.
      ended: the time of its end, on trio's clock.
    """

    id: str
    session: RealtimeState
    request: Mapping[str, Any] = attrs.field(repr=False)
    settings: Mapping[str, Any] = attrs.field(repr=False)
    automatic: bool
    on_end: Callable[[FakeResponse], None] = attrs.field(repr=False)
    began: float = attrs.field(factory=trio.current_time)
    ended: float | None = None
    status: str = "in_progress"
    reason: str | None = None
    error: Mapping[str, str] | None = None
    output: list[FakeItem] = attrs.field(factory=list, repr=False)
    _open: FakeItem | None = attrs.field(default=None, repr=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, repr=False)

    @property
    def aside(self) -> bool:
        return self.request.get("conversation") == "none"

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may call now."""
        choice = self.settings["tool_choice"]
        if choice == "none":
            return ()
        names = [t["name"] for t in self.settings["tools"] if "name" in t]
        if isinstance(choice, Mapping) and choice["type"] == "function":
            names = [name for name in names if name == choice["name"]]
        return tuple(names)

    def begin(self) -> None:
        self.tell("response.created", response=self._wire())

    def end(self, status: str = "completed", reason: str | None = None) -> None:
        """Close the open item and end the response. Does nothing if it has ended."""
        if self.ended is not None:
            return
        if self._open is not None:
            self.close("incomplete")
        self.ended = trio.current_time()
        self.status, self.reason = status, reason
        self.session.conversation.ended(self.output)
        # The events of a response come first; what waits for its end comes after.
        self.session.tell("response.done", response=self._wire())
        self.scope.cancel()
        self.on_end(self)

    def fail(self, error: Mapping[str, str]) -> None:
        """End the response with this error."""
        self.error = error
        self.end("failed")

    def tell(self, kind: str, **fields: Any) -> None:
        if self.ended is None:
            self.session.tell(kind, **fields)

    def open_item(self, wire: dict[str, Any]) -> tuple[FakeItem, dict[str, Any]]:
        if self._open is not None:
            self.close("incomplete")
        head = {"id": self.session.new_id("item"), "object": "realtime.item"}
        item = FakeItem({**head, "status": "in_progress", **wire})
        at = {
            "response_id": self.id,
            "item_id": item.id,
            "output_index": len(self.output),
            "content_index": 0,
        }
        if self.ended is None:
            self.output.append(item)
            self._open = item
            shown = copy(item.wire)
            index = at["output_index"]
            self.tell(
                "response.output_item.added",
                response_id=self.id,
                output_index=index,
                item=shown,
            )
            if not self.aside:
                self.session.add_item(item, done=False)
        return item, at

    def close(self, status: str) -> None:
        item, self._open = self._open, None
        if item is None or self.ended is not None:
            return
        item.wire["status"] = status
        at: dict[str, Any] = {
            "response_id": self.id,
            "item_id": item.id,
            "output_index": self.output.index(item),
        }
        if item.wire["type"] == "function_call":
            keys = ("call_id", "name", "arguments")
            called = {key: item.wire[key] for key in keys}
            self.tell("response.function_call_arguments.done", **at, **called)
        elif item.wire["content"]:
            at["content_index"] = 0
            content = item.wire["content"][0]
            if content["type"] == "output_audio":
                words = content.get("transcript", "")
                self.tell("response.output_audio.done", **at)
                self.tell(
                    "response.output_audio_transcript.done", **at, transcript=words
                )
                part = {"type": "audio", "transcript": words}
            else:
                self.tell("response.output_text.done", **at, text=content["text"])
                part = {"type": "text", "text": content["text"]}
            self.tell("response.content_part.done", **at, part=part)
        shown = copy(item.wire)
        self.tell(
            "response.output_item.done",
            response_id=self.id,
            output_index=at["output_index"],
            item=shown,
        )
        if not self.aside:
            self.session.item_done(item)

    def _wire(self) -> dict[str, Any]:
        details: dict[str, Any] | None = None
        if self.status not in ("in_progress", "completed"):
            details = {"type": self.status}
            if self.reason is not None:
                details["reason"] = self.reason
            if self.error is not None:
                details["error"] = dict(self.error)
        output = self.settings["audio"]["output"]
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": self.status,
            "status_details": details,
            "output": [copy(item.wire) for item in self.output],
            "conversation_id": None if self.aside else self.session.conversation_id,
            "output_modalities": self.settings["output_modalities"],
            "max_output_tokens": self.settings["max_output_tokens"],
            "audio": {"output": {"format": output["format"], "voice": _id(output)}},
            "metadata": self.settings.get("metadata"),
            "usage": None if self.status == "in_progress" else self._usage(),
        }

    def _usage(self) -> dict[str, Any]:
        said = sum(len(json.dumps(item.wire)) // 4 for item in self.output)
        spoken = sum(len(item.audio) // BYTES_PER_MS // 50 for item in self.output)
        read = self.session.conversation.tokens
        return {
            "total_tokens": read + said + spoken,
            "input_tokens": read,
            "output_tokens": said + spoken,
            "input_token_details": {
                "text_tokens": read,
                "audio_tokens": 0,
                "cached_tokens": 0,
            },
            "output_token_details": {"text_tokens": said, "audio_tokens": spoken},
        }


def _id(output: Mapping[str, Any]) -> str:
    voice = output["voice"]
    return str(voice["id"]) if isinstance(voice, Mapping) else str(voice)
