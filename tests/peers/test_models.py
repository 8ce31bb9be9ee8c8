"""Both chat protocols against somebody else's model server: a turn with two calls.

aimock shares no line with our links or with the server that scripts them. It answers
by fixtures, and checks the key and little else; how strict a vendor is, is tested with
the scripted server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

import trio

from glyphoxa_trio.config import (
    CalibrationConfig,
    Config,
    LlmConfig,
    McpConfig,
    ModelConfig,
    NpcConfig,
    OverloadConfig,
    Provider,
    ToolOverride,
)
from glyphoxa_trio.npc import ModelFailed, ModelSwitched, TurnEnd, UsageReported
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.runtime import open_runtime
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import Heard, ask
from .aimock import open_aimock
from .support import PATIENCE

pytestmark = pytest.mark.border

KEY = "sk-of-a-peer"
CALLS = [("call_1", "1d1"), ("call_2", "2d1")]
FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "roll", "hasToolResult": False},
        "response": {
            "content": "Let me roll.",
            "toolCalls": [
                {
                    "id": i,
                    "name": "roll",
                    "arguments": json.dumps({"expression": x}),
                }
                for i, x in CALLS
            ],
        },
    },
    {
        "match": {"hasToolResult": True},
        "response": {"content": "One and two, and that is all."},
    },
]


def model(provider: Provider, origin: str, key: str = KEY) -> dict[str, Any]:
    return {
        "provider": provider,
        "model": f"of-{provider}",
        "base_url": f"{origin}/v1",
        "api_key": Secret(key),
    }


async def rolled(llm: LlmConfig) -> Heard:
    config = Config(
        npcs=(NpcConfig(name="Bo", tools=("dice",), budget_tier=Tier.DEEP),),
        llm=llm,
        calibration=CalibrationConfig(at_start=False),
        mcp=McpConfig(remember=False),
        overload=OverloadConfig(enabled=False),
        # Its own limit is 20 ms; what is tested is the protocol, on a busy machine.
        tools={"dice.roll": ToolOverride(max_duration=5.0)},
    )
    async with open_runtime(config) as runtime:
        return await ask(runtime.npc("Bo"), "roll", speaker="Ann")


async def journal(origin: str) -> list[dict[str, Any]]:
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
        headers = {"authorization": f"Bearer {KEY}"}
        said = await client.get(f"{origin}/__aimock/journal", headers=headers)
    entries: list[dict[str, Any]] = said.json()
    return [entry["body"] for entry in entries]


@pytest.mark.parametrize("provider", [Provider.CHAT_COMPLETIONS, Provider.ANTHROPIC])
async def test_two_calls_of_one_response_are_run_and_told(
    provider: Provider, tmp_path: Path
) -> None:
    with trio.fail_after(PATIENCE):
        async with open_aimock(tmp_path, FIXTURES, key=KEY) as origin:
            heard = await rolled(LlmConfig(**model(provider, origin)))
            asked = await journal(origin)
    done = heard.done
    assert (done.end, done.error) == (TurnEnd.COMPLETED, "")
    assert done.text == "Let me roll. One and two, and that is all."
    assert [outcome.call.id for outcome in done.outcomes] == ["call_1", "call_2"]
    assert [outcome.data["total"] for outcome in done.outcomes] == [1, 2]
    assert [event.model for event in heard.of(UsageReported)] == [f"of-{provider}"] * 2
    # As it has understood our second request.
    assert len(asked) == 2
    told = json.dumps(asked[1]["messages"])
    assert all(told.count(call) == 2 for call, _ in CALLS)


@pytest.mark.parametrize("provider", [Provider.CHAT_COMPLETIONS, Provider.ANTHROPIC])
async def test_a_wrong_key_is_told_and_the_next_model_asked(
    provider: Provider, tmp_path: Path
) -> None:
    (other,) = {Provider.CHAT_COMPLETIONS, Provider.ANTHROPIC} - {provider}
    with trio.fail_after(PATIENCE):
        async with open_aimock(tmp_path, FIXTURES, key=KEY) as origin:
            wrong = model(provider, origin, "sk-of-nobody")
            alone = await rolled(LlmConfig(**wrong))
            fallback = ModelConfig(**model(other, origin))
            heard = await rolled(LlmConfig(**wrong, fallbacks=(fallback,)))
    assert alone.only(ModelFailed).kind is ErrorKind.AUTHENTICATION
    assert heard.done.end is TurnEnd.COMPLETED
    switched = heard.of(ModelSwitched)
    assert [event.model for event in switched] == [f"of-{other}"] * 2
    assert all(event.reason.startswith("authentication: ") for event in switched)
