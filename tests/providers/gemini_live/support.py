"""A wire that is set up, and what it said, by the vendor's types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
from google.genai import types

from glyphoxa_trio.providers.gemini_live.profiles import profile_of
from glyphoxa_trio.providers.gemini_live.wire import GeminiWire
from glyphoxa_trio.providers.live_wire import Frame
from glyphoxa_trio.providers.llm import ToolSpec
from glyphoxa_trio.providers.s2s import Calling, Command, Event, S2STool, Setup

NATIVE_2_5 = "gemini-2.5-flash-native-audio-preview-12-2025"
FLASH_3_1 = "gemini-3.1-flash-live-preview"
LIVE_3_8 = "gemini-3.8-live"
EXTENDED_3_8 = "gemini-3.8-live-extended-thinking"
UNKNOWN = "gemini-9-live"
MODELS = [NATIVE_2_5, FLASH_3_1, LIVE_3_8, EXTENDED_3_8, UNKNOWN]


def tool(name: str = "dice__roll", calling: Calling = Calling.NON_BLOCKING) -> S2STool:
    parameters = {
        "type": "object",
        "properties": {"expression": {"type": "string"}},
        "required": ["expression"],
        "additionalProperties": False,
    }
    spec = ToolSpec(name=name, description="Roll dice", parameters=parameters)
    return S2STool(spec=spec, calling=calling)


def judged(message: Mapping[str, Any]) -> dict[str, Any]:
    """A client's message, if the vendor's types know all of it, and it is one."""
    assert len(message) == 1, f"several messages in one: {[*message]}"
    (kind, content), *_ = message.items()
    if kind == "setup":  # whose type lacks this one
        content = dict(content)
        config = content.pop("realtimeInputConfig", {})
        types.RealtimeInputConfig.model_validate(config)
    if kind == "realtimeInput":
        assert len(content) == 1, f"several inputs in one: {[*content]}"
    types.LiveClientMessage.model_validate({kind: content})
    return dict(message)


@attrs.define(eq=False)
class Talk:
    """A wire, the time, and the messages it wanted sent and nobody looked at."""

    wire: GeminiWire
    now: float = 100.0

    def opened(self) -> dict[str, Any]:
        """The setup."""
        self.wire.opening(self.now)
        (setup,) = self.said()
        return setup

    def send(self, *commands: Command) -> list[dict[str, Any]]:
        """What these commands make it say."""
        for command in commands:
            self.wire.send(command, self.now)
        return self.said()

    def hear(self, *messages: Mapping[str, Any]) -> list[Event]:
        """What these messages of the server mean."""
        events: list[Event] = []
        for message in messages:
            types.LiveServerMessage.model_validate(message)
            events += self.wire.receive(json.dumps(message).encode(), self.now)
        return events

    def wait(self, seconds: float) -> list[Event]:
        """The events of the next while, as the carrier asks for them."""
        events: list[Event] = []
        until = self.now + seconds
        while (alarm := self.wire.alarm) is not None and alarm <= until:
            self.now = max(self.now, alarm)
            events += self.wire.wake(self.now)
        self.now = until
        return events

    def frames(self) -> list[Frame]:
        return self.wire.outgoing()

    def said(self) -> list[dict[str, Any]]:
        frames = self.frames()
        assert all(isinstance(frame.data, str) for frame in frames)
        return [judged(json.loads(frame.data)) for frame in frames]


def wire_of(model: str = LIVE_3_8, **setup: Any) -> GeminiWire:
    fields = {"instructions": "You are Greymantle.", "tools": (tool(),)} | setup
    return GeminiWire(
        model=model, profile=profile_of(model), setup=Setup(**fields), prefix="t"
    )


def talk(model: str = LIVE_3_8, **setup: Any) -> Talk:
    """A wire whose socket is open and set up; nothing is left to be looked at."""
    found = Talk(wire_of(model, **setup))
    found.opened()
    found.hear({"setupComplete": {}})
    found.said()
    return found


# What servers say.


def content(**fields: Any) -> dict[str, Any]:
    return {"serverContent": fields}


def called(*ids: str, name: str = "dice__roll", **args: Any) -> dict[str, Any]:
    calls = [{"id": id_, "name": name, "args": args} for id_ in ids]
    return {"toolCall": {"functionCalls": calls}}


def spoken(text: str = "Hm.") -> dict[str, Any]:
    return content(
        modelTurn={
            "role": "model",
            "parts": [
                {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAAAAA=="}}
            ],
        },
        outputTranscription={"text": text},
    )


TURN_COMPLETE = content(turnComplete=True)
INTERRUPTED = content(interrupted=True)
