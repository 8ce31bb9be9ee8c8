"""A scripted reply as chat-completion chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import attrs

from .model_steps import Fail, Think


@attrs.define(eq=False)
class ChatChunks:
    """The events of one reply, the ``number``th of its server."""

    _model: str
    _request: Mapping[str, Any]
    _number: int
    _chunks: int = attrs.field(default=0, init=False)
    _calls: int = attrs.field(default=0, init=False)

    def text(self, piece: str) -> str:
        return self._delta({"content": piece})

    def think(self, step: Think) -> Iterator[str]:
        for piece in step.pieces:
            yield self._delta({"reasoning_content": piece})

    def call(
        self, name: str, arguments: str, *, given_id: str | None, fragments: int
    ) -> Iterator[str]:
        good_id = f"call_{self._number}_{self._calls}"
        entry: dict[str, Any] = {
            "index": self._calls,
            "id": good_id if given_id is None else given_id,
            "type": "function",
            "function": {"name": name, "arguments": "" if fragments else arguments},
        }
        self._calls += 1
        yield self._delta({"tool_calls": [entry]})
        for piece in pieces_of(arguments, fragments):
            fragment = {"index": entry["index"], "function": {"arguments": piece}}
            yield self._delta({"tool_calls": [fragment]})

    def finish_as_usual(self) -> str:
        return self.finish("tool_calls" if self._calls else "stop", done=True)

    def finish(self, reason: str | None, *, done: bool) -> str:
        said = "" if reason is None else self._delta({}, reason)
        if (self._request.get("stream_options") or {}).get("include_usage"):
            prompt = len(json.dumps(self._request["messages"])) // 4
            usage = {"prompt_tokens": prompt, "completion_tokens": self._chunks}
            usage["total_tokens"] = sum(usage.values())
            said += self._chunk({"choices": [], "usage": usage})
        return said + ("data: [DONE]\n\n" if done else "")

    def failure(self, step: Fail) -> Any:
        return step.body

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> str:
        if not self._chunks:
            delta = {"role": "assistant", **delta}
        self._chunks += 1
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return self._chunk({"choices": [choice]})

    def _chunk(self, fields: dict[str, Any]) -> str:
        head = {
            "id": f"chatcmpl-{self._number}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self._model,
        }
        return f"data: {json.dumps(head | fields)}\n\n"


def pieces_of(text: str, count: int) -> list[str]:
    """Cut ``text`` into ``count`` pieces of about the same length."""
    edges = [len(text) * i // count for i in range(count + 1)] if count else []
    return [text[a:b] for a, b in pairwise(edges)]
