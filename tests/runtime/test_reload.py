"""A new configuration while NPCs talk: on virtual time, and with real servers."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, ConfigError, Runtime, Tier, open_runtime
from glyphoxa_trio.actors import SupervisionEvent
from glyphoxa_trio.cli.status import changes
from glyphoxa_trio.config import (
    BuiltinConfig,
    CalibrationConfig,
    DiceConfig,
    LlmConfig,
    McpConfig,
    NpcConfig,
    RestartConfig,
    SelectorConfig,
    ServerSpec,
    ToolOverride,
    TrustConfig,
    TurnConfig,
    load_config,
)
from glyphoxa_trio.control.status import plain
from glyphoxa_trio.errors import ActorGone
from glyphoxa_trio.host import open_host
from glyphoxa_trio.mcp import ServerState, ServerStatus, ServerWarning
from glyphoxa_trio.mcp.transport import ToolListing
from glyphoxa_trio.npc import Npc, TierSelected, ToolsShown, TurnDone
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import Environment, Reloaded, RuntimeClosed, UnknownNpc
from glyphoxa_trio.runtime.models import Models
from glyphoxa_trio.runtime.publisher import Publisher
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.naming import NameCollision, NamingStyle
from glyphoxa_trio.tools.outcome import Status, ToolResult

from ..cli.support import SEER, is_dead
from ..mcp.fakes import FakeServer, listing
from ..npc.support import Ran, ScriptedLLM, Step, ask, call
from .test_runtime import PATIENT, pid_of, seer

LIMIT = 30.0
UNMEASURED = CalibrationConfig(at_start=False)


def config(*tools: str, **more: Any) -> Config:
    """One NPC, Bo, with these tools; nothing is measured."""
    npc = more.pop("npc", {})
    more.setdefault("npcs", (NpcConfig(name="Bo", tools=tools, **npc),))
    more.setdefault("mcp", McpConfig(remember=False))  # a disk knows no virtual time
    return Config(**{"calibration": UNMEASURED, **more})


async def say(runtime: Runtime, text: str, npc: str = "Bo") -> TurnDone:
    async with runtime.npc(npc).say(text) as turn:
        return await turn.finish()


@asynccontextmanager
async def talking(
    llm: ScriptedLLM, chosen: Config, *tools: Tool
) -> AsyncGenerator[Runtime]:
    async with open_runtime(chosen, llm=llm, tools=tools) as runtime:
        yield runtime


# -------------------------------------------------------------- virtual time


async def test_without_a_turn_the_switch_is_made_at_once(
    autojump_clock: MockClock,
) -> None:  # A44
    llm = ScriptedLLM([["Hello."], ["Hello."]])
    async with talking(llm, config("roll")) as runtime:
        await say(runtime, "hi")
        done = await runtime.reload(config("roll", "rules"))
        assert (done.generation, done.deferred) == (2, False)
        assert trio.current_time() == 0
        await say(runtime, "hi")
    assert llm.shown() == [["roll"], ["roll", "get_rule", "search_rules"]]


async def test_a_turn_ends_as_it_began_and_the_next_one_is_of_the_new_generation(
    autojump_clock: MockClock,
) -> None:  # A45, D16
    ran = Ran()
    slow = ran.tool("slow", 0.2)
    llm = ScriptedLLM([[1.0, call("slow")], [1.0, "Done."], ["Again."]])
    async with talking(llm, config("slow"), slow) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await trio.sleep(0.5)
            done = await runtime.reload(config("slow", "roll"))
            assert done.deferred
            assert trio.current_time() == 2.2  # the moment in which the turn ended
        await say(runtime, "hi")
    assert llm.shown() == [["slow"], ["slow"], ["roll", "slow"]]


async def test_a_reload_now_does_not_wait_for_the_turn_and_frees_one_that_waits(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM([[5.0, "Hm."], ["Again."]])
    ends: list[tuple[float, Reloaded]] = []
    async with talking(llm, config("slow"), Ran().tool("slow", 0.2)) as runtime:

        async def reload(chosen: Config, *, now: bool) -> None:
            done = await runtime.reload(chosen, now=now)
            ends.append((trio.current_time(), done))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await trio.sleep(1)
            nursery.start_soon(partial(reload, config("slow", "roll"), now=False))
            await trio.sleep(1)
            assert not ends
            nursery.start_soon(partial(reload, config("slow", "roll"), now=True))
            await trio.sleep(1)
        assert [at for at, _ in ends] == [2, 2]
        assert {done.generation for _, done in ends} <= {2, 3}
        assert trio.current_time() == 5  # the turn went on to its end
        # The one after that waits again.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            nursery.start_soon(partial(reload, config("slow"), now=False))
    assert llm.shown()[-1] == ["roll", "slow"]


async def test_what_is_taken_away_is_gone_in_the_middle_of_a_turn(
    autojump_clock: MockClock,
) -> None:  # D16, D5: shown, called, and refused
    ran = Ran()
    llm = ScriptedLLM([[1.0, call("quick"), call("roll")], ["Oh."], ["Hm."]])
    async with talking(llm, config("quick", "roll"), ran.tool("quick")) as runtime:
        async with trio.open_nursery() as nursery:
            ends: list[TurnDone] = []

            async def speak() -> None:
                ends.append(await say(runtime, "hi"))

            nursery.start_soon(speak)
            await trio.sleep(0.5)
            nursery.start_soon(runtime.reload, config("roll"))
        (end,) = ends
    assert [x.status for x in end.outcomes] == [
        Status.DENIED,
        Status.INVALID_ARGUMENTS,  # it was let through, and missed its argument
    ]
    assert ran.began == []
    assert llm.shown()[:2] == [["roll", "quick"], ["roll"]]


async def test_a_call_that_waits_its_turn_is_refused_when_it_comes(
    autojump_clock: MockClock,
) -> None:  # D16, D3a: writes of one group run one after the other
    ran = Ran()
    writes = [ran.tool(name, 0.2, read_only=False) for name in ("first", "second")]
    llm = ScriptedLLM([[call("first"), call("second")], ["Oh."]])
    async with talking(llm, config("first", "second"), *writes) as runtime:
        async with trio.open_nursery() as nursery:
            ends: list[TurnDone] = []

            async def speak() -> None:
                ends.append(await say(runtime, "hi"))

            nursery.start_soon(speak)
            await trio.sleep(0.1)  # the first one runs
            nursery.start_soon(runtime.reload, config("first"))
    assert [x.status for x in ends[0].outcomes] == [Status.OK, Status.DENIED]
    assert ran.began == [("first", 0)]


async def test_a_demoted_npc_loses_its_slow_tools_in_the_middle_of_a_turn(
    autojump_clock: MockClock,
) -> None:  # D16, G17
    ran = Ran()
    slow = ran.tool("slow", 1.0)
    llm = ScriptedLLM([[1.0, call("slow")], ["Oh."]])
    before = config("slow", npc={"budget_tier": Tier.DEEP})
    async with talking(llm, before, slow) as runtime:
        async with runtime.npc("Bo").say("hi", tier=Tier.DEEP) as turn:
            async for event in turn:
                if isinstance(event, ToolsShown):
                    break
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.reload, config("slow"))
                end = await turn.finish()
    (denied,) = end.outcomes
    assert denied.status is Status.SKIPPED
    assert ran.began == []
    assert llm.shown() == [["slow"], []]


async def test_what_is_new_is_not_of_the_running_turn(
    autojump_clock: MockClock,
) -> None:  # D16: it ends as it began, an invented call of a tool to come included
    ran = Ran()
    llm = ScriptedLLM([[1.0, call("other")], ["Oh."], ["Hm."]])
    tools = (ran.tool("quick"), ran.tool("other"))
    async with talking(llm, config("quick"), *tools) as runtime:
        async with trio.open_nursery() as nursery:
            ends: list[TurnDone] = []

            async def speak() -> None:
                ends.append(await say(runtime, "hi"))

            nursery.start_soon(speak)
            await trio.sleep(0.5)
            nursery.start_soon(runtime.reload, config("quick", "other"))
        assert ends[0].outcomes[0].status is Status.DENIED
        assert ran.began == []
        await say(runtime, "hi")
    assert llm.shown() == [["quick"], ["quick"], ["other", "quick"]]


async def test_a_table_that_never_falls_silent_is_not_waited_for_without_end(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    llm = ScriptedLLM(lambda _: [25.0, "Hm."])
    twice = (NpcConfig(name="Bo"), NpcConfig(name="Al"))
    patient = TurnConfig(first_token=40.0, silence=40.0, model_total=50.0)
    before = config(npcs=twice, turn=patient)
    after = config(npcs=twice, turn=patient, builtin=BuiltinConfig(dice=DiceConfig()))
    async with talking(llm, before, ran.tool("any")) as runtime:
        async with trio.open_nursery() as nursery:

            async def chatter(npc: str, first: float) -> None:
                await trio.sleep(first)
                for _ in range(8):
                    await say(runtime, "and then?", npc)

            nursery.start_soon(chatter, "Bo", 0.0)
            nursery.start_soon(chatter, "Al", 10.0)
            await trio.sleep(1)
            done = await runtime.reload(after)
            assert trio.current_time() == 61
            assert done.deferred
            nursery.cancel_scope.cancel()


async def test_the_conversation_goes_on_and_the_prompt_is_the_new_one(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM([["I am Bo."], ["Still Bo."]])
    before = config(npc={"personality": "Grumpy.", "greeting": "What?"})
    async with talking(llm, before) as runtime:
        await say(runtime, "who are you?")
        await runtime.reload(config(npc={"personality": "Mild.", "greeting": "Yes?"}))
        await say(runtime, "and now?")
    system, *rest = llm.requests[1].messages
    assert "Mild." in system.content
    assert "Grumpy." not in system.content
    assert [message.content for message in rest] == [
        *["What?", "who are you?", "I am Bo.", "and now?"]  # said is said
    ]


async def test_another_model_speaks_for_those_who_were_there_and_those_who_come(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {name: ScriptedLLM(lambda _: ["Hm."]) for name in ("one", "two")}

    def make(self: Models, model: str | None) -> ScriptedLLM:
        return made[model or self._config.model or ""]

    monkeypatch.setattr(Models, "_make", make)

    def by(model: str, *npcs: str) -> Config:
        llm = LlmConfig(model=model)
        return config(llm=llm, npcs=tuple(NpcConfig(name=npc) for npc in npcs))

    async with open_runtime(by("one", "Bo")) as runtime:
        await say(runtime, "hi", "Bo")
        assert runtime.llm is made["one"]
        await runtime.reload(by("two", "Bo", "Al"))
        assert runtime.llm is made["two"]
        for npc in ("Bo", "Al"):
            await say(runtime, "hi", npc)
    assert [len(llm.requests) for llm in made.values()] == [1, 2]


async def test_npcs_come_and_go(autojump_clock: MockClock) -> None:
    llm = ScriptedLLM(lambda _: [1.0, "Hm."])
    async with talking(llm, config()) as runtime:
        bo = runtime.npc("Bo")
        async with bo.say("hi") as turn:
            await wait_all_tasks_blocked()
            await runtime.reload(config(npcs=(NpcConfig(name="Al"),)))
            assert trio.current_time() == 1
            assert (await turn.finish()).text == "Hm."  # it was allowed to finish
        with pytest.raises(UnknownNpc):
            runtime.npc("Bo")
        with pytest.raises(ActorGone):
            async with bo.say("hi"):
                pass
        assert (await say(runtime, "hi", "Al")).text == "Hm."
        assert [npc.name for npc in runtime.npcs] == ["Al"]


async def test_a_configuration_that_cannot_serve_changes_nothing(
    autojump_clock: MockClock,
) -> None:  # D16
    llm = ScriptedLLM([["Hm."]])
    async with talking(llm, config("roll")) as runtime:
        before = runtime.host.snapshot
        dice = McpConfig(servers=(ServerSpec(name="dice", command=("x",)),))
        for wrong, said in (
            (config("rol"), "no tool 'rol', did you mean roll"),
            (config(mcp=dice), "'dice' is a group of built-in tools"),
        ):
            with pytest.raises(ConfigError, match=said):
                await runtime.reload(wrong)
        assert runtime.host.snapshot is before
        assert runtime.config == config("roll")
        await say(runtime, "hi")
    assert llm.shown() == [["roll"]]


async def test_a_reload_that_nobody_waits_for_is_done_all_the_same(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM([[1.0, "Hm."]])
    async with talking(llm, config("roll")) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await trio.sleep(0.5)
            with trio.move_on_after(0.1):
                await runtime.reload(config("roll", builtin=_tables("omens")))
            assert not _rolls(runtime, "omens")
        await wait_all_tasks_blocked()
        assert _rolls(runtime, "omens")


async def test_reloads_come_one_after_the_other_and_the_last_one_stays(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM([[1.0, "Hm."]])
    async with talking(llm, config("roll")) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            for table in ("omens", "winds", "tides"):
                chosen = config("roll", builtin=_tables(table))
                nursery.start_soon(runtime.reload, chosen)
                await wait_all_tasks_blocked()
        assert _rolls(runtime, "tides")
        assert not _rolls(runtime, "omens")


async def test_what_counts_only_from_the_next_start_is_said(
    autojump_clock: MockClock,
) -> None:
    async with talking(ScriptedLLM([]), config("roll")) as runtime:
        other = config(
            "roll",
            tiers=PATIENT,
            mcp=McpConfig(remember=False, naming=NamingStyle.BARE),
            selector=SelectorConfig(queue_depth=1),
        )
        done = await runtime.reload(other)
        assert done.at_next_start == (
            "mcp.naming",
            "tiers.fast.ceiling_ms",
            "tiers.standard.ceiling_ms",
            "tiers.deep.ceiling_ms",
        )
        assert runtime.config.tiers == Config().tiers
        assert runtime.config.selector.queue_depth == 1
        again = await runtime.reload(other)
        assert again.at_next_start == done.at_next_start


async def test_the_selector_goes_by_the_new_rules(autojump_clock: MockClock) -> None:
    npc = {"budget_tier": Tier.DEEP}
    llm = ScriptedLLM(lambda _: ["Hm."])
    async with talking(llm, config(npc=npc)) as runtime:
        await say(runtime, "first")
        words = SelectorConfig(deep_keywords=("ponder",))
        await runtime.reload(config(npc=npc, selector=words))
        async with runtime.npc("Bo").say("ponder this") as turn:
            events = [event async for event in turn]
    (selected,) = [event for event in events if isinstance(event, TierSelected)]
    assert selected.tier is Tier.DEEP


async def test_what_a_second_reload_takes_away_is_gone_while_the_first_one_waits(
    autojump_clock: MockClock,
) -> None:  # D16: at the gate at once, and the first one does not bring it back
    llm = ScriptedLLM([[5.0, "Hm."]])
    off = BuiltinConfig(dice=DiceConfig(enabled=False))
    async with talking(llm, config()) as runtime:
        async with trio.open_nursery() as nursery:
            ends: list[Reloaded] = []

            async def reload(chosen: Config) -> None:
                ends.append(await runtime.reload(chosen))

            nursery.start_soon(say, runtime, "hi")
            await trio.sleep(1)
            nursery.start_soon(reload, config(builtin=_tables("omens")))
            await trio.sleep(1)
            nursery.start_soon(reload, config(builtin=off))
            await wait_all_tasks_blocked()
            assert "dice.roll" not in runtime.host.snapshot.by_key
            assert ends == []  # the switch still waits
        assert "dice.roll" not in runtime.host.snapshot.by_key
        assert trio.current_time() == 5
        done = Reloaded(
            generation=2,
            groups=("dice",),
            deferred=True,
            keys=("builtin.dice.enabled",),
        )
        assert ends == [done] * 2


async def test_what_was_taken_away_and_given_back_before_the_switch_is_there(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM([[1.0, "Hm."]])
    off = BuiltinConfig(dice=DiceConfig(enabled=False))
    async with talking(llm, config()) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            for chosen in (config(builtin=off), config()):
                nursery.start_soon(runtime.reload, chosen)
                await wait_all_tasks_blocked()
        assert "dice.roll" in runtime.host.snapshot.by_key


async def test_a_tool_taken_away_and_given_back_in_one_turn_is_of_that_turn(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    llm = ScriptedLLM([[1.0, call("quick"), call("other")], ["Oh."]])
    tools = (ran.tool("quick"), ran.tool("other"))
    async with talking(llm, config("quick"), *tools) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            for granted in (["other"], ["quick", "other"]):
                nursery.start_soon(runtime.reload, config(*granted))
                await wait_all_tasks_blocked()
    assert [name for name, _ in ran.began] == ["quick"]  # the other one is new


async def test_tools_of_an_embedder_stay_whatever_becomes_of_the_group(
    autojump_clock: MockClock,
) -> None:  # a group may be one of ours, and have more than ours
    loaded = Ran().tool("loaded", group="dice")
    off = BuiltinConfig(dice=DiceConfig(enabled=False))
    async with talking(ScriptedLLM([]), config(), loaded) as runtime:
        for builtin in (_tables("omens"), off, BuiltinConfig()):
            await runtime.reload(config(builtin=builtin))
            assert "dice.loaded" in runtime.host.snapshot.by_key
        assert "dice.roll" in runtime.host.snapshot.by_key


async def test_a_tool_does_not_take_a_name_that_a_reload_is_about_to_need(
    autojump_clock: MockClock,
) -> None:
    off = BuiltinConfig(dice=DiceConfig(enabled=False))
    mine = Ran().tool("roll", group="mine")
    llm = ScriptedLLM([[1.0, "Hm."]])
    async with talking(llm, config(builtin=off)) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            nursery.start_soon(runtime.reload, config())
            await wait_all_tasks_blocked()
            with pytest.raises(NameCollision, match="roll"):
                runtime.register(mine)
            runtime.register(Ran().tool("row", group="mine"))
        assert "dice.roll" in runtime.host.snapshot.by_key
        assert "mine.row" in runtime.host.snapshot.by_key
        await runtime.reload(config(builtin=off))
        runtime.register(mine)
        with pytest.raises(ConfigError, match="roll"):
            await runtime.reload(config())
        assert "mine.roll" in runtime.host.snapshot.by_key


async def test_the_name_of_a_tool_that_was_taken_away_is_free_at_once(
    autojump_clock: MockClock,
) -> None:
    off = BuiltinConfig(dice=DiceConfig(enabled=False))
    mine = Ran().tool("roll", group="dice")
    async with talking(ScriptedLLM([[1.0, "Hm."]]), config()) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            nursery.start_soon(runtime.reload, config(builtin=off))
            await wait_all_tasks_blocked()
            runtime.register(mine)
            with pytest.raises(ConfigError, match="roll"):
                await runtime.reload(config())
        assert runtime.host.snapshot.by_key["dice.roll"].tool is mine


async def test_a_reload_that_the_end_of_the_runtime_cuts_short_says_so(
    autojump_clock: MockClock,
) -> None:  # to somebody outside, who is not cancelled and would wait for ever
    llm = ScriptedLLM([[1.0, "Hm."]])

    told = 0

    async def reload(runtime: Runtime) -> None:
        nonlocal told
        with pytest.raises(RuntimeClosed):
            await runtime.reload(config())
        told += 1

    async with trio.open_nursery() as outside:
        async with talking(llm, config()) as runtime:
            outside.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            outside.start_soon(reload, runtime)
            await wait_all_tasks_blocked()
        outside.start_soon(reload, runtime)
    assert told == 2  # a Cancelled that is nobody's would end in the nursery


async def test_an_npc_that_crashed_in_between_does_not_hold_up_the_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = ScriptedLLM(lambda _: ["Hm."])
    twice = (NpcConfig(name="Bo"), NpcConfig(name="Al"))
    async with talking(llm, config(npcs=twice)) as runtime:
        for npc in ("Bo", "Al"):
            await say(runtime, "hi", npc)
        become = Npc.become

        async def crash(self: Npc, settings: SessionSettings) -> Npc:
            if self.name == "Bo":
                raise ActorGone("it crashed")
            return await become(self, settings)

        monkeypatch.setattr(Npc, "become", crash)
        after = [attrs.evolve(npc, tools=("roll",)) for npc in twice]
        await runtime.reload(config(npcs=tuple(after)))
        for npc in ("Bo", "Al"):
            await say(runtime, "hi", npc)
    assert llm.shown() == [[], [], ["roll"], ["roll"]]


async def test_a_grant_that_a_reload_takes_away_ends_the_probes_of_its_tool(
    autojump_clock: MockClock,
) -> None:  # found: the other calls followed, for up to two minutes
    ran = Ran()
    look = ran.tool("look", 1.0, read_only=True, estimated_duration=None)
    measured = CalibrationConfig()
    async with talking(
        ScriptedLLM([]), config("look", calibration=measured), look
    ) as runtime:
        await trio.sleep(1.5)
        await runtime.reload(config("dice", calibration=measured))
        await trio.sleep(60)
    assert [name for name, _ in ran.began] == ["look"] * 2


async def test_a_tool_that_moved_elsewhere_is_measured_anew(
    autojump_clock: MockClock,
) -> None:  # D10, G25: how fast it was at home says nothing of it
    ran = Ran()
    warnings: list[ServerWarning] = []
    tool = ran.tool(
        "look", group="seer", external=True, read_only=True, estimated_duration=None
    )
    granted = (Grant(npc="Stan", tools=("seer.look",)),)
    away = attrs.evolve(
        tool, definition=attrs.evolve(tool.definition, environment="far.example")
    )
    async with (
        open_host(granted=lambda: granted) as host,
        trio.open_nursery() as nursery,
    ):
        tell = Publisher(host, nursery, True, warnings.append)
        for offered in (tool, tool, away, away):
            tell("seer", ServerState.READY, [offered])
            await wait_all_tasks_blocked()
            ran.began.append(("told", 0.0))
    measured = [name for name, _ in ran.began]
    assert measured == [*["look"] * 5, "told", "told", *["look"] * 5, "told", "told"]
    assert warnings == []


def _tables(name: str) -> BuiltinConfig:
    return BuiltinConfig(dice=DiceConfig(tables={name: ("a", "b")}))


def _rolls(runtime: Runtime, table: str) -> bool:
    listing = runtime.host.snapshot.by_key["dice.roll_table"]
    return table in str(listing.definition)


_TOOLS = ("look", "push", "pull")
_granted = st.lists(st.sampled_from([*_TOOLS, "dice"]), unique=True)
_moments = st.sampled_from([0.1, 0.3, 0.5, 0.7, 1.2, 2.0])
_reloads = st.lists(st.tuples(_moments, _granted, st.booleans()), max_size=4)
_turns = st.lists(
    st.tuples(_moments, st.sampled_from(["Bo", "Al"]), st.sampled_from(["x", "y"])),
    max_size=5,
)


@given(_granted, _reloads, _turns)
def test_whatever_is_reloaded_turns_end_what_is_gone_stays_and_the_last_one_serves(
    first: list[str],
    reloads: list[tuple[float, list[str], bool]],
    turns: list[tuple[float, str, str]],
) -> None:  # D16, A44, A45
    async def main() -> None:
        ran = Ran()
        tools = [ran.tool(name, 0.4) for name in _TOOLS]
        calls = [call(name) for name in _TOOLS]

        def reply(request: LLMRequest) -> list[Step]:
            if request.messages[-1].role == "tool" or not request.tools:
                return [0.3, "Done."]
            return [0.7, *calls]

        def chosen(granted: Sequence[str], dice: bool = True) -> Config:
            with_dice = BuiltinConfig(dice=DiceConfig(enabled=dice))
            names = [name for name in granted if dice or name != "dice"]
            npcs = tuple(NpcConfig(name=name, tools=(*names,)) for name in ("Bo", "Al"))
            return config(npcs=npcs, builtin=with_dice)

        ended = 0
        accepted: list[tuple[float, Config]] = [(0.0, chosen(first))]

        async def speak(at: float, npc: str, speaker: str) -> None:
            nonlocal ended
            await trio.sleep(at)
            async with runtime.npc(npc).say("hi", speaker=speaker) as turn:
                await turn.finish()
            ended += 1

        async def reload(at: float, granted: list[str], dice: bool) -> None:
            await trio.sleep(at)
            new = chosen(granted, dice)
            accepted.append((at, new))
            await runtime.reload(new)

        with trio.fail_after(100):
            async with talking(ScriptedLLM(reply), accepted[0][1], *tools) as runtime:
                async with trio.open_nursery() as nursery:
                    for turn in turns:
                        nursery.start_soon(speak, *turn)
                    for at, granted, dice in sorted(reloads):
                        nursery.start_soon(reload, at, granted, dice)
                assert ended == len(turns)
                for name, at in ran.began:
                    # Of two at one moment either may be the later one.
                    latest = max(when for when, _ in accepted if when < at)
                    serving = [new for when, new in accepted if when in (latest, at)]
                    assert any(name in x.npcs[0].tools for x in serving)
                last = runtime.config
                assert last in [new for at, new in accepted if at == accepted[-1][0]]
                assert ("dice.roll" in runtime.host.snapshot.by_key) == (
                    last.builtin.dice.enabled
                )
                async with runtime.npc("Bo").say("and now?") as turn_:
                    shown = [x async for x in turn_ if isinstance(x, ToolsShown)]
                wanted = set(last.npcs[0].tools)
                assert wanted & set(_TOOLS) == set(shown[0].shown) & set(_TOOLS)
                assert ("dice" in wanted) == ("roll" in shown[0].shown)

    trio.run(main, clock=MockClock(autojump_threshold=0))


# --------------------------------------------------------- scripted servers


@asynccontextmanager
async def scripted(
    server: FakeServer, chosen: Config, **more: Any
) -> AsyncGenerator[Runtime]:
    """A runtime all of whose servers are this one, on virtual time."""
    world, llm = (
        Environment(open_session=server.open),
        ScriptedLLM(lambda _: [9.0, "Hm."]),
    )
    async with open_runtime(chosen, llm=llm, environment=world, **more) as runtime:
        yield runtime


def with_rules(*allow: str, **more: Any) -> Config:
    spec = ServerSpec(name="faq", command=("x",), allow=allow, **more)
    return config("faq.*", mcp=McpConfig(remember=False, servers=(spec,)))


async def test_leaving_says_goodbye_to_servers(
    autojump_clock: MockClock,
) -> None:  # A43: and is no loss of theirs
    states: list[ServerState] = []

    def note(event: ServerStatus | SupervisionEvent) -> None:
        if isinstance(event, ServerStatus):
            states.append(event.state)

    chosen, server = with_rules(), FakeServer(goodbye_takes=0.5)
    async with scripted(server, chosen, on_server_event=note):
        pass
    assert server.goodbyes == [0.5]
    assert states == [ServerState.STARTING, ServerState.READY, ServerState.STOPPED]


async def test_a_server_taken_away_by_hand_does_not_come_back_with_the_switch(
    autojump_clock: MockClock,
) -> None:  # G42
    async with scripted(FakeServer(), with_rules()) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            nursery.start_soon(runtime.reload, with_rules(timeout=9.0))
            await wait_all_tasks_blocked()
            await runtime.remove_server("faq")
        assert runtime.servers() == ()
        assert runtime.host.snapshot.by_key.keys().isdisjoint({"faq.echo"})
        # That switch was accepted before; what is accepted now has the last word.
        done = await runtime.reload(with_rules(timeout=9.0))
        assert (done.added, done.changed) == (("faq",), ())
        assert await runtime.wait_ready(within=5)
        assert "faq.echo" in runtime.host.snapshot.by_key


async def test_a_server_taken_away_by_hand_is_there_again_after_a_reload(
    autojump_clock: MockClock,
) -> None:  # and nobody waits for it for ever
    server = FakeServer(closing_takes=1.0)
    async with scripted(server, with_rules()) as runtime:
        await runtime.remove_server("faq")
        assert [str(x) for x in runtime.problems()] == [
            "'faq.*' waits for the server 'faq' @ npcs[Bo].tools"
        ]
        assert (await runtime.reload(with_rules())).added == ("faq",)
        assert await runtime.wait_ready(within=5)
        assert runtime.problems() == []
        async with trio.open_nursery() as nursery:  # also while it is still ending
            nursery.start_soon(runtime.remove_server, "faq")
            await wait_all_tasks_blocked()
            assert (await runtime.reload(with_rules())).added == ("faq",)
        assert await runtime.wait_ready(within=5)
        assert runtime.problems() == []
        assert (await runtime.reload(with_rules())).added == ()
        assert len(server.attempts) == 3


async def test_a_narrower_list_is_not_widened_by_what_the_old_server_says(
    autojump_clock: MockClock,
) -> None:  # D16
    server = FakeServer()
    async with scripted(server, with_rules()) as runtime:
        changed = server.changed
        assert changed is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            nursery.start_soon(runtime.reload, with_rules("echo", "sleep"))
            await wait_all_tasks_blocked()
            server.tools = listing("echo", "refuse")
            changed()
            await trio.sleep(1)
            assert _of(runtime, "faq") == {"echo"}
            nursery.start_soon(runtime.reload, with_rules())  # and back again
        assert _of(runtime, "faq") == {"echo", "refuse"}


async def test_a_successor_that_was_overtaken_ends_and_a_newcomer_may_go_again(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with scripted(server, config()) as runtime:
        await runtime.reload(with_rules())
        await runtime.reload(with_rules())
        assert await runtime.wait_ready(within=5)
        assert len(server.attempts) == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            for timeout in (7.0, 8.0):
                nursery.start_soon(runtime.reload, with_rules(timeout=timeout))
                await wait_all_tasks_blocked()
            assert len(server.attempts) == 3
            assert len(server.goodbyes) == 1  # the one of 7 s, which never served
        assert runtime.servers()[0].state is ServerState.READY
        await runtime.reload(config())
        await wait_all_tasks_blocked()
        assert runtime.servers() == ()
        assert len(server.goodbyes) == 3


async def test_a_changed_server_is_not_blamed_for_what_its_predecessor_did(
    autojump_clock: MockClock,
) -> None:  # a wrong variable, put right: its tools are worth another try at once

    def with_variable(value: str) -> Config:
        env = {"KEY": Secret(value)}
        spec = ServerSpec(name="faq", command=("x",), env=env, timeout=0.2)
        return config("faq.sleep", mcp=McpConfig(remember=False, servers=(spec,)))

    async with scripted(FakeServer(), with_variable("wrong")) as runtime:
        assert await runtime.wait_ready(within=5)

        async def sleep(seconds: float) -> Status:
            grant, arguments = runtime.npc("Bo").grant, {"seconds": seconds}
            end = await runtime.host.execute("faq.sleep", arguments, grant=grant)
            return end.status

        for _ in range(5):
            assert await sleep(9.0) is Status.TIMEOUT
        assert await sleep(0.1) is Status.UNAVAILABLE
        await runtime.reload(with_variable("right"))
        assert await sleep(0.1) is Status.OK


async def test_what_was_approved_of_one_server_is_not_approved_of_another(
    autojump_clock: MockClock,
) -> None:  # though it has the same name, and its tools read the same

    def started_by(*command: str, timeout: float = 9.0) -> Config:
        spec = ServerSpec(name="faq", command=command, timeout=timeout)
        return config("faq.*", mcp=McpConfig(remember=False, servers=(spec,)))

    async with scripted(FakeServer(), started_by("files@1")) as runtime:
        assert await runtime.wait_ready(within=5)
        runtime.host.approve("faq.echo")
        await runtime.reload(started_by("files@1", timeout=8.0))
        assert runtime.host.approvals.agreed == {"faq.echo"}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, runtime, "hi")
            await wait_all_tasks_blocked()
            nursery.start_soon(runtime.reload, started_by("files@2"))
            await trio.sleep(1)  # the one that was approved still serves
            assert runtime.host.approvals.agreed == {"faq.echo"}
        assert runtime.host.approvals.agreed == set()
        assert runtime.host.approvals.held == set()


async def test_a_server_that_is_another_is_not_taken_for_one_that_changed(
    autojump_clock: MockClock,
) -> None:  # as after a restart

    def started_by(command: str) -> Config:
        spec = ServerSpec(name="faq", command=(command,))
        return config("faq.echo", mcp=McpConfig(remember=False, servers=(spec,)))

    server = FakeServer()
    async with scripted(server, started_by("files@1")) as runtime:
        assert await runtime.wait_ready(within=5)
        (tool,) = listing("echo").tools
        server.tools = ToolListing(({**tool, "description": "Echoes twice."},))
        await runtime.reload(started_by("files@2"))
        assert runtime.host.approvals.held == set()
        server.tools = listing("echo")
        assert server.changed is not None
        server.changed()
        await trio.sleep(1)
        assert runtime.host.approvals.held == {"faq.echo"}


async def test_another_list_of_the_same_length_is_taken_over(
    autojump_clock: MockClock,
) -> None:
    before, after = with_rules("echo", "sleep"), with_rules("sleep", "refuse")
    async with scripted(FakeServer(), before) as runtime:
        await runtime.reload(after)
        assert _of(runtime, "faq") == {"sleep", "refuse"}
        (row,) = runtime.servers()
        assert row.tools == ("sleep", "refuse")


async def test_a_group_is_not_taken_that_a_server_has_from_this_very_moment(
    autojump_clock: MockClock,
) -> None:
    async with scripted(FakeServer(), config()) as runtime:
        runtime.add_server(ServerSpec(name="faq", command=("x",)))
        with pytest.raises(NameCollision, match="'faq' is a server's name"):
            runtime.register(Ran().tool("mine", group="faq"))


def _of(runtime: Runtime, group: str) -> set[str]:
    found = runtime.host.snapshot.listings
    return {x.definition.name for x in found if x.definition.group == group}


# ------------------------------------------------------------- real servers


@asynccontextmanager
async def serving(chosen: Any, **more: Any) -> AsyncGenerator[Runtime]:
    with trio.fail_after(LIMIT):
        async with open_runtime(chosen, wait_for_servers=LIMIT, **more) as runtime:
            yield runtime


def with_servers(*servers: ServerSpec, **more: Any) -> Config:
    names = [f"{spec.name}.whisper" for spec in servers]
    return config(*names, mcp=McpConfig(servers=servers), tiers=PATIENT, **more)


@pytest.mark.border
async def test_an_unchanged_server_keeps_its_process_a_removed_one_ends() -> None:
    # A44, G42
    async with serving(with_servers(seer(), seer(name="old"))) as runtime:
        stays, goes = pid_of(runtime, "seer"), pid_of(runtime, "old")
        done = await runtime.reload(with_servers(seer(), seer(name="new")))
        assert (done.added, done.removed, done.changed) == (("new",), ("old",), ())
        assert "old.whisper" not in runtime.host.snapshot.by_key
        assert await runtime.wait_ready(within=LIMIT)
        assert pid_of(runtime, "seer") == stays
        assert "new.whisper" in runtime.host.snapshot.by_key
        await _until(lambda: is_dead(goes, within=0))


@pytest.mark.border
async def test_a_changed_server_is_replaced_without_a_gap() -> None:
    # A44, D16: its successor runs before it ends
    async with serving(with_servers(seer())) as runtime:
        old = pid_of(runtime, "seer")
        ends: list[Status] = []

        async def call_on() -> None:
            while True:
                end = await runtime.host.execute("seer.whisper")
                ends.append(end.status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_on)
            done = await runtime.reload(with_servers(seer("grows")))
            assert done.changed == ("seer",)
            new = pid_of(runtime, "seer")
            assert new != old
            await _until(lambda: is_dead(old, within=0))
            nursery.cancel_scope.cancel()
        assert set(ends) == {Status.OK}
        assert [row.state for row in runtime.servers()] == [ServerState.READY]
    assert is_dead(new)


@pytest.mark.border
async def test_a_changed_server_that_does_not_start_is_visible() -> None:
    async with serving(with_servers(seer())) as runtime:
        await runtime.reload(with_servers(seer("exits")))
        (row,) = runtime.servers()
        assert row.state is not ServerState.READY
        assert any("exited with status 3" in w.text for w in runtime.warnings)
        await runtime.reload(with_servers(seer()))  # and back again
        assert runtime.servers()[0].state is ServerState.READY
        assert (await runtime.host.execute("seer.whisper")).ok


@pytest.mark.border
async def test_a_reload_tries_failed_servers_again_at_once(tmp_path: Path) -> None:
    # what was wrong may be outside of the configuration, and is mended now
    script = tmp_path / "seer.py"
    spec = ServerSpec(
        name="seer",
        command=("python", str(script), "-"),
        restart=RestartConfig(backoff=0.01, max_restarts=0),
    )
    async with serving(with_servers(spec)) as runtime:
        await _until(lambda: runtime.servers()[0].state is ServerState.FAILED)
        script.write_text(SEER.read_text())
        done = await runtime.reload(with_servers(spec))
        assert (done.tried_again, done.changed) == (("seer",), ())
        assert runtime.servers()[0].state is ServerState.READY
        assert (await runtime.reload(with_servers(spec))).tried_again == ()


@pytest.mark.border
async def test_a_narrower_list_of_a_changed_server_counts_at_once() -> None:
    # D16
    async with serving(with_servers(seer())) as runtime:
        only = attrs.evolve(seer("mute", start_timeout=LIMIT), allow=("whisper",))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.reload, with_servers(only))
            await _until(lambda: "seer.ponder" not in runtime.host.snapshot.by_key)
            assert "seer.whisper" in runtime.host.snapshot.by_key
            nursery.cancel_scope.cancel()


def write(path: Path, *servers: ServerSpec, tools: str = "roll") -> None:
    lines = ["npcs:", f"  - {{name: Bo, tools: [{tools}]}}", "mcp:", "  servers:"]
    lines += [f"    {spec.name}: {{command: {list(spec.command)}}}" for spec in servers]
    half = path.with_suffix(".half")
    half.write_text("\n".join([*lines, "    {}" if not servers else ""]))
    half.replace(path)  # as editors do


@pytest.mark.border
async def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    # A44: also the .mcp.json that was not there before
    path = tmp_path / "table.yaml"
    write(path, seer())
    async with serving(path, watch=True, approve_servers=True) as runtime:
        write(path, seer(), seer(name="second"))
        await _until(lambda: len(runtime.servers()) == 2)
        command = '{"command": "python", "args": ["x.py"]}'
        (tmp_path / ".mcp.json").write_text(f'{{"mcpServers": {{"third": {command}}}}}')
        await _until(lambda: len(runtime.servers()) == 3)
        write(path)
        await _until(lambda: len(runtime.servers()) == 1)


@pytest.mark.border
async def test_in_code_only_what_the_user_has_agreed_to_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # D14a
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "table.yaml"
    write(path, seer())
    entry = json.dumps({"command": "python", "args": [str(SEER), "-"]})
    entries = f'{{"theirs": {entry}, "others": {entry}}}'
    (tmp_path / ".mcp.json").write_text(f'{{"mcpServers": {entries}}}')
    async with serving(path) as runtime:
        assert [row.name for row in runtime.servers()] == ["seer"]
        left_out = [x.text for x in runtime.warnings if x.server == "configuration"]
        assert left_out == [
            f"{name!r} is left out: it is not agreed to yet:"
            " glyphoxa mcp trust agrees to it, or open_runtime(approve_servers=...)"
            " decides @ .mcp.json"
            for name in ("theirs", "others")
        ]
    async with serving(path, approve_servers=lambda x: x.name == "theirs") as runtime:
        assert [row.name for row in runtime.servers()] == ["seer", "theirs"]
        await runtime.reload()
        assert [row.name for row in runtime.servers()] == ["seer", "theirs"]
    # A Config that was loaded before is no way round the question.
    async with serving(load_config(path)) as runtime:
        assert [row.name for row in runtime.servers()] == ["seer"]
        await runtime.reload(load_config(path))
        assert [row.name for row in runtime.servers()] == ["seer"]
    # What the user has agreed to by command is started, as long as it is the same.
    trust = [sys.executable, "-c", "from glyphoxa_trio.cli import main; main()"]
    trust += ["mcp", "trust", "theirs", "--yes"]
    done = await trio.run_process(trust, cwd=tmp_path, capture_stdout=True)
    assert b"theirs may be started" in done.stdout
    async with serving(path) as runtime:
        assert [row.name for row in runtime.servers()] == ["seer", "theirs"]
    async with serving(path, approve_servers=False) as runtime:
        assert [row.name for row in runtime.servers()] == ["seer"]
    changed = entries.replace(', "-"', ', "--"')
    (tmp_path / ".mcp.json").write_text(f'{{"mcpServers": {changed}}}')
    async with serving(load_config(path)) as runtime:
        assert [row.name for row in runtime.servers()] == ["seer"]


@pytest.mark.border
async def test_a_file_that_cannot_serve_is_a_warning_and_the_old_one_goes_on(
    tmp_path: Path,
) -> None:  # D16
    path = tmp_path / "table.yaml"
    write(path)
    async with serving(path, watch=True) as runtime:
        write(path, tools="rol")
        await _until(lambda: bool(runtime.warnings))
        (warning,) = runtime.warnings
        assert warning.server == "configuration"
        assert warning.text.startswith("not reloaded, the old one goes on: ")
        assert "did you mean roll" in warning.text
        assert runtime.npc("Bo").config.tools == ("roll",)
        write(path, tools="roll, rules")
        await _until(lambda: runtime.npc("Bo").config.tools == ("roll", "rules"))


async def test_a_refused_reload_that_a_program_asks_for_is_told_in_the_log_too(
    autojump_clock: MockClock,
) -> None:
    told: list[ServerWarning] = []
    async with open_runtime(config("roll"), on_warning=told.append) as runtime:
        with pytest.raises(ConfigError, match="did you mean roll"):
            await runtime.reload(config("rol"))
    (warning,) = told
    assert warning.text.startswith("not reloaded, the old one goes on: ")
    assert "did you mean roll" in warning.text


async def test_a_reload_names_what_it_changed_besides_servers(
    autojump_clock: MockClock,
) -> None:
    bo, al = NpcConfig(name="Bo", tools=("roll",)), NpcConfig(name="Al")
    slow = attrs.evolve(bo, tools=("roll", "rules"), budget_tier=Tier.DEEP)
    trusting = TrustConfig(allow_tools=("faq.*",))
    calm = {"dice.roll": ToolOverride(min_tier=Tier.STANDARD)}
    async with open_runtime(config(npcs=(bo, al))) as runtime:
        assert (await runtime.reload(config(npcs=(bo, al)))).keys == ()
        done = await runtime.reload(config(npcs=(slow,), trust=trusting, tools=calm))
        assert set(done.keys) == {
            "npcs[Bo].tools",
            "npcs[Bo].budget_tier",
            "npcs[Al]",
            "trust.allow_tools",
            "tools.dice.roll",
        }
        line = changes(plain(done))
        assert "keys: npcs[Bo].budget_tier, npcs[Bo].tools, npcs[Al], " in line
        again = await runtime.reload(config(npcs=(slow,), trust=trusting, tools=calm))
        assert changes(plain(again)) == "reloaded; nothing has changed"


@pytest.mark.border
async def test_a_source_that_fails_in_any_way_is_a_warning(tmp_path: Path) -> None:
    watched, broken = tmp_path / "watched", False

    def source() -> Config:
        if broken:
            raise KeyError("it is not ours")
        return config("roll")

    async with serving(source, watch=[watched]) as runtime:
        broken = True
        watched.touch()
        await _until(lambda: bool(runtime.warnings))
        assert "not reloaded, the old one goes on: 'it is" in runtime.warnings[0].text
        broken = False
        assert (await runtime.reload()).generation == 2


@pytest.mark.border
async def test_a_signal_reloads(tmp_path: Path) -> None:  # A44
    path = tmp_path / "table.yaml"
    write(path)
    async with serving(path, reload_on=[signal.SIGHUP]) as runtime:
        write(path, tools="rules")
        os.kill(os.getpid(), signal.SIGHUP)
        await _until(lambda: runtime.npc("Bo").config.tools == ("rules",))


@pytest.mark.border
async def test_a_runtime_may_be_left_whenever_a_signal_reloads_it(
    tmp_path: Path,
) -> None:
    """Found: a reload that had just ended waited for a signal of a closed receiver."""
    path = tmp_path / "table.yaml"
    for steps in range(12):
        write(path)
        async with serving(path, reload_on=[signal.SIGHUP]) as runtime:
            write(path, tools="rules")
            os.kill(os.getpid(), signal.SIGHUP)
            while runtime.npc("Bo").config.tools != ("rules",):
                await trio.lowlevel.checkpoint()
            for _ in range(steps // 2):
                await trio.lowlevel.checkpoint()


async def test_a_configuration_that_was_handed_in_has_no_file_to_read_again() -> None:
    async with serving(config("roll")) as runtime:
        with pytest.raises(ConfigError, match="cannot be read again"):
            await runtime.reload()
    with pytest.raises(ValueError, match="watch=True needs a configuration file"):
        async with open_runtime(config("roll"), watch=True):
            pass


async def _until(condition: Callable[[], bool]) -> None:
    """The border to other processes and files: nothing there tells us when."""
    while not condition():  # noqa: ASYNC110
        await trio.sleep(0.01)


async def test_a_ceiling_that_is_lowered_in_mid_turn_leaves_it_its_tier_and_time(
    autojump_clock: MockClock,
) -> None:
    # Its calls go on; slower ones than the new ceiling permits begin no more.
    def answer(request: LLMRequest) -> list[Any]:
        asked = sum(x.role == "tool" for x in request.messages)
        return [call(("slow", "slower")[asked])] if asked < 2 else ["Well."]

    def tool_of(name: str) -> Tool:
        async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
            await trio.sleep(2.0)
            return ToolResult(text=("done",))

        definition = ToolDefinition(name=name, group="own", estimated_duration=2.0)
        return Tool(definition=definition, handler=handler)

    def chosen(tier: Tier) -> Config:
        return config("own", npc={"budget_tier": tier})

    tools, model = map(tool_of, ("slow", "slower")), ScriptedLLM(answer)
    async with open_runtime(chosen(Tier.DEEP), tools=tools, llm=model) as runtime:
        async with trio.open_nursery() as nursery:

            async def lower() -> None:
                await trio.sleep(1.0)
                await runtime.reload(chosen(Tier.FAST))

            nursery.start_soon(lower)
            heard = await ask(runtime.npc("Bo"), "Hello", tier=Tier.DEEP)
        (done,), (begun,) = heard.of(TurnDone), heard.of(TierSelected)
        assert (begun.tier, done.tier) == (Tier.DEEP, Tier.DEEP)
        assert [x.status for x in done.outcomes] == [Status.OK, Status.SKIPPED]
        assert done.timings.tools == 2.0
        later = await ask(runtime.npc("Bo"), "Hello", tier=Tier.DEEP)
        assert later.only(TurnDone).tier is Tier.FAST
