"""``glyphoxa serve`` as a process on pipes: who may write where, and how it ends.

Real processes; each takes some tenths of a second to start, so a test shows several
things. No time is judged here: `benchmarks/serve_stdio.py` does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import open_server_pool
from glyphoxa_trio.tools.definition import ConnectionLost

from ..mcp.support import QUICKLY, Watcher
from .processes import COMMAND, LIMIT
from .support import STATELESS, LineClient

pytestmark = pytest.mark.border

TOOLS = Path(__file__).with_name("odd_tools.py")
PRINTED = b"while it is read\n"


@asynccontextmanager
async def started(
    *words: object, cwd: Path = Path("/"), **streams: Any
) -> AsyncGenerator[tuple[trio.Process, LineClient]]:
    """A server and a client of it; what it says on stderr is kept."""
    process = await trio.lowlevel.open_process(
        [str(COMMAND), "serve", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        **streams,
    )
    with trio.fail_after(LIMIT):
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            yield process, LineClient(trio.StapledStream(process.stdin, process.stdout))
        finally:
            process.kill()
            await process.wait()


async def rest(stream: trio.abc.ReceiveStream | None) -> bytes:
    assert stream is not None
    return b"".join([bytes(chunk) async for chunk in stream])


async def called(client: LineClient, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.ask("tools/call", 9, name=name, arguments=arguments)
    result: dict[str, Any] = answer["result"]
    return result


async def test_it_serves_stdin_from_anywhere_and_ends_with_it() -> None:
    # F1, F2
    async with started("dice", cwd=Path("/")) as (process, client):
        said = await client.shake_hands("2024-11-05")
        assert said["serverInfo"]["name"] == "dice"
        tools = (await client.ask("tools/list"))["result"]["tools"]
        assert "roll" in {entry["name"] for entry in tools}
        rolled = await called(client, "roll", expression="2d6+1")
        assert 3 <= rolled["structuredContent"]["total"] <= 13
        await client.hang_up()
        assert await process.wait() == 0
        assert await rest(process.stdout) == b""
        assert await rest(process.stderr) == b""


def test_the_oldest_clients_lines_are_answered_one_by_one() -> None:  # F12, F14
    lines: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2024-11-05",
                "clientInfo": {"name": "curl", "version": "0.1"},
            },
        },
        {"method": "initialized", "params": {}},
        {"id": 2, "method": "tools/list", "params": {}},
    ]
    ran = subprocess.run(
        [COMMAND, "serve", "duality"],
        input="\n".join(
            json.dumps({"jsonrpc": "2.0", **line}) for line in lines
        ),  # and nothing behind the last one
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    first, second = map(json.loads, ran.stdout.splitlines())
    assert first["result"]["protocolVersion"] == "2024-11-05"
    assert (first["id"], second["id"]) == (1, 2)
    assert ran.stderr == ""


async def test_what_others_print_does_not_get_between_the_messages() -> None:
    # F1
    async with started(TOOLS) as (process, client):
        await client.shake_hands()
        assert (await called(client, "loud"))["content"][0]["text"] == "''"
        await client.hang_up()
        assert await process.wait() == 0
        heard = await rest(process.stderr)
    for told in (b"while it is read", b"from Python", b"from C", b"from a child"):
        assert told in heard
    assert await rest(process.stdout) == b""


async def test_a_crash_is_told_to_the_operator_and_not_to_the_client() -> None:
    async with started(TOOLS) as (process, client):
        await client.shake_hands()
        answer = await called(client, "crash")
        assert answer["content"][0]["text"] == "custom.crash: KeyError"
        await client.hang_up()
        assert await process.wait() == 0
        heard = (await rest(process.stderr)).decode()
    assert f"serve {TOOLS}: custom.crash crashed\nTraceback" in heard
    assert "KeyError: 'hunter2'" in heard


async def test_nobody_needs_to_read_what_it_tells_the_operator() -> None:
    """More than any pipe holds, and the client still gets its answers."""
    async with started(TOOLS) as (process, client):
        await client.shake_hands()
        for _ in range(300):
            assert (await called(client, "crash"))["isError"]
        await client.hang_up()
        assert await process.wait() == 0


async def test_whatever_is_written_the_next_request_is_answered() -> None:
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":'
    hostile = [
        (b"[" * 200_000, None),
        (b'{"a":' * 200_000, None),
        (b"\xff\xfe\x00", None),
        (b"x" * 20 * 2**20, None),
        (head % 1 + b'{"name":"' + b"x" * 20 * 2**20 + b'"}}', 1),
        (head % 2 + b"[" * 100_000 + b"]" * 100_000 + b"}", 2),
        (head % 3 + b'{"name":"crash","arguments":NaN}}', 3),
        (head % 4 + b'{"name":"\\ud800"}}', 4),
        (head % 5 + b"3}", 5),
        (head % 6 + b'{"name":' + b"9" * 5000 + b"}}", 6),
        (head % 7 + b'{"name":"crash","arguments":{"a":1e999}}}', 7),
        (head % 8 + b'{"name":["crash"]}}', 8),
    ]
    async with started(TOOLS) as (process, client):
        await client.shake_hands()
        for line, ident in hostile:
            await client.write(line)
            answer = await client.read()
            assert (answer["id"], "error" in answer) == (ident, True), line[:80]
            assert (await client.ask("ping", 99))["result"] == {}
        # Many at once, and nobody reads until all are written.
        for _ in range(500):
            await client.write(b"[")
        for _ in range(500):
            assert (await client.read())["error"]["code"] == -32700
        await client.hang_up()
        assert await process.wait() == 0
        assert await rest(process.stderr) == PRINTED


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
async def test_a_signal_ends_it_in_order(number: signal.Signals, status: int) -> None:
    async with started(TOOLS) as (process, client):
        await client.shake_hands()
        await client.send("tools/call", 5, name="wait", arguments={})
        assert (await client.ask("ping", 6))["result"] == {}
        process.send_signal(number)
        answer = await client.read()
        assert (answer["id"], answer["error"]["code"]) == (5, -32000)
        assert await process.wait() == status
        assert await rest(process.stderr) == PRINTED


async def test_a_client_that_reads_no_more_is_an_end_and_no_accident() -> None:
    async with started(TOOLS) as (process, client):
        await client.shake_hands()
        await client.send("tools/call", 5, name="wait", arguments={})
        await client.stream.receive_stream.aclose()
        await client.send("ping", 6)
        assert await process.wait() == 0
        assert await rest(process.stderr) == PRINTED


async def test_a_handler_that_resists_does_not_keep_the_process() -> None:
    async with started(TOOLS) as (process, client):
        await client.shake_hands()
        await client.send("tools/call", 5, name="resist", arguments={})
        assert (await client.ask("ping", 6))["result"] == {}
        process.terminate()
        assert await process.wait() == 143
    async with started(TOOLS) as (process, client):
        await client.shake_hands()
        await client.send("tools/call", 5, name="block", arguments={})
        assert (await client.ask("ping", 6))["result"] == {}
        await client.hang_up()
        assert await process.wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="opens descriptors anew by /proc")
@pytest.mark.parametrize("pair", [os.pipe, os.openpty])
async def test_who_shares_its_stdin_and_stdout_is_left_as_it_was(
    pair: Callable[[], tuple[int, int]],
) -> None:
    """That they do not block would be seen by everybody who has them: a shell's
    terminal would stop working."""
    if pair is os.openpty:
        ours, theirs = os.openpty()
        reads, writes, answers, answered = theirs, ours, ours, theirs
    else:
        reads, writes = os.pipe()
        answers, answered = os.pipe()
    process = await trio.lowlevel.open_process(
        [str(COMMAND), "serve", "dice"], stdin=reads, stdout=answered
    )
    try:
        os.write(writes, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        said = b""
        with trio.fail_after(LIMIT):
            while b'"result"' not in said:
                said += await trio.to_thread.run_sync(os.read, answers, 1000)
        assert os.get_blocking(reads)
        assert os.get_blocking(answered)
    finally:
        process.kill()
        await process.wait()
        for descriptor in {reads, writes, answers, answered}:
            os.close(descriptor)


WRONG = [
    ("", "which server? There are dice, rules, "),
    ("nobody", "no server 'nobody'; there are dice, rules, "),
    ("dice --loudly", "unrecognized arguments: --loudly (see glyphoxa serve dice"),
    ("dice --trans stdio", "unrecognized arguments: --trans, did you mean --tran"),
    ("dice -trnsport=http", "--trnsport, did you mean --transport? (see glyphoxa"),
    ("dice -transport=smoke", "argument --transport: invalid choice: 'smoke'"),
    ("dice -http-addr", "argument --http-addr: expected one argument (see "),
    ("dice http", "unrecognized arguments: http (see glyphoxa serve dice --help)"),
]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *WRONG[:2],
        *(pytest.param(*pair, marks=pytest.mark.long) for pair in WRONG[2:]),
    ],
)
def test_what_is_asked_for_wrongly_is_told_in_one_line(
    words: str, said: str
) -> None:  # F3, F4
    ran = subprocess.run(
        [COMMAND, "serve", *words.split()],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("glyphoxa serve")
    assert said in line
    assert "--help)" in line


def test_without_stdin_there_is_nobody_to_serve() -> None:
    command = f"exec {COMMAND} serve dice <&-"
    ran = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr == "glyphoxa serve dice: stdin and stdout must be open\n"


def test_the_help_of_everything_names_it() -> None:
    ran = subprocess.run(
        [COMMAND, "--help"], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    assert re.search(r"(?m)^\W*serve\s", ran.stdout)


@pytest.mark.parametrize("mode", ["legacy", "auto", STATELESS])
async def test_the_sdks_client_is_served_in_each_of_its_ways(mode: str) -> None:
    server = StdioServerParameters(command=str(COMMAND), args=["serve", "dice"])
    with trio.fail_after(LIMIT):
        async with Client(server, mode=mode) as client:
            assert client.protocol_version == (
                "2025-11-25" if mode == "legacy" else STATELESS
            )
            assert client.server_info is None or client.server_info.name == "dice"
            listed = await client.list_tools()
            (roll,) = [tool for tool in listed.tools if tool.name == "roll"]
            assert roll.meta is not None
            assert roll.meta["glyphoxa/estimated_duration_ms"] < 500
            answer = await client.call_tool("roll", {"expression": "3d6"})
            assert not answer.is_error
            assert answer.structured_content is not None
            assert 3 <= answer.structured_content["total"] <= 18
            refused = await client.call_tool("roll", {"expression": 3})
            assert refused.is_error


async def test_the_sdks_session_is_told_and_asked() -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progress(
        progress: float, total: float | None, message: str | None
    ) -> None:
        told.append((progress, total, message))

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Bo"})

    server = StdioServerParameters(command=str(COMMAND), args=["serve", str(TOOLS)])
    with trio.fail_after(LIMIT):
        async with (
            stdio_client(server) as streams,
            ClientSession(*streams, elicitation_callback=elicit) as session,
        ):
            await session.initialize()
            answer = await session.call_tool("steps", {}, progress_callback=progress)
            assert not answer.is_error
            asked = await session.call_tool("ask_who", {})
            assert asked.content[0].type == "text"
            assert asked.content[0].text == "accept Bo"
    assert told == [(1.0, 2.0, "half")]


async def test_a_server_that_is_killed_under_a_call_is_there_for_the_next() -> None:
    # G15
    watcher = Watcher()
    spec = ServerSpec(
        name="odd",
        command=(str(COMMAND), "serve", str(TOOLS)),
        restart=QUICKLY,
        start_timeout=40,
    )
    with trio.fail_after(LIMIT):
        async with open_server_pool(
            [spec], publish=watcher.publish, warn=watcher.warn, log=watcher.log
        ) as fleet:
            assert await fleet.wait_ready(40)
            (row,) = fleet.status()
            assert row.pid is not None

            async def kill() -> None:
                await watcher.until(lambda: ("odd", "acting") in watcher.logged)
                os.kill(row.pid or 0, signal.SIGKILL)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(kill)
                with pytest.raises(ConnectionLost):
                    await watcher.call("odd", "act")
            again = await watcher.call("odd", "loud")
            assert again.text == ("''",)
            assert fleet.status()[0].pid != row.pid
