"""A speech-to-speech NPC from end to end in virtual time.

The real session, host, gate, provider and wire, over a stream in memory, at the strict
fake of the vendor, which must find no fault with any of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import pytest

import trio

from glyphoxa_trio.actors import Backoff
from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig
from glyphoxa_trio.npc import Npc
from glyphoxa_trio.npc.s2s import LiveSettings, RealtimeConversation
from glyphoxa_trio.npc.s2s.waking import PIECE
from glyphoxa_trio.providers import gemini_live, openai_realtime
from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.providers.gemini_live import GeminiLive
from glyphoxa_trio.providers.openai_realtime import OpenAIRealtime
from glyphoxa_trio.runtime.voices import Voices
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.gemini_server import GeminiServer, open_gemini_server
from glyphoxa_trio.testing.realtime_server import (
    RealtimeServer,
    Script,
    open_realtime_server,
)
from glyphoxa_trio.testing.voice_front import Front
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import Table, open_table

OPENAI: Final = "gpt-realtime-2"
GEMINI_25: Final = "gemini-2.5-flash-native-audio"
GEMINI_31: Final = "gemini-3.1-flash-live-preview"
GEMINI_38: Final = "gemini-3.8-live"
THINKING: Final = "gemini-3.8-live-extended-thinking"
GEMINIS: Final = (GEMINI_25, GEMINI_31, GEMINI_38, THINKING)
EVERY = pytest.mark.parametrize("model", [OPENAI, *GEMINIS])
EACH = pytest.mark.parametrize("model", [OPENAI, GEMINI_38])
EVERY_GEMINI = pytest.mark.parametrize("model", GEMINIS)

# Delays between attempts are exact.
EXACT: Final = Backoff(first=0.5, ceiling=4.0, max_restarts=3, jitter=0.0)
BOB: Final = NpcConfig(
    name="Bob", engine=Engine.S2S, budget_tier=Tier.DEEP, fallback=("Hm?",)
)

Server = RealtimeServer | GeminiServer


def provider_at(server: Front[Any], model: str, **options: Any) -> Any:
    """The vendor's real provider, whose sockets are in memory."""

    async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        return server.dial()

    kind: Any = OpenAIRealtime if model == OPENAI else GeminiLive
    asked: Any = openai_realtime if model == OPENAI else gemini_live
    return kind(
        model=model,
        base_url=server.base_url,
        api_key=Secret("sk-hush"),
        dial=dial,
        options=asked.SessionOptions(**options),
    )


@asynccontextmanager
async def open_talk(
    model: str,
    script: Script,
    *tools: Tool,
    npc: NpcConfig = BOB,
    settings: dict[str, Any] | None = None,
    automatic: bool = True,
    table: dict[str, Any] | None = None,
    asked: dict[str, Any] | None = None,
    text: Sequence[Any] = (),
    **server: Any,
) -> AsyncIterator[tuple[Table, Server]]:
    """An NPC with these tools at a model with this script, and its server.

    Its turns do not go round the model, unless ``table`` says so; ``text`` is what a
    text model says then. ``asked`` are the vendor's options.
    """
    opened: Any = open_realtime_server if model == OPENAI else open_gemini_server
    async with opened(script, in_memory=True, **server) as fake:
        live = RealtimeConversation(
            provider=provider_at(fake, model, **(asked or {})),
            automatic=automatic,
            settings=LiveSettings(backoff=EXACT, **(settings or {})),
        )
        options = {"s2s": S2SConfig(route=False), **(table or {})}
        async with open_table(text, *tools, npc=npc, live=live, **options) as made:
            made.npc = _hearing(made, live)
            yield made, fake
        assert not fake.violations, fake.violations


def _hearing(table: Table, live: RealtimeConversation) -> Npc:
    """The NPC with the ear that a runtime gives it."""
    return attrs.evolve(table.npc, ears=Voices().model_ears(live))


def live_of(table: Table) -> RealtimeConversation:
    live = table.session.runner.engine.live
    assert live is not None
    return live


def sent_by(server: Server, word: str) -> list[dict[str, Any]]:
    """What clients said, by the type of the event or item, or by its key."""
    return [
        message
        for session in server.sessions
        for message in session.wire.received
        if word in (message.get("type"), (message.get("item") or {}).get("type"))
        or word in message
    ]


def heard_whole(server: Server, said: bytes, rate: int) -> bool:
    """Whether the first socket has heard all of it, but for silence that goes in larger
    pieces and is not one yet."""
    heard = server.sessions[0].hearing.audio
    return said.startswith(heard) and len(said) - len(heard) < bytes_of(PIECE, rate)
