"""One reply of the scripted model server: steps as chat-completion chunks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
import h11

import trio

from .model_steps import (
    CallTools,
    Cut,
    Die,
    Fail,
    Finish,
    Forever,
    Hang,
    Pause,
    Raw,
    Say,
    Step,
)


@attrs.define(eq=False)
class Answer:
    """One reply on its way. Headers go out with the first thing said."""

    _send: Callable[[h11.Event], Awaitable[None]]
    _model: str
    _request: Mapping[str, Any]
    _number: int
    _chunks: int = attrs.field(default=0, init=False)
    _calls: int = attrs.field(default=0, init=False)
    _begun: bool = attrs.field(default=False, init=False)

    async def play(self, steps: Sequence[Step]) -> bool:
        """True if the answer came to its end, so that another may follow."""
        for step in steps:
            match step:
                case Fail():
                    await self._fail(step)
                    return True
                case Die():
                    return False
                case Cut():
                    await self._end()
                    return True
                case Finish():
                    await self._finish(step.reason, step.done)
                    return True
                case Hang():
                    await trio.sleep_forever()
                case Pause():
                    await trio.sleep(step.seconds)
                case Raw():
                    await self._body(step.text)
                case Forever():
                    while True:
                        await self._delta({"content": step.text})
                        await trio.sleep(step.every)
                case Say():
                    await self._say(step)
                case CallTools():
                    await self._call_tools(step)
        await self._finish("tool_calls" if self._calls else "stop", done=True)
        return True

    async def _say(self, step: Say) -> None:
        words = step.text.split(" ")
        spaced = [words[0], *(f" {word}" for word in words[1:])]
        for piece in spaced if step.pieces is None else step.pieces:
            await self._delta({"content": piece})
            await trio.sleep(step.every)

    async def _call_tools(self, step: CallTools) -> None:
        for slot, (name, arguments) in enumerate(step.calls):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            entry: dict[str, Any] = {
                "index": self._calls,
                "id": step.ids[slot]
                if step.ids
                else f"call_{self._number}_{self._calls}",
                "type": "function",
                "function": {"name": name, "arguments": ""},
            }
            self._calls += 1
            pieces = _pieces(text, step.fragments)
            if not step.fragments:
                entry["function"]["arguments"] = text
            await self._delta({"tool_calls": [entry]})
            for piece in pieces:
                fragment = {"index": entry["index"], "function": {"arguments": piece}}
                await self._delta({"tool_calls": [fragment]})

    async def _finish(self, reason: str | None, done: bool) -> None:
        if reason is not None:
            await self._delta({}, reason)
        if (self._request.get("stream_options") or {}).get("include_usage"):
            prompt = len(json.dumps(self._request["messages"])) // 4
            usage = {"prompt_tokens": prompt, "completion_tokens": self._chunks}
            usage["total_tokens"] = sum(usage.values())
            await self._chunk({"choices": [], "usage": usage})
        if done:
            await self._body("data: [DONE]\n\n")
        await self._end()

    async def _delta(self, delta: dict[str, Any], reason: str | None = None) -> None:
        if not self._chunks:
            delta = {"role": "assistant", **delta}
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        await self._chunk({"choices": [choice]})
        self._chunks += 1

    async def _chunk(self, fields: dict[str, Any]) -> None:
        head = {
            "id": f"chatcmpl-{self._number}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self._model,
        }
        await self._body(f"data: {json.dumps(head | fields)}\n\n")

    async def _body(self, text: str) -> None:
        await self._begin()
        await self._send(h11.Data(data=text.encode()))

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            headers = [("content-type", "text/event-stream")]
            await self._send(h11.Response(status_code=200, headers=headers))

    async def _end(self) -> None:
        await self._begin()
        await self._send(h11.EndOfMessage())

    async def _fail(self, step: Fail) -> None:
        data = not isinstance(step.body, str)
        content = (json.dumps(step.body) if data else step.body).encode()
        headers = {
            "content-type": "application/json" if data else "text/plain",
            "content-length": str(len(content)),
        }
        every = [*(headers | dict(step.headers)).items()]
        await self._send(h11.Response(status_code=step.status, headers=every))
        await self._send(h11.Data(data=content))
        await self._send(h11.EndOfMessage())


def _pieces(text: str, count: int) -> list[str]:
    """``text`` cut into ``count`` pieces of about the same length."""
    edges = [len(text) * i // count for i in range(count + 1)] if count else []
    return [text[a:b] for a, b in pairwise(edges)]
