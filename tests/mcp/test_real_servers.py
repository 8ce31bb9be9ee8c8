"""Servers as people run them, on the SDK: our examples, a public one, the web.

Each costs a second of CPU to start, so a test shows several things.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest

import trio

from glyphoxa_trio.config import RestartConfig, ServerSpec
from glyphoxa_trio.mcp import ServerState, open_server_pool
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.definition import ConnectionLost
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier

from .support import SERVERS, TAVERN, Watcher, gone

LIMIT = 90.0  # seconds; no test that passes comes near it

READY, RESTARTING = ServerState.READY, ServerState.RESTARTING


@pytest.mark.border
async def test_our_examples_and_a_public_server_work_together() -> None:
    # A1, N1, N3
    # G2, G42, N17, N18, N20, N28
    watcher = Watcher()
    specs = [
        ServerSpec(
            name="ledger",
            command=("python", str(TAVERN / "ledger.py")),
            start_timeout=LIMIT,
        ),
        ServerSpec(
            name="oracle",
            command=("python", str(TAVERN / "oracle.py")),
            env={"ORACLE_DELAY": Secret("0.2")},
            start_timeout=LIMIT,
        ),
        ServerSpec(
            name="time",
            command=(str(Path(sys.executable).parent / "mcp-server-time"),),
            start_timeout=LIMIT,
        ),
    ]
    with trio.fail_after(LIMIT):
        async with open_server_pool(
            specs, publish=watcher.publish, warn=watcher.warn
        ) as fleet:
            assert await fleet.wait_ready(LIMIT)
            pids = [row.pid for row in fleet.status()]
            assert watcher.warnings == []

            # What they say of themselves.
            ledger, oracle = watcher.tools("ledger"), watcher.tools("oracle")
            definition = ledger["read_tab"].definition
            assert definition.read_only
            assert (definition.estimated_duration, definition.max_duration) == (
                0.01,
                0.2,
            )
            assert not ledger["add_to_tab"].definition.read_only
            assert not ledger["open_tab"].definition.idempotent  # a foreign word
            assert definition.parameters["required"] == ["patron"]
            seen = oracle["consult"].definition
            assert (seen.estimated_duration, seen.cacheable) == (0.2, 300)
            assert oracle["vision"].definition.estimated_duration == 0.6
            assert watcher.tools("time")["convert_time"].definition.read_only

            # A round at the bar.
            assert (await watcher.call("ledger", "read_tab", patron="Bo")).is_error
            await watcher.call("ledger", "open_tab", patron="Bo")
            await watcher.call(
                "ledger", "add_to_tab", patron="bo", item="ale", copper=3
            )
            await watcher.call(
                "ledger", "add_to_tab", patron="BO", item="pie", copper=5
            )
            tab = await watcher.call("ledger", "read_tab", patron="Bo")
            assert tab.structured == {
                "patron": "Bo",
                "items": ["ale", "pie"],
                "copper": 8,
            }
            refused = await watcher.call(
                "ledger", "add_to_tab", patron="Bo", item="ale", copper=-3
            )
            assert refused.is_error

            # The same question has the same answer.
            answers: list[str] = []

            async def consult(question: str) -> None:
                result = await watcher.call("oracle", "consult", question=question)
                answers.append(result.text[0])

            async with trio.open_nursery() as nursery:
                for question in ("Will it rain?", "will it  RAIN?", "Who?", "Where?"):
                    nursery.start_soon(consult, question)
            assert len(answers) == 4
            assert len(set(answers)) < 4

            zone = await watcher.call("time", "get_current_time", timezone="UTC")
            assert zone.structured["timezone"] == "UTC"
            unknown = await watcher.call("time", "get_current_time", timezone="Mars")
            assert unknown.is_error
        for pid in pids:  # A43
            assert pid is not None
            await gone(pid)


def test_the_oracles_own_delay_puts_its_tools_into_slower_tiers() -> None:
    # As the file says: by default one tool is STANDARD, the other DEEP.
    assert DEFAULT_LIMITS.tier_of(0.8) is Tier.STANDARD
    assert DEFAULT_LIMITS.tier_of(0.8 * 3) is Tier.DEEP


@attrs.define(eq=False)
class Web:
    """The server of ``servers/web.py``; ``lines`` are what it says of requests."""

    _nursery: trio.Nursery
    port: int = 0
    lines: list[str] = attrs.field(factory=list)
    _process: trio.Process | None = None
    _moved: trio.Event = attrs.field(factory=trio.Event)

    async def start(self) -> None:
        """Start it, again on the same port."""
        self._process = await trio.lowlevel.open_process(
            [sys.executable, str(SERVERS / "web.py"), str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.lines.clear()
        self._nursery.start_soon(self._read, self._process)
        await self.until(lambda: bool(self.lines))
        self.port = int(self.lines.pop(0))

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            with trio.CancelScope(shield=True):
                await self._process.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._moved.wait()

    async def until_it_says(self, line: str, times: int = 1) -> None:
        await self.until(lambda: self.lines.count(line) >= times)

    async def _read(self, process: trio.Process) -> None:
        buffer = b""
        assert process.stdout is not None
        async for chunk in process.stdout:
            *lines, buffer = (buffer + chunk).split(b"\n")
            self.lines += [line.decode() for line in lines]
            self._moved.set()
            self._moved = trio.Event()


@asynccontextmanager
async def web_server() -> AsyncGenerator[Web]:
    async with trio.open_nursery() as nursery:
        web = Web(nursery)
        try:
            await web.start()
            yield web
        finally:
            await web.kill()
            nursery.cancel_scope.cancel()


# The SDK leaves a response's stream before its end without closing the generators
# of httpx2 and httpcore2; trio closes them, and says so.
@pytest.mark.border
@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
async def test_a_server_on_the_web_in_both_protocol_families() -> None:
    # N4, N6
    # G2, G28: the token and the headers are on POST, GET and DELETE
    watcher = Watcher()
    servers = {"new": "/mcp", "old": "/old/mcp"}

    async def lost(server: str) -> None:
        with pytest.raises(ConnectionLost):
            await watcher.call(server, "hang")

    with trio.fail_after(LIMIT):
        async with web_server() as web:
            specs = [
                ServerSpec(
                    name=name,
                    url=f"http://127.0.0.1:{web.port}{path}",
                    token=Secret("a-token"),
                    headers={"X-Table": Secret("seven")},
                    restart=RestartConfig(backoff=0.1, max_restarts=99),
                    timeout=LIMIT,
                    start_timeout=LIMIT,
                )
                for name, path in servers.items()
            ]
            async with open_server_pool(
                specs, publish=watcher.publish, warn=watcher.warn
            ) as fleet:
                assert await fleet.wait_ready(LIMIT)
                for server in servers:
                    result = await watcher.call(server, "echo", text="hi")
                    assert result.text == ("hi",)
                await web.until_it_says("GET /old/mcp Bearer a-token seven")

                # A caller who leaves stops the work at the server (T6).
                for count, server in enumerate(servers, 1):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(partial(watcher.call, server, "hang"))
                        await web.until_it_says("hanging", count)
                        nursery.cancel_scope.cancel()
                    await web.until_it_says("cancelled", count)

                # The tools change (T10).
                await watcher.call("new", "grow")
                await watcher.until(lambda: "grown" in watcher.tools("new"))
                assert (await watcher.call("new", "grown")).text == ("grown",)

                # It dies with calls in flight, which it works on at the same time
                # (G26): all of them fail (T2) ...
                async with trio.open_nursery() as nursery:
                    for server in servers:
                        nursery.start_soon(lost, server)
                    await web.until_it_says("hanging", 4)
                    await web.kill()
                await watcher.until(
                    lambda: {watcher.state(name) for name in servers} == {RESTARTING}
                )
                # ... and a call that comes meanwhile waits for it (D5).
                async with trio.open_nursery() as nursery:
                    for server in servers:
                        nursery.start_soon(
                            partial(watcher.call, server, "echo", text="later")
                        )
                    await web.start()
                assert {row.state for row in fleet.status()} == {READY}

                # It is replaced while nobody looks. The new one refuses the old
                # one's session, so it may be called over a new one.
                await web.kill()
                await web.start()
                result = await watcher.call("old", "echo", text="again")
                assert result.text == ("again",)
            # At the end; one more for the session that was refused, unless its loss was
            # noticed while there was nobody to tell.
            await web.until_it_says("DELETE /old/mcp Bearer a-token seven")
            requests = [line for line in web.lines if "/mcp" in line]
            assert {line.split()[0] for line in requests} == {"POST", "GET", "DELETE"}
            assert all(line.endswith("Bearer a-token seven") for line in requests)
