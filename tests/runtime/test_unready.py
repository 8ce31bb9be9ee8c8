"""Defects that make a configuration unfit for production, as a service checks them."""

from __future__ import annotations

import attrs
import pytest

from trio.testing import MockClock

from glyphoxa_trio import open_runtime
from glyphoxa_trio.config import CalibrationConfig, Config, ConfigError, NpcConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig
from glyphoxa_trio.providers.gemini_live import GeminiLive
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.runtime.unready import check_production
from glyphoxa_trio.secret import Secret

from ..npc.support import ScriptedLLM
from ..npc.voices import FakeSynthesizer

TABLE = Config(
    npcs=(NpcConfig(name="Bob", engine=Engine.S2S),),
    calibration=CalibrationConfig(at_start=False),
)
GEMINI = GeminiLive(model="gemini-3.8-live", api_key=Secret("k"))


def places(runtime: Runtime) -> list[str]:
    return [x.place for x in runtime.unready()]


async def test_whoever_starts_a_service_is_told_all_of_it(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(TABLE, s2s=GEMINI) as runtime:
        assert places(runtime) == ["turn.fallback", "npcs[0]", "npcs[0]"]
        with pytest.raises(ConfigError) as raised:
            check_production(runtime.unready())
    assert len(str(raised.value).splitlines()) == 3
    assert "offline stand-in" in str(raised.value)


async def test_what_an_embedder_brings_counts(autojump_clock: MockClock) -> None:
    async with open_runtime(
        TABLE, s2s=GEMINI, synthesizer=FakeSynthesizer(), llm=ScriptedLLM([])
    ) as runtime:
        assert places(runtime) == []
        check_production(runtime.unready())


async def test_a_turn_that_goes_no_other_way_needs_no_other_model(
    autojump_clock: MockClock,
) -> None:
    table = attrs.evolve(TABLE, s2s=S2SConfig(route=False))
    async with open_runtime(
        table, s2s=GEMINI, synthesizer=FakeSynthesizer()
    ) as runtime:
        assert places(runtime) == []
