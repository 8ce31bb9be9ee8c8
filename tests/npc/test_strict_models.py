"""Whole conversations with model servers that refuse what real ones refuse.

Real HTTP, the whole runtime. What a server refuses once may teach us what it takes;
from then on it refuses nothing, and no turn fails.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
import trio.testing

from glyphoxa_trio import open_runtime, tool
from glyphoxa_trio.config import (
    NO_GROUPS,
    CalibrationConfig,
    Config,
    LlmConfig,
    NpcConfig,
    Provider,
    TurnConfig,
)
from glyphoxa_trio.npc import Sentence, TurnEnd
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.testing.model_kinds import (
    KINDS,
    Body,
    ModelServerKind,
    StrictServer,
    echo,
    open_strict_server,
)
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    ScriptedModelServer,
    open_model_server,
)
from glyphoxa_trio.tools.definition import OnInterrupt, Tool
from glyphoxa_trio.tools.tier import Tier

from .support import ask

NEVER = 60.0


@attrs.define(eq=False)
class Doors:
    """Two tools: one answers at once, one when it is let, after its turn."""

    begun: trio.Event = attrs.field(factory=trio.Event)
    open: trio.Event = attrs.field(factory=trio.Event)

    def tools(self) -> list[Tool]:
        @tool(estimated_duration_ms=5, read_only=True)
        async def look(thing: str) -> str:
            """Look at a thing."""
            return f"The {thing} is red. " + "x" * 200

        @tool(
            estimated_duration_ms=5,
            max_duration_ms=30_000,
            idempotent=True,
            on_interrupt=OnInterrupt.FINISH_AND_SPEAK,
        )
        async def unlock(thing: str) -> str:
            """Open a thing."""
            self.begun.set()
            await self.open.wait()
            return f"The {thing} is open."

        return [look, unlock]


def config(base_url: str, provider: Provider, **llm: Any) -> Config:
    off = NO_GROUPS
    return Config(
        npcs=(
            NpcConfig(
                name="Bob",
                budget_tier=Tier.DEEP,
                tools=("custom.*",),
                greeting="Who goes there?",
                fallback=("Hm?",),
            ),
        ),
        llm=LlmConfig(provider=provider, model="m", base_url=base_url, **llm),
        builtin=off,
        calibration=CalibrationConfig(at_start=False),
        turn=TurnConfig(first_token=NEVER, silence=NEVER, model_total=NEVER),
    )


async def answered(runtime: Runtime, text: str, **more: Any) -> str:
    heard = await ask(runtime.npc("Bob"), text, **more)
    assert heard.done.end is TurnEnd.COMPLETED, heard.done
    assert heard.done.error == ""
    return heard.done.text


async def rain(_: object) -> str:
    return "It rains."


async def talk(runtime: Runtime, doors: Doors, changed: Config) -> None:
    """A greeting, calls, an interruption before a word was heard, what was overheard
    and is known, a result that comes late, and a reload."""
    npc = runtime.npc("Bob")
    async with npc.greet() as turn:
        await turn.finish()
    assert "<think" not in await answered(runtime, "Hello", speaker="Ann")
    await answered(runtime, "The door: use it", speaker="Ann")
    async with npc.say("And the window?", speaker="Bo") as turn:
        async for event in turn:
            if not isinstance(event, Sentence):
                continue
            break  # it has said something, and nobody has heard it
    await npc.interrupt()
    await npc.overhear("Ann", "I do not trust him.", to="Bo")
    runtime.add_context(rain)
    await answered(runtime, "Are you cold?", speaker="Bo")
    async with trio.open_nursery() as nursery:

        async def open_the_gate() -> None:
            await listen(runtime, "Now the gate: use it")
            nursery.cancel_scope.cancel()  # also if its tool has never begun

        nursery.start_soon(open_the_gate)
        await doors.begun.wait()
        await npc.interrupt()
    doors.open.set()
    await trio.testing.wait_all_tasks_blocked()
    await answered(runtime, "Is it open?", speaker="Ann")
    await runtime.reload(changed)
    await answered(runtime, "And now? Then use it", speaker="Ann")
    await answered(runtime, "Farewell", speaker="Ann")


async def listen(runtime: Runtime, text: str) -> None:
    async with runtime.npc("Bob").say(text) as turn:
        await turn.finish()


def speaker(body: Body) -> Any:
    """Looks at doors, and opens gates."""
    said = echo(body)
    if isinstance(said, str):
        return said
    text = body["messages"][-1]["content"]
    names = [x["function"]["name"] for x in body["tools"]]
    wanted = "unlock" if "gate" in text.rsplit("\n", 1)[-1] else "look"
    (name,) = [x for x in names if x.endswith(wanted)]
    return name, said[1]


@asynccontextmanager
async def opened(
    kind: ModelServerKind, **llm: Any
) -> AsyncIterator[tuple[StrictServer, Runtime, Doors, Config]]:
    doors = Doors()
    with trio.fail_after(40):
        async with open_strict_server(kind, speaker) as server:
            provider = {
                "ollama": Provider.OLLAMA,
                "vllm": Provider.VLLM,
                "llama.cpp": Provider.LLAMACPP,
                "openrouter": Provider.OPENROUTER,
                "gemini": Provider.GEMINI,
            }.get(kind.name, Provider.CHAT_COMPLETIONS)
            made = config(server.base_url, provider, **llm)
            async with open_runtime(made, tools=doors.tools()) as runtime:
                yield server, runtime, doors, made


@pytest.mark.parametrize("name", KINDS)
async def test_a_whole_conversation_passes(name: str) -> None:
    async with opened(KINDS[name]) as (server, runtime, doors, made):
        npc = attrs.evolve(made.npcs[0], personality="Gruff.")
        await talk(runtime, doors, attrs.evolve(made, npcs=(npc,)))
        # A refusal is met once by each model that is made, and never again.
        assert len(server.refused) <= 6
        before = len(server.refused)
        await answered(runtime, "Still here?")
        assert len(server.refused) == before
        told = json.dumps([body["messages"] for body in server.taken])
        for line in ("I do not trust him.", "It rains.", "The conversation begins"):
            assert line in told
        if name not in ("vllm", "ollama"):  # those take no tools
            assert "What went on by itself has ended" in told
            assert "The door is open." in told
        for body in server.taken:
            roles = [message["role"] for message in body["messages"]]
            assert "system" not in roles[1:]
            assert "name" not in json.dumps([[*x] for x in body["messages"]])


async def test_a_whole_conversation_passes_at_anthropic() -> None:
    def script(body: Any) -> Reply:
        last = body["messages"][-1]["content"][-1]
        text = last.get("text", "")
        if text.rstrip().endswith("use it"):
            wanted = "unlock" if "gate" in text else "look"
            names = [x["name"] for x in body["tools"]]
            (name,) = [x for x in names if x.endswith(wanted)]
            return CallTools([(name, {"thing": "door"})])
        return SayText("Well met. I am here.")

    doors = Doors()
    with trio.fail_after(40):
        async with open_model_server(script) as server:
            made = config(server.base_url, Provider.ANTHROPIC)
            async with open_runtime(made, tools=doors.tools()) as runtime:
                await talk(runtime, doors, made)
            assert isinstance(server, ScriptedModelServer)
            assert server.refused == []


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.full])
async def test_a_conversation_that_is_too_long_goes_on(name: str) -> None:
    # 60 turns with answers of tools; the server takes 2,500 tokens
    kind = attrs.evolve(KINDS[name], context=2500)
    async with opened(kind) as (server, runtime, _, _):
        for number in range(12):
            await answered(runtime, f"Thing {number} {'y' * 1000}. use it")
        assert any("context" in x or "token count" in x for x in server.refused)
        told = [x.text for x in runtime.warnings if "too long" in x.text]
        assert 1 <= len(told) <= 3
        for body in server.taken:
            loads = body["messages"] == [{"role": "user", "content": "Hello"}]
            assert loads or body["messages"][0]["role"] == "system" or "gemma" in name


async def test_what_a_preset_knows_of_the_length_is_never_exceeded() -> None:
    kind = attrs.evolve(KINDS["llama.cpp"], context=2500)
    async with opened(kind, context_tokens=2000) as (server, runtime, _, _):
        for number in range(12):
            await answered(runtime, f"Thing {number} {'y' * 300}. use it")
        assert server.refused == []
