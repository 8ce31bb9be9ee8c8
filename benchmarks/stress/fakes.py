"""An NPC that speaks for itself, at a strict fake of its vendor, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from glyphoxa_trio import Config, Runtime, Tier, Tool, open_runtime
from glyphoxa_trio.config import McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig, S2SProvider
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.gemini_server import GeminiServer, open_gemini_server
from glyphoxa_trio.testing.realtime_server import (
    HangResponse,
    On,
    RealtimeServer,
    Script,
    open_realtime_server,
)

OPENAI: Final = "gpt-realtime-2"
GEMINI: Final = "gemini-3.8-live"
GEMINI_25: Final = "gemini-2.5-flash-native-audio"
KEY: Final = Secret("k-123")
PATIENCE: Final = 20.0  # seconds; only a hang takes so long

Fake = RealtimeServer | GeminiServer
Message = Mapping[str, Any]


@asynccontextmanager
async def open_fake(
    model: str, script: Script, traps: Sequence[On] = (), *, opens_after: float = 0.0
) -> AsyncIterator[Fake]:
    """A strict fake of the model's vendor, which must find no fault."""
    opened: Any = open_realtime_server if model == OPENAI else open_gemini_server
    async with opened(script, traps=traps, opens_after=opens_after) as fake:
        yield fake
    if fake.violations:
        raise RuntimeError(f"what no vendor takes: {fake.violations}")


@asynccontextmanager
async def open_table(
    model: str,
    script: Script,
    tools: Sequence[Tool],
    *,
    see: Callable[[Message], bool] | None = None,
    sent: bool = False,
    servers: tuple[ServerSpec, ...] = (),
) -> AsyncIterator[tuple[Runtime, Fake]]:
    """A runtime with one NPC. ``see`` is shown what the fake gets, or has ``sent``."""
    # A trap that never springs sees every message.
    traps = () if see is None else (On(see, HangResponse(), sent=sent),)  # type: ignore[arg-type]
    provider = S2SProvider.OPENAI_REALTIME
    if model != OPENAI:
        provider = S2SProvider.GEMINI_LIVE
    async with open_fake(model, script, traps) as fake:
        plain = Config()
        npc = NpcConfig(
            name="Bartok",
            engine=Engine.S2S,
            budget_tier=Tier.STANDARD,
            tools=(*(["own"] if tools else []), *(["mcp__*"] if servers else [])),
        )
        config = Config(
            npcs=(npc,),
            s2s=S2SConfig(
                provider=provider, model=model, base_url=fake.base_url, api_key=KEY
            ),
            trust=attrs.evolve(plain.trust, allow_tools=("mcp__*",)),
            mcp=McpConfig(servers=servers, remember=False, defer_threshold=100),
            calibration=CalibrationConfig(at_start=False),
        )
        async with open_runtime(config, tools=list(tools)) as runtime:
            if servers and not await runtime.wait_ready(within=PATIENCE):
                raise RuntimeError(str(runtime.servers()))
            yield runtime, fake
