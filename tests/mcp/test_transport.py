"""The ways to a server: environment, process, pipes, HTTP border, handshake.

Loopback and real processes only; no sleep stands for a condition; every wait
has a bound.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ConnectionFailed, ServerSession, open_session, starts
from glyphoxa_trio.mcp.bounds import MOST_TOOLS
from glyphoxa_trio.mcp.descendants import NAME
from glyphoxa_trio.mcp.framing import Framing
from glyphoxa_trio.mcp.http import BROKEN, NEVER_SENT, open_client
from glyphoxa_trio.mcp.listing import paginate
from glyphoxa_trio.mcp.process import (
    ENDING,
    KEPT_LINES,
    LONGEST_LINE,
    LastLines,
    command_line,
    environment,
)
from glyphoxa_trio.mcp.starts import Start
from glyphoxa_trio.mcp.stdio import unread
from glyphoxa_trio.mcp.transport import Busy, NeverSent
from glyphoxa_trio.secret import Mask, Secret
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    ConnectionLost,
    ToolError,
    ToolUnavailable,
)

from .support import SERVERS, gone, is_gone, plain

LIMIT = 60.0  # seconds; no test that passes comes near it

# ------------------------------------------------------- what needs no server


@pytest.mark.border
def test_importing_the_room_does_not_import_the_sdk() -> None:  # D27
    code = (
        "import glyphoxa_trio.mcp, sys\n"
        "heavy = {'mcp', 'mcp_types', 'httpx2', 'pydantic', 'anyio', 'jsonschema_rs'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_server_sees_the_safe_list_and_its_own() -> None:  # D15, A39
    host = {
        "PATH": "/bin",
        "HOME": "/h",
        "LANG": "C",
        "LC_ALL": "C",
        "TMPDIR": "/t",
        "TZ": "UTC",
        "API_KEY": "sk",
        "USER": "u",
        "PYTHONPATH": "/x",
    }
    seen = environment({"TOKEN": Secret("tok"), "TZ": Secret("CET")}, host)
    assert seen == {
        "PATH": "/bin",
        "HOME": "/h",
        "LANG": "C",
        "LC_ALL": "C",
        "TMPDIR": "/t",
        "TZ": "CET",
        "TOKEN": "tok",
    }


def test_a_bare_python_is_the_one_that_runs_us() -> None:
    assert command_line(("python", "x.py")) == [sys.executable, "x.py"]
    assert command_line(("python3", "-V")) == [sys.executable, "-V"]
    assert command_line(("/usr/bin/python", "x")) == ["/usr/bin/python", "x"]


def test_a_bare_glyphoxa_is_the_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert command_line(("glyphoxa", "serve")) == ["glyphoxa", "serve"]  # none there
    (tmp_path / "glyphoxa").touch()
    assert command_line(("glyphoxa", "-v")) == [str(tmp_path / "glyphoxa"), "-v"]
    assert command_line(("./glyphoxa",)) == ["./glyphoxa"]


def test_last_lines_are_few_short_printable_and_keep_no_secret() -> None:  # A39, A41
    kept = LastLines(Mask.of(["sesame-9"]))
    kept.feed(b"first\n" * 100)
    assert kept.lines == ("first",) * KEPT_LINES
    kept.feed(b"open sesame-9 now\n\x1b[31mred\x07\n" + b"x" * 10_000_000)
    kept.feed(b"y" * 10 + b"\nhalf a l")
    kept.feed(b"ine")
    kept.finish()
    assert kept.lines[-4:] == (
        "open [secret] now",
        "[31mred",
        "x" * LONGEST_LINE,
        "half a line",
    )


def test_a_line_from_elsewhere_does_not_mix_with_one_that_is_not_finished() -> None:
    kept = LastLines(Mask.of(["sesame-9"]))
    kept.feed(b"half a ")
    kept.note(b"stdout: the word is sesame-9\x1b[2J " + b"x" * 10_000_000)
    kept.feed(b"line\n")
    assert kept.lines[0].startswith("stdout: the word is [secret][2J xxx")
    assert len(kept.lines[0]) == LONGEST_LINE
    assert kept.lines[1] == "half a line"
    kept.note(b"ses\x1bame-9")  # which a terminal would show as one word
    assert kept.lines[2] == "[secret]"


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_lines_do_not_depend_on_how_they_arrive(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    kept, messages = LastLines(), Framing()
    found: list[bytes] = []
    for start, end in pairwise(places):
        kept.feed(data[start:end])
        found += [x for x in messages.feed(data[start:end]) if type(x) is bytes]
    kept.finish()
    texts = (part.decode(errors="replace") for part in data.split(b"\n"))
    clean = ["".join(filter(str.isprintable, text)).rstrip() for text in texts]
    assert kept.lines == tuple([text for text in clean if text][-KEPT_LINES:])
    assert found == [line for line in data.split(b"\n")[:-1] if line.strip()]


async def test_a_chatty_server_is_logged_four_lines_a_second(
    autojump_clock: MockClock,
) -> None:  # A41
    logged: list[str] = []
    kept = LastLines(log=logged.append)
    kept.feed(b"line\n" * 1000)
    assert len(logged) == 20
    await trio.sleep(2)
    kept.feed(b"line\n" * 1000)
    assert len(logged) == 28
    await trio.sleep(3600)
    kept.feed(b"line\n" * 1000)
    assert len(logged) == 48


def _page(first: int, count: int, cursor: str | None) -> types.ListToolsResult:
    tools = [
        types.Tool(name=f"t{number}", input_schema={"type": "object"})
        for number in range(first, first + count)
    ]
    return types.ListToolsResult(tools=tools, next_cursor=cursor)


def _pages(
    page: Callable[[int], types.ListToolsResult],
) -> tuple[Callable[[str | None], Awaitable[types.ListToolsResult]], list[str | None]]:
    asked: list[str | None] = []

    async def fetch(cursor: str | None) -> types.ListToolsResult:
        await trio.lowlevel.checkpoint()
        asked.append(cursor)
        return page(len(asked))

    return fetch, asked


async def test_all_pages_are_read_in_order() -> None:  # siblings.md: 003, fault 8
    fetch, asked = _pages(lambda n: _page(n * 10, 10, f"c{n}" if n < 3 else None))
    listing = await paginate(fetch)
    assert [tool["name"] for tool in listing.tools] == [f"t{n}" for n in range(10, 40)]
    assert (asked, listing.warnings) == ([None, "c1", "c2"], ())


async def test_a_cursor_that_does_not_advance_is_the_end() -> None:
    fetch, asked = _pages(lambda n: _page(n, 1, "again"))
    listing = await paginate(fetch)
    assert len(asked) == 2
    assert "does not end" in listing.warnings[0]


async def test_a_list_of_empty_pages_ends_too() -> None:
    fetch, asked = _pages(lambda n: _page(0, 0, f"c{n}"))
    listing = await paginate(fetch)
    assert len(asked) < 300
    assert "does not end" in listing.warnings[0]


async def test_a_thousand_tools_are_enough() -> None:
    fetch, _ = _pages(lambda n: _page(n * 300, 300, f"c{n}"))
    listing = await paginate(fetch)
    assert len(listing.tools) == MOST_TOOLS
    assert "more than 1000 tools" in listing.warnings[0]
    fetch, _ = _pages(lambda n: _page(0, 1000, None))
    assert (await paginate(fetch)).warnings == ()


# ------------------------------------------------------------------ over pipes


def scripted(script: dict[str, Any]) -> ServerSpec:
    """The server of ``servers/scripted.py``, with its script."""
    command = ("python", str(SERVERS / "scripted.py"), json.dumps(script))
    return ServerSpec(name="scripted", command=command)


MODERN: dict[str, Any] = {
    "initialize": {"error": {"code": -32601, "message": "no such method"}},
    "server/discover": {
        "result": {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": True}},
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "public",
        }
    },
}
MALFORMED: list[Any] = [
    {"name": "first", "inputSchema": {"type": "object"}},
    {"name": "schemaless"},
    {"name": "odd", "inputSchema": {"type": "object"}, "annotations": 7},
    {"name": 7, "inputSchema": {"type": "object"}},
    "not even a tool",
    None,
    {"name": "last", "inputSchema": {"type": "object"}},
]
GOOD = ["first", "schemaless", "odd", "last"]
LEFT_OUT = {  # by name, and a word about where it is wrong
    "odd": ", and this is ignored: annotations: ",
    "7": " and left out: name: is not a text",
    "not even a tool": " and left out: it is not an object",
    "None": " and left out: it is not an object",
}


def _are_left_out(warnings: Sequence[str]) -> bool:
    return len(warnings) == len(LEFT_OUT) and all(
        warning.startswith(f"the tool {name!r} is malformed{why}")
        for warning, (name, why) in zip(warnings, LEFT_OUT.items(), strict=True)
    )


@asynccontextmanager
async def opened(
    spec: ServerSpec, stderr: LastLines | None = None, changed: list[int] | None = None
) -> AsyncGenerator[ServerSession]:
    def on_tools_changed() -> None:
        if changed is not None:
            changed.append(1)

    with trio.fail_after(LIMIT):
        async with open_session(
            spec, on_tools_changed=on_tools_changed, stderr=stderr or LastLines()
        ) as session:
            yield session


def _text(answer: Any) -> str:
    text = answer["content"][0]["text"]
    assert isinstance(text, str)
    return text


@pytest.mark.border
async def test_a_session_over_stdio_lists_and_calls() -> None:  # G2, N18, N20
    async with opened(plain()) as session:
        listing = await session.list_tools()
        assert [tool["name"] for tool in listing.tools][:2] == ["echo", "hang"]
        answer = await session.call_tool("echo", {"say": "hé"}, {})
        assert json.loads(_text(answer)) == {"say": "hé"}
        meta = {"glyphoxa/remaining_ms": 250}
        answer = await session.call_tool("what_meta", {}, meta)
        assert json.loads(_text(answer)) == meta
        assert not await session.ping()  # it does not know what that is
        pid = session.pid
        assert pid is not None
        assert not is_gone(pid)
    await gone(pid)


@pytest.mark.border
async def test_a_ping_is_answered() -> None:
    async with opened(hostile.server("good")) as session:
        assert await session.ping()


@pytest.mark.border
async def test_the_newer_protocol_family_is_spoken_too() -> None:
    async with opened(plain("modern")) as session:
        assert len((await session.list_tools()).tools) == 8
        assert _text(await session.call_tool("echo", {}, {})) == "{}"


@pytest.mark.border
async def test_what_is_no_message_is_kept_beside_stderr_and_otherwise_ignored() -> None:
    said = LastLines()  # siblings.md: 003, fault 5
    async with opened(plain("garbage"), said) as session:
        assert len((await session.list_tools()).tools) == 8
        assert _text(await session.call_tool("echo", {}, {})) == "{}"
    assert "stdout: warming up ..." in said.lines
    assert not any("\x1b" in line for line in said.lines)


@pytest.mark.border
async def test_a_server_has_its_environment_and_directory_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # D15, A39
    monkeypatch.setenv("HOST_SECRET", "do not tell")
    logged: list[str] = []
    said = LastLines(Mask.of(["sesame-9"]), logged.append)
    spec = plain("tells", cwd=tmp_path, env={"GATE": Secret("sesame-9")})
    async with opened(spec, said) as session:
        await session.list_tools()
    (line,) = logged
    seen = json.loads(line)
    assert seen["cwd"] == str(tmp_path)
    assert seen["env"]["GATE"] == "[secret]"
    assert "HOST_SECRET" not in seen["env"]
    allowed = {"PATH", "HOME", "LANG", "LANGUAGE", "TMPDIR", "TZ", "GATE"}
    extra = {name for name in seen["env"] if not name.startswith("LC_")} - allowed
    assert extra <= {"PWD", NAME}  # an interpreter may add its own; the last is ours


@pytest.mark.border
async def test_a_server_without_a_list_of_tools_has_none() -> None:
    async with opened(plain("unlisted")) as session:
        listing = await session.list_tools()
        assert (listing.tools, listing.warnings) == ((), ("it offers no tools",))


@pytest.mark.border
async def test_a_list_without_end_is_cut_and_said() -> None:
    async with opened(plain("endless")) as session:
        assert "does not end" in (await session.list_tools()).warnings[0]


@pytest.mark.border
@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (plain("exits"), "exited with status 3"),
        (plain("mute", start_timeout=0.2), "no handshake within 200 ms"),
        (plain("floods", start_timeout=10), "a line of more than 16 MB"),
        (
            ServerSpec(name="x", command=("/no/such/program",)),
            "cannot be started: .*No such file",
        ),
        (plain(cwd=Path("/no/such/place")), "cannot be started: .*/no/such/place"),
    ],
    ids=["exits", "mute", "floods", "no program", "no directory"],
)
async def test_a_server_that_cannot_start_says_why(spec: ServerSpec, why: str) -> None:
    said = LastLines()
    with pytest.raises(ConnectionFailed, match=why):  # N23
        async with opened(spec, said):
            raise AssertionError("it must not open")
    if "exits" in spec.command:
        assert said.lines == ("the cellar is flooded",)


@pytest.mark.border
async def test_one_calls_error_is_that_calls_error() -> None:  # T2
    async with opened(plain()) as session:
        with pytest.raises(ToolError, match="not with these arguments"):
            await session.call_tool("refuse", {}, {})
        assert session.loss.why is None
        assert _text(await session.call_tool("echo", {}, {})) == "{}"


@pytest.mark.border
async def test_a_killed_server_ends_its_calls_at_once() -> None:  # T2, D6
    async with opened(plain()) as session:
        await session.list_tools()
        async with trio.open_nursery() as nursery:

            async def lost() -> None:
                with pytest.raises(ConnectionLost):
                    await session.call_tool("hang", {}, {})

            nursery.start_soon(lost)
            await wait_all_tasks_blocked()  # "hang" goes out first
            with pytest.raises(ConnectionLost):
                await session.call_tool("die", {}, {})
        assert await session.loss.wait() == "was ended by SIGKILL"


@pytest.mark.border
async def test_death_is_noticed_although_a_child_holds_the_pipe_open() -> None:  # T8
    async with opened(plain()) as session:
        child = int(_text(await session.call_tool("spawn", {}, {})))
        assert session.pid is not None
        os.kill(session.pid, signal.SIGKILL)
        assert await session.loss.wait() == "was ended by SIGKILL"
    await gone(child)


@pytest.mark.border
async def test_no_child_of_a_server_is_left_behind() -> None:  # T8
    async with opened(plain()) as session:
        child = int(_text(await session.call_tool("spawn", {}, {})))
    await gone(child)


@pytest.mark.border
async def test_a_server_that_hears_no_more_is_noticed_by_the_next_call() -> None:
    async with opened(plain()) as session:
        await session.list_tools()
        await session.call_tool("blind", {}, {})

        async def lost() -> None:
            with pytest.raises(NeverSent, match="closed its stdin"):
                await session.call_tool("echo", {}, {})

        async with trio.open_nursery() as nursery:
            for _ in range(4):  # one is written, the others wait to be
                nursery.start_soon(lost)
        assert session.loss.why == "closed its stdin"
        assert session.pid is not None
        assert not is_gone(session.pid)  # it was noticed before the process was ended


@pytest.mark.border
async def test_a_start_beside_others_tells_nothing_of_one_alone(
    mock_clock: MockClock,
) -> None:  # however long the process takes for it
    importlib.import_module("glyphoxa_trio.mcp.sdk")
    timed: list[bool] = []

    async def start(server: ServerSpec) -> None:
        async with opened(server) as session:
            timed.append(session.timed)

    await start(plain())
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(start, plain())
    with pytest.raises(ConnectionFailed):
        await start(plain("exits"))
    await start(plain())
    assert timed == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("waited", "shaking_hands", "timed"),
    [
        (0.001, 0.01, True),  # the SDK is there
        (0.001, None, True),
        (1.0, 0.01, False),  # it was up before the SDK was there
        (1.0, 0.3, True),  # it was not
        (1.0, None, False),  # by HTTP nothing begins before that
    ],
)
def test_a_start_tells_nothing_if_the_server_waited_for_the_sdk(
    waited: float, shaking_hands: float | None, timed: bool
) -> None:
    start = Start(waited=waited)
    assert start.over(shaking_hands=shaking_hands) is timed


def stop(pid: int) -> None:
    """Stop a child of ours, and return when it is."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


@pytest.mark.border
async def test_what_a_killed_server_never_read_was_never_sent(tmp_path: Path) -> None:
    # D12: so it may be sent again, also by a tool that writes. What it has read may
    # have been done.
    said = LastLines()
    async with opened(plain(), said) as session:
        await session.list_tools()
        ends: dict[str, type[Exception]] = {}

        async def call(name: str) -> None:
            try:
                await session.call_tool(name, {}, {})
            except GlyphoxaError as error:
                ends[name] = type(error)

        assert session.pid is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "hang")
            while not said.lines:  # noqa: ASYNC110
                await trio.sleep(0.01)
            stop(session.pid)
            nursery.start_soon(call, "echo")
            nursery.start_soon(call, "refuse")
            await wait_all_tasks_blocked(0.01)  # they are in its stdin
            os.kill(session.pid, signal.SIGKILL)
        assert session.loss.why == "was ended by SIGKILL"
        assert ends == {"hang": ConnectionLost, "echo": NeverSent, "refuse": NeverSent}


@pytest.mark.border
async def test_what_a_child_of_a_dead_server_may_still_read_may_be_done() -> None:
    shell = "exec 3<&0; sleep 60 <&3 & exec "  # a child that holds its stdin
    command = ("sh", "-c", shell + f"{sys.executable} {SERVERS / 'plain.py'}")
    async with opened(ServerSpec(name="parent", command=command)) as session:
        await session.list_tools()
        assert session.pid is not None
        stop(session.pid)

        async def call() -> None:
            with pytest.raises(ConnectionLost, match="SIGKILL"):
                await session.call_tool("echo", {}, {})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await wait_all_tasks_blocked(0.01)  # it is in its stdin
            os.kill(session.pid, signal.SIGKILL)


def test_bytes_are_unread_for_certain_only_when_nobody_may_read_them() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a dozen bytes")
    assert os.read(reader, 8) == b"a dozen "
    assert unread(writer) is None
    os.close(reader)
    assert unread(writer) == 5
    os.close(writer)
    assert unread(writer) is None
    with open(os.devnull, "wb") as none:
        assert unread(none.fileno()) is None


@pytest.mark.border
async def test_a_server_that_says_nothing_more_is_noticed_at_once() -> None:
    async with opened(hostile.server("closes_its_stdout")) as session:
        with pytest.raises(ConnectionLost, match="closed its stdout"):
            await session.call_tool("bad", {}, {})
        with pytest.raises(NeverSent, match="closed its stdout"):
            await session.call_tool("echo", {}, {})


@pytest.mark.border
async def test_a_server_that_stops_reading_holds_nobody_and_loses_nothing() -> None:
    # T1, D12
    ends: dict[str, str] = {}
    longer_than_a_pipe = {"text": "x" * 2**20}

    async with opened(hostile.server("stops_reading")) as session:
        await session.list_tools()

        async def call(name: str) -> None:
            try:
                await session.call_tool("echo", longer_than_a_pipe, {})
            except (NeverSent, ConnectionLost) as error:
                ends[name] = f"{type(error).__name__}: {error}"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "leaves")
            await wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "queued behind it")
            await wait_all_tasks_blocked()
            # Sixteen megabytes wait: there is no room for more, and no harm done.
            for _ in range(14):
                nursery.start_soon(call, "queued behind it")
            await wait_all_tasks_blocked()
            with pytest.raises(ToolUnavailable, match="does not read") as caught:
                await session.call_tool("echo", longer_than_a_pipe, {})
            assert caught.type is ToolUnavailable
            assert session.loss.why is None
            assert session.pid is not None
            os.kill(session.pid, signal.SIGKILL)
    assert ends == {"queued behind it": "NeverSent: was ended by SIGKILL"}


@pytest.mark.border
async def test_a_caller_who_leaves_is_heard_of_by_the_server() -> None:  # T6, G20
    heard = {"hanging": trio.Event(), "cancelled": trio.Event()}
    said = LastLines(log=lambda line: heard[line.split()[0]].set())
    async with opened(plain(), said) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "hang", {}, {})
            await heard["hanging"].wait()
            nursery.cancel_scope.cancel()
        await heard["cancelled"].wait()
    assert said.lines == ("hanging 2", "cancelled 2")


@pytest.mark.border
async def test_whatever_code_an_error_of_a_stdio_server_has_it_is_a_tools() -> None:
    for code in (types.CONNECTION_CLOSED, types.INVALID_REQUEST, NEVER_SENT, BROKEN):
        error = {"code": code, "message": "Session terminated"}
        async with opened(scripted({"tools/call": {"error": error}})) as session:
            for _ in range(2):
                with pytest.raises(ToolError, match="Session terminated"):
                    await session.call_tool("echo", {}, {})
            assert session.loss.why is None


@pytest.mark.border
@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"content": 7}, "content: "),
        ({}, "content: is missing"),
        ({"content": [{"type": "text"}]}, "content.0.text: is missing"),
        ({"content": [], "structuredContent": [1]}, "structuredContent: "),
        ({"content": [], "isError": "perhaps"}, "isError: "),
        ({"content": [{"type": "video", "data": ""}]}, "content.0.type: "),
    ],
)
async def test_a_result_that_breaks_the_protocol_is_refused(
    result: dict[str, Any], why: str
) -> None:  # D27: the SDK says what a result is
    async with opened(scripted({"tools/call": {"result": result}})) as session:
        with pytest.raises(AnswerUnusable, match=f"tools/call is not usable: {why}"):
            await session.call_tool("echo", {}, {})
        assert session.loss.why is None


@pytest.mark.border
@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"structuredContent": {"gold": 3}}, None),
        (
            {"structuredContent": {"gold": "three"}},
            r'\$\.gold: expected integer, got "three"',
        ),
        ({"structuredContent": {}}, r'\$: missing "gold"'),
        ({}, "it has no structuredContent"),
        ({"isError": True}, None),
    ],
)
async def test_a_result_is_held_against_the_schema_of_its_tool(
    result: dict[str, Any], why: str | None
) -> None:
    schema = {
        "type": "object",
        "properties": {"gold": {"type": "integer"}},
        "required": ["gold"],
    }
    counts = {"name": "count", "inputSchema": {"type": "object"}}
    script = {
        "tools/list": {"result": {"tools": [{**counts, "outputSchema": schema}]}},
        "tools/call": {"result": {"content": [], **result}},
    }
    async with opened(scripted(script)) as session:
        await session.list_tools()
        if why is None:
            answer = await session.call_tool("count", {}, {})
            assert answer == {"content": [], **result}
        else:
            with pytest.raises(ToolError, match=why):
                await session.call_tool("count", {}, {})


@pytest.mark.border
async def test_a_tool_that_asks_for_more_is_refused() -> None:
    asks = {"resultType": "input_required", "requestState": "half-way"}
    script = {**MODERN, "tools/call": {"result": asks}}
    async with opened(scripted(script)) as session:
        with pytest.raises(ToolError, match="asks for input"):
            await session.call_tool("echo", {}, {})


@pytest.mark.border
async def test_a_malformed_tool_is_left_out_and_the_others_count() -> None:
    script = {"tools/list": {"result": {"tools": MALFORMED}}}
    async with opened(scripted(script)) as session:
        listing = await session.list_tools()
        assert [tool["name"] for tool in listing.tools] == GOOD
        assert _are_left_out(listing.warnings), listing.warnings
        assert await session.list_tools() == listing  # said of each list anew


@pytest.mark.border
async def test_very_many_malformed_tools_are_counted() -> None:
    tools = [{"title": f"t{n}"} for n in range(50)]
    async with opened(
        scripted({"tools/list": {"result": {"tools": tools}}})
    ) as session:
        listing = await session.list_tools()
        assert listing.tools == ()
        assert len(listing.warnings) == 21
        assert listing.warnings[-1] == "30 more tools are left out"


@pytest.mark.border
@pytest.mark.parametrize(
    ("page", "why"),
    [({}, "tools: is missing"), ({"tools": "x"}, "tools: is not a list")],
)
async def test_a_list_that_is_none_is_refused(page: dict[str, Any], why: str) -> None:
    async with opened(scripted({"tools/list": {"result": page}})) as session:
        with pytest.raises(ConnectionFailed, match=f"to tools/list .*: {why}"):
            await session.list_tools()
        assert session.loss.why is None


@pytest.mark.border
async def test_a_changed_list_is_announced() -> None:  # T10
    changed: list[int] = []
    async with opened(plain(), changed=changed) as session:
        await session.call_tool("grow", {}, {})
        # The notification came before the answer, on the same pipe; it is handled
        # in a task of its own.
        await wait_all_tasks_blocked()
        assert changed == [1]
        assert (await session.list_tools()).tools[-1]["name"] == "grown"


@pytest.mark.border
async def test_a_changed_list_is_announced_in_the_newer_family_too() -> None:  # T10
    changed: list[int] = []
    subscribed = {"io.modelcontextprotocol/subscriptionId": "$listen"}
    done = {"content": [], "resultType": "complete"}
    script = {
        **MODERN,
        "subscriptions/listen": {
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "notifications": {"toolsListChanged": True},
                "_meta": subscribed,
            },
        },
        "tools/call": [
            {
                "method": "notifications/tools/list_changed",
                "params": {"_meta": subscribed},
            },
            {"result": done},
        ],
    }
    async with opened(scripted(script), changed=changed) as session:
        assert await session.call_tool("grow", {}, {}) == done
        await wait_all_tasks_blocked()
        assert changed


@pytest.mark.border
async def test_a_server_that_resists_is_ended_within_bounds(
    mock_clock: MockClock,
) -> None:  # A43, T8
    async with opened(plain("stubborn")) as session:
        pid = session.pid
        assert pid is not None
        mock_clock.autojump_threshold = 0.05
    assert trio.current_time() <= ENDING
    mock_clock.autojump_threshold = inf
    await gone(pid)


@pytest.mark.border
async def test_a_server_that_leaves_when_it_is_told_to_is_not_waited_for(
    mock_clock: MockClock,
) -> None:  # A43. No time passes, and so it is not told with a signal.
    async with opened(plain()) as session:
        pid = session.pid
        assert pid is not None
    assert is_gone(pid)


@pytest.mark.border
async def test_a_stopped_server_is_ended_and_holds_nobody(
    mock_clock: MockClock,
) -> None:  # T1, T8
    async with opened(plain()) as session:
        await session.list_tools()
        pid = session.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "echo", {}, {})
            await wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        assert trio.current_time() == 0
        mock_clock.autojump_threshold = 0.05
    assert trio.current_time() <= ENDING  # it obeys SIGTERM, once it runs again
    mock_clock.autojump_threshold = inf
    await gone(pid)


@pytest.mark.border
async def test_a_server_with_much_to_say_can_leave_all_the_same(
    mock_clock: MockClock,
) -> None:
    # It writes more than a pipe holds before it looks whether its stdin is closed.
    code = (
        "import sys\n"
        "print('here', file=sys.stderr, flush=True)\n"
        "for line in sys.stdin: pass\n"
        "sys.stdout.write('x' * 2**20); sys.stdout.flush()\n"
        "sys.stderr.write('y' * 2**20 + '\\nfarewell\\n')\n"
    )
    started = trio.Event()
    said = LastLines(log=lambda line: started.set())
    spec = ServerSpec(name="talks", command=("python", "-c", code), start_timeout=10)

    async def fail() -> None:
        with pytest.raises(ConnectionFailed, match="no handshake"):
            async with opened(spec, said):
                raise AssertionError("it must not open")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        await started.wait()
        await wait_all_tasks_blocked(0.01)
        mock_clock.jump(10)  # and from here on no time passes
    assert said.lines[-1] == "farewell"


@pytest.mark.border
async def test_a_cancelled_opening_leaves_no_process(tmp_path: Path) -> None:  # T8
    pids: list[int] = []
    seen = trio.Event()

    def on_line(line: str) -> None:
        pids.append(int(line))
        seen.set()

    code = "import os,sys,time; print(os.getpid(),file=sys.stderr); time.sleep(60)"
    spec = ServerSpec(name="slow", command=("python", "-c", code))
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:

            async def open_for_ever() -> None:
                async with opened(spec, LastLines(log=on_line)):
                    pass

            nursery.start_soon(open_for_ever)
            await seen.wait()
            nursery.cancel_scope.cancel()
        await gone(pids[0])


# ------------------------------------------------------------------- over HTTP


@asynccontextmanager
async def answering(*responses: bytes) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """A server that gives these raw responses in turn, the last one for ever."""
    requests: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        request = b""
        while True:
            head, mark, body = request.partition(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if mark and len(body) >= length:
                break
            if not (chunk := await stream.receive_some(65536)):
                return
            request += chunk
        requests.append(request)
        await stream.send_all(responses[min(len(requests), len(responses)) - 1])
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        port = listeners[0].socket.getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp", requests
        nursery.cancel_scope.cancel()


def response(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def rpc(result: dict[str, Any], ident: int, *headers: str) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}).encode()
    return response("200 OK", body, "Content-Type: application/json", *headers)


DISCOVERED = rpc(
    {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
    },
    1,
)


def web(url: str, **options: Any) -> ServerSpec:
    return ServerSpec(name="web", url=url, **options)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (response("401 Unauthorized"), "^HTTP 401 Unauthorized$"),
        (response("500 Oops", b"<html>"), "^HTTP 500 Oops$"),
        (response("404 Not Found"), "^HTTP 404 Not Found$"),
        (b"", "no complete answer"),
        (b"SSH-2.0-OpenSSH\r\n", "no complete answer"),
    ],
)
async def test_a_server_on_the_web_that_refuses_says_why(
    answer: bytes, why: str
) -> None:
    async with answering(answer) as (url, _):
        with pytest.raises(ConnectionFailed, match=why):
            async with opened(web(url)):
                raise AssertionError("it must not open")


@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
@pytest.mark.parametrize("kind", ["json", "events", "data"])
async def test_a_byte_order_mark_before_a_body_or_a_stream_is_ignored(
    kind: str,
) -> None:
    mark = b"\xef\xbb\xbf"
    result = {"content": [{"type": "text", "text": "said"}], "resultType": "complete"}
    told = json.dumps({"jsonrpc": "2.0", "id": 2, "result": result}).encode()
    greeted = mark + DISCOVERED.partition(b"\r\n\r\n")[2]
    if kind == "json":
        answer = response("200 OK", mark + told, "Content-Type: application/json")
    else:
        event = b"event: message\ndata: %s\n\n"
        event = mark + event % told if kind == "events" else event % (mark + told)
        answer = response("200 OK", event, "Content-Type: text/event-stream")
    first = response("200 OK", greeted, "Content-Type: application/json")
    async with answering(first, answer) as (url, _):
        async with opened(web(url)) as session:
            assert _text(await session.call_tool("echo", {}, {})) == "said"


async def test_nobody_there_is_said_so() -> None:
    with pytest.raises(ConnectionFailed, match="cannot connect"):
        async with opened(web("http://127.0.0.1:9/mcp")):
            raise AssertionError("it must not open")


async def test_a_header_that_is_not_legal_is_not_shown() -> None:  # A39
    async with answering(DISCOVERED) as (url, requests):
        with pytest.raises(ConnectionFailed) as caught:
            async with opened(web(url, token=Secret("sesame\nnine"))):
                raise AssertionError("it must not open")
        assert "sesame" not in str(caught.value)
        assert requests == []


async def test_the_token_goes_to_no_other_host() -> None:  # A39
    async with answering(DISCOVERED) as (elsewhere, stolen):
        redirect = response("307 Temporary Redirect", b"", f"Location: {elsewhere}")
        async with answering(redirect) as (url, requests):
            with pytest.raises(ConnectionFailed, match="Redirect"):
                async with opened(web(url, token=Secret("a-token"))):
                    raise AssertionError("it must not open")
            assert b"a-token" in requests[0]
        assert stolen == []


async def test_only_the_streams_of_the_server_may_be_silent_for_ever() -> None:
    patience: list[float | None] = []

    async def note(request: httpx2.Request) -> None:
        await trio.lowlevel.checkpoint()
        patience.append(request.extensions["timeout"]["read"])

    async with answering(response("200 OK")) as (url, _):
        async with open_client(web(url, timeout=2)) as client:
            client.event_hooks["request"].append(note)
            await client.post(url)
            await client.get(url)
            await client.post(url, headers={"Mcp-Method": "subscriptions/listen"})
    assert patience == [7.0, None, None]


@pytest.mark.parametrize(
    ("answer", "error", "lost"),
    [
        (response("401 Unauthorized"), ToolUnavailable, False),
        (response("503 Busy", b"", "Retry-After: 1"), Busy, False),
        (response("503 Upstream reset"), ConnectionLost, False),
        (response("408 Request Timeout"), ConnectionLost, False),
        (response("502 Bad Gateway"), ConnectionLost, False),
        (b"", ConnectionLost, False),
        (
            rpc({"content": 7}, 2),
            AnswerUnusable,
            False,
        ),
        (
            response(
                "400 Bad Request",
                b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad"}}',
                "Content-Type: application/json",
            ),
            ToolError,
            False,
        ),
        (
            response(
                "200 OK",
                b'{"jsonrpc":"2.0","id":2,"error":'
                b'{"code":-32600,"message":"Session terminated"}}',
                "Content-Type: application/json",
            ),
            NeverSent,
            True,
        ),
    ],
    ids=[
        "401",
        "503",
        "503 of a proxy",
        "408",
        "502",
        "nothing",
        "nonsense",
        "invalid params",
        "terminated",
    ],
)
async def test_what_goes_wrong_with_one_request_has_a_meaning(
    answer: bytes, error: type[Exception], lost: bool
) -> None:  # T2: by meaning, not by one code
    async with answering(DISCOVERED, answer) as (url, _):
        async with opened(web(url)) as session:
            with pytest.raises(error) as caught:
                await session.call_tool("echo", {}, {})
            assert caught.type is error
            assert (session.loss.why is not None) is lost


async def test_a_malformed_tool_is_left_out_over_http_too() -> None:
    page = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    secretive = {
        "name": "secretive",
        "inputSchema": {
            "type": "object",
            "properties": {"key": {"type": "object", "x-mcp-header": "Key"}},
        },
    }
    listed = rpc({"tools": [secretive, *MALFORMED], **page}, 2)
    async with answering(DISCOVERED, listed) as (url, _):
        async with opened(web(url)) as session:
            listing = await session.list_tools()
            assert [tool["name"] for tool in listing.tools] == GOOD
            first, *others = listing.warnings
            assert first.startswith("the tool 'secretive' is malformed")
            assert "x-mcp-header" in first
            assert _are_left_out(others), others


@pytest.mark.parametrize(
    ("answer", "lost"),
    [
        (b"", True),
        (response("502 Bad Gateway"), True),
        (response("401 Unauthorized"), False),
    ],
)
async def test_a_server_that_cannot_even_list_is_lost(
    answer: bytes, lost: bool
) -> None:
    async with answering(DISCOVERED, answer) as (url, _):
        async with opened(web(url)) as session:
            with pytest.raises(ConnectionFailed, match="no list of tools"):
                await session.list_tools()
            assert (session.loss.why is not None) is lost


async def test_a_call_that_broke_off_makes_us_look_after_the_server() -> None:
    changed: list[int] = []
    async with answering(DISCOVERED, b"") as (url, _):
        async with opened(web(url), changed=changed) as session:
            with pytest.raises(ConnectionLost):
                await session.call_tool("echo", {}, {})
            assert changed == [1]


async def test_a_session_the_server_forgot_was_never_reached() -> None:
    refused = response("400 Bad Request")
    hello = rpc(
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": {"name": "old", "version": "1"},
        },
        2,
        "Mcp-Session-Id: abc",
    )
    accepted = response("202 Accepted")
    forgot = response("404 Not Found", b"{}", "Content-Type: application/json")
    async with answering(refused, hello, accepted, forgot) as (url, requests):
        async with opened(web(url)) as session:
            with trio.fail_after(30):
                while not any(r.startswith(b"GET") for r in requests):
                    await wait_all_tasks_blocked(0.01)
            with pytest.raises(NeverSent):
                await session.call_tool("echo", {}, {})
            assert session.loss.why is not None


async def test_a_server_that_went_away_was_never_reached() -> None:
    async with trio.open_nursery() as nursery:
        up = trio.Event()
        url = ""
        scope = trio.CancelScope()

        async def once() -> None:
            nonlocal url
            with scope:
                async with answering(DISCOVERED) as (url, _):
                    up.set()
                    await trio.sleep_forever()

        nursery.start_soon(once)
        await up.wait()
        async with opened(web(url)) as session:
            scope.cancel()
            await wait_all_tasks_blocked()
            with pytest.raises(NeverSent):
                await session.call_tool("echo", {}, {})
            assert "cannot connect" in str(session.loss.why)


def test_runtimes_in_two_threads_may_start_servers_at_once() -> None:
    """Found: "Set changed size during iteration" ended a start."""

    class Other(starts.Start):
        """While it is told that it is not alone, another thread's start begins."""

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "alone" and not value:
                starts._under_way.add(third)

    other, third = Other(), starts.Start()
    starts._under_way.add(other)
    try:
        with starts.starting() as start:
            assert not start.alone
            assert not other.alone
    finally:
        starts._under_way.difference_update((other, third))
