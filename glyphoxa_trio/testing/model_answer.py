"""One reply of the scripted model server: steps, written in a protocol."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

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
    RawText,
    SayText,
    Step,
    Think,
)


class Dialect(Protocol):
    """The way to write one reply as the events of a stream.

    Each method returns their text.
    """

    def text(self, piece: str) -> str: ...

    def think(self, step: Think) -> Iterable[str]: ...

    def call(
        self, name: str, arguments: str, *, given_id: str | None, fragments: int
    ) -> Iterable[str]:
        """Write a call; without ``given_id`` it gets a correct one."""
        ...

    def finish(self, reason: str | None, *, done: bool) -> str: ...

    def finish_as_usual(self) -> str: ...

    def failure(self, step: Fail) -> Any:
        """Return the body of an answer that is an error."""
        ...


@attrs.define(eq=False)
class ModelReply:
    """One reply being sent. The headers go out with the first event."""

    _send: Callable[[h11.Event], Awaitable[None]]
    _dialect: Dialect
    _begun: bool = attrs.field(default=False, init=False)

    async def play(self, steps: Sequence[Step]) -> bool:
        """Send the steps; return True if the answer is complete."""
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
                    text = self._dialect.finish(step.reason, done=step.done)
                    await self._body(text)
                    await self._end()
                    return True
                case Hang():
                    await trio.sleep_forever()
                case Pause():
                    await trio.sleep(step.seconds)
                case RawText():
                    await self._body(step.text)
                case Forever():
                    while True:
                        await self._body(self._dialect.text(step.text))
                        await trio.sleep(step.every)
                case SayText():
                    await self._say(step)
                case Think():
                    for text in self._dialect.think(step):
                        await self._body(text)
                case CallTools():
                    await self._call_tools(step)
        await self._body(self._dialect.finish_as_usual())
        await self._end()
        return True

    async def _say(self, step: SayText) -> None:
        words = step.text.split(" ")
        spaced = [words[0], *(f" {word}" for word in words[1:])]
        for piece in spaced if step.pieces is None else step.pieces:
            await self._body(self._dialect.text(piece))
            await trio.sleep(step.every)

    async def _call_tools(self, step: CallTools) -> None:
        for slot, (name, arguments) in enumerate(step.calls):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            given = step.ids[slot] if step.ids else None
            for said in self._dialect.call(
                name, text, given_id=given, fragments=step.fragments
            ):
                await self._body(said)

    async def _body(self, text: str) -> None:
        await self._begin()
        if text:
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
        body = self._dialect.failure(step)
        data = not isinstance(body, str)
        content = (json.dumps(body) if data else body).encode()
        headers = {
            "content-type": "application/json" if data else "text/plain",
            "content-length": str(len(content)),
        }
        every = [*(headers | dict(step.headers)).items()]
        await self._send(h11.Response(status_code=step.status, headers=every))
        await self._send(h11.Data(data=content))
        await self._send(h11.EndOfMessage())
