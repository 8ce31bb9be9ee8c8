"""Nothing is called unasked that may change something, whatever a user types.

Every command of the README and every flow of the docs is run beside servers of which
each tool that may write is fatal and leaves a mark: `mines`. What only reads and is
closed-world may be called if it is granted and approved, or if the operator asks for
measurements; what reads the open world is never called unasked.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

import trio

from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    ScriptedModelServer,
    open_model_server,
)

from ..cli.support import terminal
from .field import SERVERS, Field
from .mines import TOOLS, is_mine, is_open, is_safe
from .support import LONG, PATIENCE, run, until

pytestmark = pytest.mark.border

A_WHILE: Final = 2.0  # seconds in which a start has measured what it would measure

TALK: Final = ("Good evening.", "@Glo How was your day?", "@Nam Well met, friend.")
COMMANDS: Final = ("/tools", "/tools deep", "/why", "/mcp", "/mcp named", "/servers")


OF_EACH_KIND: Final = (
    *("plain", "rno_dno_iyes_ono", "runsaid_dunsaid_iyes_ounsaid"),
    *("ryes_dyes_iyes_ono", "ryes_dno_ino_ono", "ryes_dunsaid_iyes_oyes"),
)


@attrs.frozen
class Flow:
    """Commands, one after the other, in one home. ``{table}`` is the configuration."""

    commands: Sequence[Sequence[str]]
    lines: Sequence[str] = ()
    idle: float = 0.0
    measures: bool = False  # the operator asks for measurements
    more: dict[str, Any] = attrs.field(factory=dict)
    limited: bool = False  # worth the time under limited trust in CI, too
    long: bool = False  # takes the way of another one, so not in CI
    refused: bool = False  # the command says no to it
    few: bool = False  # it takes long with hundreds of tools, and learns no more
    quick: bool = False  # stands for the others in `make border`


FLOWS: Final = {
    "play, and nobody says a word": Flow(
        [["play", "{table}"]], idle=A_WHILE, limited=True
    ),
    "play, and talk": Flow(
        [["play", "{table}", "--log-json", "log", "--metrics", "0"]],
        lines=(*TALK, *COMMANDS, *TALK),
        limited=True,
        quick=True,
    ),
    "play, and talk, for the second time": Flow([["play", "{table}"]] * 2, lines=TALK),
    "ask": Flow([["ask", "{table}", "Glo", "Good evening."]], long=True),
    "ask for every event, in a deep turn": Flow(
        [["ask", "{table}", "Nam", "Good evening.", "--json", "--tier", "deep"]],
    ),
    "tools": Flow(
        [["tools", "{table}"], ["tools", "{table}", "--npc", "Nam", "--tier", "fast"]]
    ),
    "tools, measured first": Flow([["tools", "{table}", "--calibrate"]], measures=True),
    "check": Flow([["check", "{table}"], ["check", "{table}", "--no-servers"]]),
    "calibrate": Flow([["calibrate", "{table}"]], measures=True, limited=True),
    "calibrate all, and nobody is there to say yes": Flow(
        [["calibrate", "{table}", "--all"]]
    ),
    "verify": Flow(
        [["verify", "{table}", "--evenings", "3", "--seconds", "3"]], few=True
    ),
    "simulate": Flow([["simulate", "{table}", "--turns", "20"]], few=True),
    "leaderboard and telemetry": Flow(
        [["leaderboard", "{table}"], ["telemetry", "{table}"]]
    ),
    "leaderboard, measured first": Flow(
        [["leaderboard", "{table}", "--calibrate"]], measures=True, long=True
    ),
    "record and replay": Flow(
        [
            ["play", "{table}", "--record", "evening.jsonl"],
            ["replay", "evening.jsonl"],
            ["replay", "evening.jsonl", "--config", "{table}"],
        ],
        lines=TALK,
    ),
    "mcp list": Flow([["mcp", "list", "--config", "{table}"]], quick=True),
    "mcp test": Flow(
        [["mcp", "test", name, "--config", "{table}"] for name in ("nobody", "named")],
    ),
    "status and reload, when nobody plays": Flow(
        [["status"], ["reload"]], refused=True
    ),
    "repeated measurements": Flow(
        [["play", "{table}"]],
        idle=A_WHILE,
        measures=True,
        more={"calibration": {"every_minutes": 0.01}},
    ),
    "speculation and hedging switched on": Flow(
        [["play", "{table}"]],
        lines=TALK,
        idle=A_WHILE,
        more={
            "speculation": {"enabled": True},
            "hedging": {"enabled": True, "replicas": [["globs", "named"]]},
        },
    ),
    "every tool in full view, and no memory of the last run": Flow(
        [["play", "{table}"]],
        lines=TALK,
        more={"mcp.defer_threshold": 500, "mcp.remember": False},
    ),
}


def test_the_field_has_mines_of_every_kind() -> None:  # G21, N29
    mines = [tool for tool in TOOLS if is_mine(tool)]
    assert len(TOOLS) == 1 + 3**4
    assert "plain" in mines
    assert {"ryes_dyes_iyes_ono", "rno_dno_iyes_ono", "runsaid_dno_iyes_ono"} <= {
        *mines
    }
    assert sum(map(is_safe, TOOLS)) == 6
    assert sum(map(is_open, TOOLS)) == 12


@pytest.mark.parametrize(
    ("flow", "trust"),
    [
        pytest.param(
            flow,
            trust,
            id=f"{name}-{trust}",
            marks=() if flow.quick and trust == "full" else pytest.mark.long,
        )
        for name, flow in FLOWS.items()
        for trust in ("full", "limited")
    ],
)
async def test_no_command_steps_on_a_mine(
    flow: Flow, trust: str, tmp_path: Path
) -> None:
    if not LONG and (flow.long or (trust == "limited" and not flow.limited)):
        pytest.skip("in the long form: make newcomer")
    field = Field(tmp_path, trust)
    async with open_model_server([SayText("So it is.")]) as model:
        more = dict(flow.more)
        config = field.config(llm=_llm(model))
        if flow.few and not LONG:
            for server in config["mcp"]["servers"]:
                server["allow"] = list(OF_EACH_KIND)
            config["npcs"][2]["tools"] = [f"named.{tool}" for tool in OF_EACH_KIND]
        for key in [key for key in more if key.startswith("mcp.")]:
            config["mcp"][key.removeprefix("mcp.")] = more.pop(key)
        field.write(**config | more)
        for command in flow.commands:
            words = [word.format(table=field.path) for word in command]
            plays = words[0] == "play"
            ran = await run(
                *words,
                env=field.env,
                cwd=field.home,
                lines=flow.lines if plays else (),
                idle=flow.idle if plays else 0.0,
            )
            assert "Traceback" not in ran.err, ran
            # 1 is a finding, such as that nobody can ever use a tool.
            assert ran.status in ((1, 2) if flow.refused else (0, 1)), ran
    field.judge(asked_for_all=flow.measures)
    if flow.measures:
        assert field.was_measured("named")


async def test_what_may_be_called_unasked_is_measured_at_the_start(
    tmp_path: Path,
) -> None:
    """Else the other tests would show nothing."""
    field = Field(tmp_path, "full")
    async with at_the_field(field):
        for server in ("globs", "named"):
            await until(partial(field.was_measured, server), within=60)
        await trio.sleep(0.2)
    assert field.called("nobody") == []
    field.judge()


async def test_measuring_all_asks_first_and_no_is_no(tmp_path: Path) -> None:
    field = Field(tmp_path, "full")
    field.write()

    def answer_no() -> None:
        with terminal("calibrate", field.path, "--all", env=field.env) as screen:
            screen.expect("[y/N]")
            assert not any(map(field.called, SERVERS))
            screen.type("n\r")
            screen.ends()

    with trio.fail_after(PATIENCE):
        await trio.to_thread.run_sync(answer_no)
    field.judge(asked_for_all=True)


async def test_a_named_test_calls_the_named_tool_alone(tmp_path: Path) -> None:
    field = Field(tmp_path, "limited")
    field.write()
    tool = "ryes_dno_ino_ono"
    words = ("mcp", "test", "nobody", tool, '{"path": "a"}', "--config", field.path)
    ran = await run(*words, env=field.env, cwd=field.home)
    assert (ran.status, field.called("nobody")) == (0, [tool]), ran
    field.judge(asked_for_all=True)


async def test_servers_that_are_killed_and_come_back_are_not_walked_over(
    tmp_path: Path,
) -> None:
    field = Field(tmp_path, "full")
    async with at_the_field(field) as (runtime, _):
        for _ in range(2):
            await trio.sleep(0.5)
            for row in runtime.servers():
                if row.pid is not None:
                    os.kill(row.pid, signal.SIGKILL)
            await _all_there(runtime)
            await _talk(runtime)
        await trio.sleep(0.5)
    field.judge()


@pytest.mark.long
async def test_another_configuration_while_it_runs_steps_on_nothing(
    tmp_path: Path,
) -> None:
    field = Field(tmp_path, "limited")
    async with at_the_field(field, watch=True) as (runtime, model):
        await trio.sleep(0.5)
        # The servers are other ones, and trust is larger.
        full = Field(tmp_path, "full")
        config = full.config(llm=_llm(model))
        for server in config["mcp"]["servers"]:
            server["env"] = {"ANOTHER": "one"}
        full.write(**config)
        await runtime.reload()
        await _all_there(runtime)
        await _talk(runtime)
        await trio.sleep(A_WHILE)
    full.judge()


async def test_words_that_are_not_said_yet_step_on_nothing(tmp_path: Path) -> None:
    """The model calls mines at once, on what it was told too early."""
    field = Field(tmp_path, "full")
    asked = trio.Event()

    def eager(body: Any) -> Reply:
        asked.set()
        if body["messages"][-1]["role"] == "tool":
            return SayText("So it is.")
        shown = [tool["function"]["name"] for tool in body.get("tools", ())]
        return CallTools([(name, {"path": "a"}) for name in shown if _fatal(name)][:16])

    more = {"speculation": {"enabled": True, "after_ms": 10}, **_IN_FULL_VIEW}
    async with at_the_field(field, eager, **more) as (runtime, model):
        for npc in ("Glo", "Nam"):
            words = "Please burn down the whole"
            with trio.fail_after(PATIENCE):
                while not asked.is_set():  # a busy machine does not ask each time
                    words += " house"
                    await runtime.npc(npc).hearing(words)
                    with trio.move_on_after(1):
                        await asked.wait()
            asked = trio.Event()
            await trio.sleep(0.5)
            await runtime.npc(npc).hearing("Please, no")
            await trio.sleep(0.2)
        assert len(model.requests) >= 2
    field.judge()


@pytest.mark.parametrize(
    "tool",
    ["plain", "rno_dno_iyes_ono", "runsaid_dunsaid_iyes_ounsaid", "ryes_dyes_iyes_ono"],
)
async def test_a_mine_that_an_npc_steps_on_is_stepped_on_once(
    tool: str, tmp_path: Path
) -> None:
    """Whatever it says of being called twice: it is a stranger's word. And no other
    server is tried in its place."""
    field = Field(tmp_path, "full")

    def script(body: Any) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return SayText("So it is.")
        return CallTools([(f"mcp__globs__{tool}", {"path": "a"})])

    more = {
        "hedging": {
            "enabled": True,
            "replicas": [["globs", "named"]],
            "extra_calls": 1.0,
            "min_samples": 1,
        },
        **_IN_FULL_VIEW,
    }
    async with at_the_field(field, script, **more) as (runtime, _):
        with trio.fail_after(PATIENCE):
            async with runtime.npc("Glo").say("Do it.") as turn:
                async for _event in turn:
                    pass
        await _all_there(runtime)
        await trio.sleep(0.5)
    fatal = {
        server: [called for called in field.called(server) if is_mine(called)]
        for server in SERVERS
    }
    assert fatal == {"nobody": [], "globs": [tool], "named": []}


_IN_FULL_VIEW: Final[dict[str, Any]] = {"mcp.defer_threshold": 500}


def _fatal(exposed: str) -> bool:
    return is_mine(exposed.split("__", 2)[2]) if "__" in exposed else False


def _llm(model: ScriptedModelServer) -> dict[str, Any]:
    return {
        "provider": "chat_completions",
        "model": "scripted",
        "base_url": model.base_url,
    }


@asynccontextmanager
async def at_the_field(
    field: Field, script: Any = None, *, watch: bool = False, **more: Any
) -> AsyncGenerator[tuple[Runtime, ScriptedModelServer]]:
    """A runtime in this process, with every server ready and calibration as it is."""
    async with open_model_server(script or [SayText("So it is.")]) as model:
        config = field.config(llm=_llm(model))
        for key in [key for key in more if key.startswith("mcp.")]:
            config["mcp"][key.removeprefix("mcp.")] = more.pop(key)
        field.write(**config | more)
        with trio.fail_after(PATIENCE):
            async with open_runtime(
                field.path, wait_for_servers=PATIENCE, watch=watch
            ) as runtime:
                assert await runtime.wait_ready(within=PATIENCE)
                yield runtime, model


async def _all_there(runtime: Runtime) -> None:
    await until(
        lambda: all(row.state is ServerState.READY for row in runtime.servers())
    )


async def _talk(runtime: Runtime) -> None:
    for npc in ("Nil", "Glo", "Nam"):
        async with runtime.npc(npc).say("Good evening.") as turn:
            async for _ in turn:
                pass
