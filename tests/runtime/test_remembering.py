"""Memory in a running runtime: what is done after evenings, beside turns."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import LlmConfig, Provider
from glyphoxa_trio.config.memory import MemoryConfig, RecallConfig
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import Basis, Fact, Provenance, Standing
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.testing.model_server import (
    Hang,
    Reply,
    SayText,
    open_model_server,
)

from ..npc.support import ScriptedLLM
from .test_models import config
from .test_snapshots import play
from .test_turn_keeper import run

SUMMARY = json.dumps({"summary": "Aria greeted Bo.", "facts": []})
QUIET = MemoryConfig(recall=RecallConfig(total=0))


@pytest.mark.border
async def test_a_summary_gives_its_place_to_a_turn_and_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("glyphoxa_trio.recall.afterwards.EVERY", 0.1)
    summaries = 0

    def script(body: Mapping[str, Any]) -> Reply:
        nonlocal summaries
        if "The lines:" not in str(body["messages"][-1]["content"]):
            return SayText("Aye.")
        summaries += 1
        return [SayText("{"), Hang()] if summaries == 1 else SayText(SUMMARY)

    with trio.fail_after(60):
        async with open_model_server(script) as server:
            llm = LlmConfig(
                provider=Provider.CHAT_COMPLETIONS,
                model="small",
                base_url=server.base_url,
                places=1,
            )
            world: Config = attrs.evolve(config(llm), memory=QUIET)
            memory = InMemory()
            async with open_runtime(world, memory=memory) as runtime:
                one = runtime.session("one")
                async with one.npc("Bo").say("Hail!", speaker="Aria") as turn:
                    await turn.finish()
                await one.end()
                await server.wait_requests(2)  # the only place is the summary's
                async with runtime.session("two").npc("Bo").say("And me?") as turn:
                    done = await turn.finish()
                assert done.end is TurnEnd.COMPLETED
                assert server.hangups == 1
                await server.wait_requests(4)
                found: list[str] = []
                while not any(found):
                    await trio.sleep(0.05)
                    evenings = await memory.transcripts.evenings(
                        CampaignKey("one"), GAME_MASTER
                    )
                    found = [x.summary for x in evenings]
                assert found == ["Aria greeted Bo."]


async def test_claims_that_nobody_decided_about_are_removed_in_the_end(
    autojump_clock: MockClock,
) -> None:
    store, key = InMemory(), CampaignKey("one")
    old = time.time() - 61 * 86_400
    for text, standing, at in (
        ("Ann is a queen.", Standing.CLAIMED, old),
        ("Ann is tall.", Standing.CLAIMED, old + 2 * 86_400),
        ("The mill burnt.", Standing.ACCEPTED, old),
    ):
        known = Provenance(basis=Basis.CLAIMED, player="p1", by="Ann", at=at)
        fact = Fact(text=text, standing=standing, provenance=known)
        await store.graph.put(key, facts=[fact])

    async def kept() -> set[str]:
        found = await store.graph.facts(key, GAME_MASTER)
        return {x.fact.text for x in found}

    async with run(store, ScriptedLLM(play)):
        await trio.sleep(1)
        assert await kept() == {"Ann is tall.", "The mill burnt."}
