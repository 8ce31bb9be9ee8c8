"""Memory in a running runtime: what is done after evenings, beside turns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import LlmConfig, Provider
from glyphoxa_trio.config.memory import MemoryConfig, RecallConfig
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.testing.model_server import (
    Hang,
    Reply,
    SayText,
    open_model_server,
)

from .test_models import config

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
