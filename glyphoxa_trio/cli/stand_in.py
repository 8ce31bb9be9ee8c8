"""A stand-in for a speech-to-speech model, on this machine: no key, no network.

The real protocol over a real socket, at the strict fake of the configured vendor. What
it says is the offline stand-in's, picked by words, and its voice is silence: it is for
trying what a configuration does, not for hearing it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from glyphoxa_trio.config import Config, ConfigError
from glyphoxa_trio.config.voices import S2SProvider
from glyphoxa_trio.providers.llm import (
    CallReady,
    LLMRequest,
    Message,
    TextChunk,
    ToolSpec,
)
from glyphoxa_trio.providers.offline.wire import CONFESSION, respond
from glyphoxa_trio.providers.s2s import S2S
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.voice.steps import ModelTurn, Reply, Speak, SpokenCallTools
from glyphoxa_trio.tools.outcome import ToolCall

_KEY = Secret("stand-in")
_A_WORD = 300  # milliseconds for a slow speaker


@attrs.define(eq=False)
class StandIn:
    """Return the model's answer."""

    _runtime: Runtime | None = attrs.field(default=None, init=False)

    def look_at(self, runtime: Runtime) -> None:
        """Find the tools that the model was shown, by name."""
        self._runtime = runtime

    def __call__(self, turn: ModelTurn) -> Reply:
        """One response: words, or calls."""
        calls, words = [], ""
        for event in respond(self._request(turn)):
            match event:
                case CallReady(call):
                    calls.append((call.name, json.loads(call.arguments)))
                case TextChunk(text):
                    words += text
                case _:
                    pass
        if calls:
            return SpokenCallTools(calls)
        return Speak(words, ms=_A_WORD * len(words.split()))

    def _request(self, turn: ModelTurn) -> LLMRequest:
        messages = [
            Message(role="system", content=turn.instructions),
            *_earlier(turn),
            Message(role="user", content=turn.user),
        ]
        if turn.outputs:
            calls = tuple(ToolCall(one.id, one.name) for one in turn.outputs)
            messages.append(Message(role="assistant", calls=calls))
        messages += [
            Message(role="tool", content=_text(x.output), call_id=x.id, name=x.name)
            for x in turn.outputs
        ]
        runtime = self._runtime
        found = {} if runtime is None else runtime.host.snapshot.by_exposed
        known = [found[name] for name in turn.tools if name in found]
        specs = [
            ToolSpec(
                name=listing.exposed,
                description=listing.definition.description,
                parameters=listing.definition.parameters,
            )
            for listing in known
        ]
        return LLMRequest(messages=tuple(messages), tools=tuple(specs))


def _earlier(turn: ModelTurn) -> list[Message]:
    """Return what was said before, once the model has said that it is a stand-in.

    Until then an answer could not be told from the result of a tool.
    """
    users = [at for at, x in enumerate(turn.lines) if x.role == "user"]
    before = turn.lines[: users[-1]] if users else ()
    if not any(CONFESSION in line.text for line in before):
        return []
    return [
        Message(role="user" if x.role == "user" else "assistant", content=x.text)
        for x in before
    ]


def _text(output: Any) -> str:
    """A result as it was sent: text, or an object around it."""
    if isinstance(output, dict):
        output = output.get("output", output.get("error", output))
    return output if isinstance(output, str) else json.dumps(output)


@asynccontextmanager
async def open_stand_in(
    config: Config | None, mind: StandIn
) -> AsyncIterator[S2S | None]:
    """The configured model's protocol, served here until the block is left; nothing if
    it is not wanted.

    Raises:
      ConfigError: if no speech-to-speech model is configured.
    """
    if config is None:
        yield None
        return
    model = config.s2s.model or ""
    match config.s2s.provider:
        case S2SProvider.OPENAI_REALTIME:
            from glyphoxa_trio.providers.openai_realtime import OpenAIRealtime
            from glyphoxa_trio.testing.realtime_server import open_realtime_server

            async with open_realtime_server(mind) as realtime:
                yield OpenAIRealtime(
                    model=model, base_url=realtime.base_url, api_key=_KEY
                )
        case S2SProvider.GEMINI_LIVE:
            from glyphoxa_trio.providers.gemini_live import GeminiLive
            from glyphoxa_trio.testing.gemini_server import open_gemini_server

            async with open_gemini_server(mind) as gemini:
                yield GeminiLive(model=model, base_url=gemini.base_url, api_key=_KEY)
        case None:
            raise ConfigError("no model to stand in for @ s2s.provider")
