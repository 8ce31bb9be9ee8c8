"""A wire and the other side of it, by hand: what the vendor's types allow, only."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import attrs

from glyphoxa_trio.providers.live_wire import Lane
from glyphoxa_trio.providers.llm import ToolSpec
from glyphoxa_trio.providers.openai_realtime.wire import RealtimeWire
from glyphoxa_trio.providers.s2s import (
    Calling,
    Command,
    Event,
    Ready,
    S2STool,
    SendResult,
    SendText,
    Setup,
    TranscriptLine,
)

from ..openai_types import client_event, server_event

SETUP = Setup(instructions="You are Greymantle.")
BY_HAND = attrs.evolve(SETUP, automatic=False)


def tool(name: str = "roll") -> S2STool:
    schema = {"type": "object", "properties": {"sides": {"type": "integer"}}}
    spec = ToolSpec(name=name, description="Rolls dice.", parameters=schema)
    return S2STool(spec=spec, calling=Calling.BLOCKING)


def text(words: str) -> SendText:
    return SendText(TranscriptLine("user", words))


def result(call_id: str, output: str = '{"status":"ok"}') -> SendResult:
    return SendResult(call_id=call_id, name="roll", output=output)


@attrs.define
class Talk:
    """A wire, fed by hand. ``now`` is the time of whatever is done."""

    wire: RealtimeWire = attrs.field(factory=lambda: RealtimeWire(setup=SETUP))
    now: float = 0.0
    numbers: int = 0

    @classmethod
    def ready(cls, setup: Setup = SETUP, **options: Any) -> Talk:
        """One that is set up; what was sent for that is taken."""
        talk = cls(RealtimeWire(setup=setup, **options))
        session = {"type": "realtime", "model": "m"}
        assert talk.hear("session.created", session=session) == []
        assert talk.hear("session.updated", session=session) == [Ready()]
        talk.sent()
        return talk

    def hear(self, kind: str, **fields: Any) -> list[Event]:
        """What a server's event means. It must be one that the vendor would send."""
        self.numbers += 1
        event = {"type": kind, "event_id": f"event_{self.numbers}", **fields}
        server_event(event)
        return self.wire.receive(json.dumps(event), self.now)

    def do(self, *commands: Command) -> list[dict[str, Any]]:
        """What is sent at once for these commands."""
        for command in commands:
            self.wire.send(command, self.now)
        return self.sent()

    def wake(self) -> list[Event]:
        """Let the time pass until the alarm."""
        assert self.wire.alarm is not None
        self.now = self.wire.alarm
        return self.wire.wake(self.now)

    def sent(self) -> list[dict[str, Any]]:
        """The frames since the last time; each must be what the vendor takes."""
        frames = self.wire.outgoing()
        for frame in frames:
            client_event(frame.data)
        return [json.loads(frame.data) for frame in frames]

    def lanes(self) -> list[tuple[str, Lane]]:
        frames = self.wire.outgoing()
        return [(client_event(frame.data).type, frame.lane) for frame in frames]  # type: ignore[attr-defined]

    # Shorter forms of what a server says

    def starts(self, response: str = "resp_1") -> list[Event]:
        return self.hear("response.created", response=whole(response, "in_progress"))

    def ends(
        self, response: str = "resp_1", status: str = "completed", **fields: Any
    ) -> list[Event]:
        return self.hear("response.done", response=whole(response, status, **fields))

    def calls(
        self,
        call_id: str = "call_1",
        *,
        response: str = "resp_1",
        status: str | None = "completed",
        arguments: str = "{}",
    ) -> list[Event]:
        item = function_call(call_id, status, arguments)
        return self.hear(
            "response.output_item.done",
            response_id=response,
            output_index=0,
            item=item,
        )

    def speaks(
        self, pcm: bytes, *, response: str = "resp_1", item: str = "item_1"
    ) -> list[Event]:
        return self.hear(
            "response.output_audio.delta",
            response_id=response,
            item_id=item,
            output_index=0,
            content_index=0,
            delta=b64encode(pcm).decode(),
        )

    def refuses(self, code: str, about: str | None = None, **more: str) -> list[Event]:
        error = {"type": "invalid_request_error", "message": "no", "param": None}
        error |= {"code": code, "event_id": about} | more
        return self.hear("error", error=error)


def function_call(
    call_id: str, status: str | None = "completed", arguments: str = "{}"
) -> dict[str, Any]:
    item: dict[str, Any] = {"id": f"item_{call_id}", "type": "function_call"}
    item |= {"call_id": call_id, "name": "roll", "arguments": arguments}
    return item if status is None else item | {"status": status}


def whole(response: str, status: str, **fields: Any) -> dict[str, Any]:
    empty = {"id": response, "object": "realtime.response", "output": []}
    return {**empty, "status": status, **fields}
