"""A new configuration while NPCs talk: on virtual time, and with real servers."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, ConfigError, Runtime, Tier, open_runtime
from glyphoxa_trio.config import (
    BuiltinConfig,
    CalibrationConfig,
    DiceConfig,
    McpConfig,
    NpcConfig,
    SelectorConfig,
    ServerSpec,
    TurnConfig,
)
from glyphoxa_trio.errors import ActorGone
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import TierSelected, ToolsShown, TurnDone
from glyphoxa_trio.runtime import UnknownNpc
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.outcome import Status

from ..cli.support import is_dead
from ..npc.support import Ran, ScriptedLLM, call
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
        assert done.at_next_start == ("tiers", "mcp.naming")
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


def _tables(name: str) -> BuiltinConfig:
    return BuiltinConfig(dice=DiceConfig(tables={name: ("a", "b")}))


def _rolls(runtime: Runtime, table: str) -> bool:
    listing = runtime.host.snapshot.by_key["dice.roll_table"]
    return table in str(listing.definition)


# ------------------------------------------------------------- real servers


@asynccontextmanager
async def serving(chosen: Any, **more: Any) -> AsyncGenerator[Runtime]:
    with trio.fail_after(LIMIT):
        async with open_runtime(chosen, wait_for_servers=LIMIT, **more) as runtime:
            yield runtime


def with_servers(*servers: ServerSpec, **more: Any) -> Config:
    names = [f"{spec.name}.whisper" for spec in servers]
    return config(*names, mcp=McpConfig(servers=servers), tiers=PATIENT, **more)


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


async def test_a_changed_server_that_does_not_start_is_visible() -> None:
    async with serving(with_servers(seer())) as runtime:
        await runtime.reload(with_servers(seer("exits")))
        (row,) = runtime.servers()
        assert row.state is not ServerState.READY
        assert any("exited with status 3" in w.text for w in runtime.warnings)
        await runtime.reload(with_servers(seer()))  # and back again
        assert runtime.servers()[0].state is ServerState.READY
        assert (await runtime.host.execute("seer.whisper")).ok


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


async def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    # A44: also the .mcp.json that was not there before
    path = tmp_path / "table.yaml"
    write(path, seer())
    async with serving(path, watch=True) as runtime:
        write(path, seer(), seer(name="second"))
        await _until(lambda: len(runtime.servers()) == 2)
        command = '{"command": "python", "args": ["x.py"]}'
        (tmp_path / ".mcp.json").write_text(f'{{"mcpServers": {{"third": {command}}}}}')
        await _until(lambda: len(runtime.servers()) == 3)
        write(path)
        await _until(lambda: len(runtime.servers()) == 1)


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


async def test_a_signal_reloads(tmp_path: Path) -> None:  # A44
    path = tmp_path / "table.yaml"
    write(path)
    async with serving(path, reload_on=[signal.SIGHUP]) as runtime:
        write(path, tools="rules")
        os.kill(os.getpid(), signal.SIGHUP)
        await _until(lambda: runtime.npc("Bo").config.tools == ("rules",))


async def test_a_configuration_that_was_handed_in_has_no_file_to_read_again() -> None:
    async with serving(config("roll")) as runtime:
        with pytest.raises(ConfigError, match="no file to read again"):
            await runtime.reload()
    with pytest.raises(ValueError, match="watch=True needs a configuration file"):
        async with open_runtime(config("roll"), watch=True):
            pass


async def _until(condition: Callable[[], bool]) -> None:
    """The border to other processes and files: nothing there tells us when."""
    while not condition():  # noqa: ASYNC110
        await trio.sleep(0.01)
