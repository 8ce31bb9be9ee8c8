"""``glyphoxa serve npc``: real processes, the SDK's own client, and a model that is
served here."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import trio

from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.servers.builtin import npc
from glyphoxa_trio.servers.dispatch import Dispatch
from glyphoxa_trio.servers.program.command import main
from glyphoxa_trio.servers.request import Client as Asker
from glyphoxa_trio.servers.request import ClientRequest
from glyphoxa_trio.testing.model_server import (
    Fail,
    Hang,
    Pause,
    Reply,
    SayText,
    Script,
    ScriptedModelServer,
    open_model_server,
)

from .processes import COMMAND, LIMIT, over_http

KEY = "sk-the-key-of-the-inn"
PLAYERS = {"list_npcs", "say", "conversation"}
MASTERS = {"recall", "remember", "list_sessions", "end_session"}
ROOT = Path(__file__).parents[2]


def written(folder: Path, base_url: str = "", **more: Any) -> Path:
    """A configuration with two NPCs: of the offline stand-in, or of a model."""
    llm: dict[str, Any] = {"provider": "offline"}
    if base_url:
        llm = {"provider": "chat_completions", "base_url": base_url}
        llm |= {"model": "scripted", "api_key": KEY}
    config = {
        "llm": llm,
        "npcs": [
            {
                "name": "Bo Barkeep",
                "tools": ["dice"],
                "fallback": ["Say that again?"],
            },
            {"name": "Ann", "tools": ["memory"]},
        ],
        "mcp": {"state_dir": "state"},
        "memory": {"store": "kept.db"},
        "calibration": {"at_start": False},
        **more,
    }
    path = folder / "npcs.yaml"
    path.write_text(json.dumps(config))
    return path


@asynccontextmanager
async def client(transport: str, *words: str | Path) -> AsyncGenerator[Client]:
    command = ["npc", *map(str, words)]
    with trio.fail_after(LIMIT):
        if transport == "stdio":
            server = StdioServerParameters(
                command=str(COMMAND), args=["serve", *command], env={**os.environ}
            )
            async with Client(server) as found:
                yield found
        else:
            async with over_http(*command) as url, Client(url) as found:
                yield found


@attrs.define(eq=False)
class Serving:
    """The process on stdio, a line in and a line out; ``told`` is its stderr."""

    process: trio.Process
    told: bytes = b""
    _ident: int = 0

    async def write(self, tool: str, /, **arguments: Any) -> None:
        self._ident += 1
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": self._ident, "method": "tools/call"}
        assert self.process.stdin is not None
        line = json.dumps(message | {"params": params}).encode() + b"\n"
        await self.process.stdin.send_all(line)

    async def answer(self) -> dict[str, Any]:
        """The result of the last call."""
        assert self.process.stdout is not None
        read = b""
        while not read.endswith(b"\n"):
            read += await self.process.stdout.receive_some()
        result: dict[str, Any] = json.loads(read.splitlines()[-1])["result"]
        return result

    async def ended(self, number: signal.Signals | None = None) -> int:
        """The status, after a signal, or the end of its stdin."""
        assert self.process.stdin is not None
        if number is None:
            await self.process.stdin.aclose()
        else:
            self.process.send_signal(number)
        return await self.process.wait()

    async def listen(self) -> None:
        assert self.process.stderr is not None
        async for chunk in self.process.stderr:
            self.told += chunk


@asynccontextmanager
async def serving(*words: str | Path) -> AsyncGenerator[Serving]:
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    [str(COMMAND), "serve", "npc", *map(str, words)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    check=False,
                )
            )
            found = Serving(process)
            nursery.start_soon(found.listen)
            version = {"protocolVersion": "2025-11-25"}
            first = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
            first |= {"params": version}
            assert process.stdin is not None
            await process.stdin.send_all(json.dumps(first).encode() + b"\n")
            await found.answer()
            yield found


@attrs.frozen
class Answer:
    """What a tool answers, with the names of the SDK."""

    is_error: bool
    structured_content: dict[str, Any]
    content: list[dict[str, Any]]


class Mute:
    """A way back to a client that takes no notice."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError("no tool asks the client")


@attrs.frozen
class Here:
    """A client of the server in this process, which need not start."""

    dispatch: Dispatch

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Answer:
        params = {"name": name, "arguments": arguments}
        asked = ClientRequest(
            method="tools/call", params=params, client=Asker(), channel=Mute()
        )
        found: Mapping[str, Any] = await self.dispatch.answer(asked)
        return Answer(
            found.get("isError", False),
            found.get("structuredContent", {}),
            found["content"],
        )

    def tools(self) -> set[str]:
        return {x.definition.name for x in self.dispatch.offer.tools}


@asynccontextmanager
async def here(*words: str | Path) -> AsyncGenerator[Here]:
    parser = argparse.ArgumentParser()
    npc.add_options(parser)
    options = parser.parse_args([*map(str, words)])
    with trio.fail_after(LIMIT):
        async with npc.open_offer(options) as offer, trio.open_nursery() as nursery:
            yield Here(Dispatch(offer, SharedTasks(nursery)))
            nursery.cancel_scope.cancel()


async def call(asked: Client | Here, tool: str, /, **arguments: Any) -> dict[str, Any]:
    answer: Any = await asked.call_tool(tool, arguments)
    assert not answer.is_error, answer
    return dict(answer.structured_content or {})


async def refused(asked: Here, tool: str, /, **arguments: Any) -> tuple[str, str]:
    answer = await asked.call_tool(tool, arguments)
    assert answer.is_error, answer
    error = answer.structured_content["error"]
    return error["code"], error["message"]


@asynccontextmanager
async def modelled(
    folder: Path, script: Script, *words: str
) -> AsyncGenerator[tuple[Here, ScriptedModelServer]]:
    """A client of NPCs with a model that is served here."""
    async with open_model_server(script, api_key=KEY) as model:
        async with here(written(folder, model.base_url), *words) as asked:
            yield asked, model


@pytest.mark.border
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
async def test_a_player_speaks_with_an_npc(transport: str, tmp_path: Path) -> None:
    async with client(transport, written(tmp_path)) as asked:
        tools = {x.name: x for x in (await asked.list_tools()).tools}
        assert tools.keys() == PLAYERS
        assert tools["conversation"].annotations is not None
        assert tools["conversation"].annotations.read_only_hint
        assert (await call(asked, "list_npcs"))["npcs"] == [
            {"name": "Bo Barkeep", "tier": "fast"},
            {"name": "Ann", "tier": "fast"},
        ]
        told: list[str | None] = []

        async def on_progress(
            progress: float, total: float | None, message: str | None
        ) -> None:
            told.append(message)

        words = {"npc": "bo", "text": "Roll 2d1+3 for me", "speaker": "Aria"}
        done = await asked.call_tool("say", words, progress_callback=on_progress)
        said = dict(done.structured_content or {})
        assert said.pop("elapsed_ms") >= 0
        assert [x.pop("elapsed_ms") >= 0 for x in said["tools"]] == [True]
        assert said == {
            "npc": "Bo Barkeep",
            "session": "default",
            "text": "2d1+3 comes to 5.",
            "sentences": ["2d1+3 comes to 5."],
            "tools": [{"tool": "dice.roll", "status": "ok"}],
            "end": "completed",
        }
        assert told == ["2d1+3 comes to 5."]
        assert (await call(asked, "conversation", npc="Bo"))["lines"] == [
            {"speaker": "Aria", "text": "Roll 2d1+3 for me"},
            {"speaker": "Bo Barkeep", "text": "2d1+3 comes to 5."},
        ]
        # Other sessions know nothing of it.
        other = await call(asked, "conversation", npc="Bo", session="table 2")
        assert other["lines"] == []


async def test_what_is_wrong_in_a_call_is_told(tmp_path: Path) -> None:
    async with here(written(tmp_path)) as asked:
        code, text = await refused(asked, "say", npc="Bob", text="Hello!")
        assert (code, text) == ("NotFound", "no NPC 'Bob'; there are Bo Barkeep, Ann")
        code, text = await refused(asked, "say", npc="Bo", text="x" * 20_000)
        assert code == "InvalidArgument"
        code, text = await refused(asked, "say", npc="Bo", text="Hi", session="a\nb")
        assert code == "InvalidArgument"
        assert "characters that can be shown" in text
        code, text = await refused(asked, "say", npc="Bo")
        assert (code, "text" in text) == ("InvalidArgument", True)


async def test_one_npc_and_one_session_need_no_names(tmp_path: Path) -> None:
    words = ("--npc", "Bo", "--session", "mine")
    async with here(written(tmp_path), *words) as asked:
        said = await call(asked, "say", text="Roll 1d1")
        assert (said["npc"], said["session"]) == ("Bo Barkeep", "mine")
        assert (await call(asked, "conversation", npc="bo"))["lines"]
        code, text = await refused(asked, "say", npc="Ann", text="Hello!")
        assert (code, text) == ("NotFound", "no NPC 'Ann'; there is Bo Barkeep")
        code, _ = await refused(asked, "say", text="Hello!", session="another")
        assert code == "InvalidArgument"


@pytest.mark.border
async def test_a_model_that_is_away_is_told_in_character(tmp_path: Path) -> None:
    echo = Fail(401, {"error": {"message": f"no such key: {KEY}"}})
    async with open_model_server([echo]) as model:
        path = written(tmp_path, model.base_url)
        async with serving(path) as process:
            await process.write("say", npc="Bo", text="Hello!")
            said = (await process.answer())["structuredContent"]
            assert (said["text"], said["end"]) == ("Say that again?", "failed")
            assert said["note"] == "the model could not answer (authentication)"
            assert await process.ended() == 0
        told = process.told.decode()
        assert "the model failed: authentication" in told
        assert "no such key" in told
        assert KEY not in told + json.dumps(said)


async def test_a_turn_that_takes_too_long_is_cut_and_answered(tmp_path: Path) -> None:
    script: list[Reply] = [[SayText("Well, let me think.\n"), Hang()]]
    async with modelled(tmp_path, script, "--answer-within", "2") as (asked, model):
        said = await call(asked, "say", npc="Bo", text="Hello!")
        assert (said["text"], said["end"]) == ("Well, let me think.", "interrupted")
        assert said["note"] == "the time for this call, 2 s, was over"
        await model.wait_hangups(1)


@pytest.mark.border
async def test_a_call_that_is_cancelled_interrupts_the_turn(tmp_path: Path) -> None:
    script: list[Reply] = [
        [SayText("Well, let me think.\n"), Hang()],
        [SayText("Yes?")],
    ]
    async with (
        open_model_server(script, api_key=KEY) as model,
        client("stdio", written(tmp_path, model.base_url)) as asked,
    ):
        async with trio.open_nursery() as nursery:
            words = {"npc": "Bo", "text": "Hello!"}
            nursery.start_soon(asked.call_tool, "say", words)
            await model.wait_requests(1)
            nursery.cancel_scope.cancel()
        await model.wait_hangups(1)
        assert (await call(asked, "say", npc="Bo", text="Again!"))["text"] == "Yes?"


async def test_calls_of_one_npc_wait_for_each_other_up_to_a_bound(
    tmp_path: Path,
) -> None:
    script: list[Reply] = [[Pause(1.0), SayText("First.")], [SayText("Next.")]]
    ends: list[tuple[bool, str]] = []

    async with modelled(tmp_path, script) as (asked, model):

        async def say(number: int) -> None:
            words = {"npc": "Bo", "text": f"Number {number}"}
            done = await asked.call_tool("say", words)
            ends.append((done.is_error, done.content[0]["text"]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, 0)
            await model.wait_requests(1)
            for number in range(1, 12):
                nursery.start_soon(say, number)
        # One speaks, eight wait, three are too many; nobody interrupts anybody.
        no = (True, "8 calls wait for Bo Barkeep already: try again later")
        assert ends == [no] * 3 + [(False, "First.")] + [(False, "Next.")] * 8


async def test_the_game_master_sees_memory_and_sessions(tmp_path: Path) -> None:
    path = written(tmp_path)
    async with here(path, "--game-master") as asked:
        assert asked.tools() == PLAYERS | MASTERS
        fact = "The crown lies under the mill."
        await call(asked, "remember", npc="Ann", fact=fact)
        found = await call(asked, "recall", npc="Ann", query="crown")
        assert [x["fact"] for x in found["results"]] == [fact]
        assert not (await call(asked, "recall", npc="Bo", query="crown"))["results"]
        await call(asked, "say", npc="Bo", text="Roll 1d1", session="table 2")
        listed = (await call(asked, "list_sessions"))["sessions"]
        (table,) = [x for x in listed if x["session"] == "table 2"]
        assert table["npcs"] == ["Bo Barkeep"]
        ended = await call(asked, "end_session", session="table 2")
        assert ended == {"session": "table 2", "ended": True}
        code, _ = await refused(asked, "end_session", session="table 2")
        assert code == "NotFound"


async def test_the_tools_of_an_npc_have_its_gate(tmp_path: Path) -> None:
    floors = {"dice.roll_table": {"min_tier": "deep"}}
    path = written(tmp_path, tools=floors)
    async with here(path, "--npc", "Bo", "--tools") as asked:
        listed = asked.tools()
        assert listed == PLAYERS | {"roll", "roll_table"}
        assert (await call(asked, "roll", expression="3d1"))["total"] == 3
        code, text = await refused(asked, "roll", expression="nonsense")
        assert (code, "nonsense" in text) == ("tool_error", True)
        # Bo is fast, and this tool is not for fast turns.
        code, text = await refused(asked, "roll_table", table_name="wild_magic")
        assert code in ("denied", "skipped"), text


async def test_a_conversation_survives_the_end_of_the_process(tmp_path: Path) -> None:
    path = written(tmp_path)
    async with here(path) as asked:
        await call(asked, "say", npc="Bo", text="Roll 1d1")
    async with here(path) as asked:
        lines = (await call(asked, "conversation", npc="Bo"))["lines"]
        assert [x["speaker"] for x in lines] == ["player", "Bo Barkeep"]


@pytest.mark.border
@pytest.mark.parametrize(
    "how", ["eof", pytest.param("SIGTERM", marks=pytest.mark.long)]
)
async def test_it_ends_in_time_in_the_middle_of_a_turn(
    how: str, tmp_path: Path
) -> None:
    script: list[Reply] = [[SayText("Well, let me think.\n"), Hang()]]
    async with open_model_server(script, api_key=KEY) as model:
        # A server of the NPCs, which says who it is.
        pid = tmp_path / "pid"
        server = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec {COMMAND} serve dice"
        servers = [{"name": "bones", "command": ["sh", "-c", server]}]
        mcp = {"state_dir": "state", "servers": servers}
        path = written(tmp_path, model.base_url, mcp=mcp)
        async with serving(path) as process:
            await process.write("say", npc="Bo", text="Hello!")
            await model.wait_requests(1)
            status = await process.ended(None if how == "eof" else signal.SIGTERM)
            await model.wait_hangups(1)
        assert status == (0 if how == "eof" else 128 + signal.SIGTERM)
        assert "Traceback" not in process.told.decode()
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


@pytest.mark.long
@pytest.mark.border
async def test_the_demo_is_served() -> None:
    async with client("stdio", ROOT / "config" / "tavern.yaml") as asked:
        said = await call(asked, "say", npc="Greymantle", text="Roll 1d1 for me")
        assert said["tools"][0]["tool"] == "dice.roll"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "the following arguments are required: CONFIG"),
        (["gone.yaml"], "cannot be read: No such file"),
        (["wrong.yaml"], "npcs[0]"),
        (["none.yaml"], "has no NPC"),
        (["npcs.yaml", "--npc", "Bob"], "no NPC 'Bob', there is Bo Barkeep, Ann"),
        (["npcs.yaml", "--tools"], "whose? Give --npc, one of Bo Barkeep, Ann"),
        (["npcs.yaml", "--session", ""], "must be 1 to 200 characters"),
        (["npcs.yaml", "--base-url", "http://x/v1"], "give both"),
        (["npcs.yaml", "--answer-within", "0"], "--answer-within"),
    ],
)
def test_what_cannot_be_served_is_a_line(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    (tmp_path / "wrong.yaml").write_text("npcs: [{name: Bo, budget_tier: quick}]")
    (tmp_path / "none.yaml").write_text("npcs: []")
    status: Any = None
    try:
        status = main(["npc", *words])
    except SystemExit as left:  # as argparse does
        status = left.code
    assert status == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert told in line
