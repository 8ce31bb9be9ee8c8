"""The reference server that does everything, over both transports (G2, N3, N4)."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest

import trio
import trio.testing

from glyphoxa_trio.config import ServerSpec, ToolOverride
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.tools.outcome import Effect, Limit, Status

from .support import NODE, QUICKLY, at_the_table, entry, node_peer

# The SDK leaves a response's stream before its end without closing the generators
# of httpx2 and httpcore2; trio closes them, and says so.
pytestmark = [
    pytest.mark.border,
    pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning"),
]

LONG = "trigger-long-running-operation"
BRIEFLY = {LONG: ToolOverride(max_duration=0.3)}


@attrs.define(eq=False)
class Web:
    """server-everything on a port of its own; ``lines`` are what it says."""

    _nursery: trio.Nursery
    port: int
    lines: list[str] = attrs.field(factory=list)
    _process: trio.Process | None = None
    _moved: trio.Event = attrs.field(factory=trio.Event)

    async def start(self) -> None:
        """Start it, again on the same port, and wait until it listens."""
        self.lines.clear()
        self._process = await trio.lowlevel.open_process(
            [str(NODE), entry("server-everything"), "streamableHttp"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PORT": str(self.port)},
        )
        self._nursery.start_soon(self._read, self._process)
        await self.until_it_says("listening on port")

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            with trio.CancelScope(shield=True):
                await self._process.wait()

    async def until_it_says(self, words: str) -> None:
        while not any(words in line for line in self.lines):
            await self._moved.wait()

    async def _read(self, process: trio.Process) -> None:
        buffer = b""
        assert process.stdout is not None
        async for chunk in process.stdout:
            *lines, buffer = (buffer + chunk).split(b"\n")
            self.lines += [line.decode() for line in lines]
            self._moved.set()
            self._moved = trio.Event()


def free_port() -> int:
    """A port that nobody has: the server cannot choose one and say which."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@asynccontextmanager
async def on_the_web() -> AsyncGenerator[tuple[Web, ServerSpec]]:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            web = Web(nursery, free_port())
            spec = ServerSpec(
                name="everything",
                url=f"http://127.0.0.1:{web.port}/mcp",
                restart=QUICKLY,
                start_timeout=30,
                tools=BRIEFLY,
            )
            try:
                await web.start()
                yield web, spec
            finally:
                await web.kill()
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def served(transport: str) -> AsyncGenerator[ServerSpec]:
    if transport == "stdio":
        yield node_peer("everything", tools=BRIEFLY)
        return
    async with on_the_web() as (_, spec):
        yield spec


both = pytest.mark.parametrize(
    "transport", [pytest.param("stdio", marks=pytest.mark.long), "streamable-http"]
)


@both
async def test_every_kind_of_answer_reaches_the_npc_as_words(transport: str) -> None:
    # G2, N1 to N4, N18 to N20, N28
    async with served(transport) as spec, at_the_table(spec) as table:
        assert table.server("everything").transport == transport
        assert [warning.text for warning in table.warnings] == [
            "simulate-research-query: left out, it can only be called as a task"
        ]
        tools = table.tools("everything")
        # Each asks something of its client that this client does not offer, and
        # says so when they shake hands.
        asking = ("trigger-sampling-request", "trigger-elicitation-request")
        assert not {*asking, "get-roots-list"} & set(tools)

        # What it says of its tools.
        assert tools["echo"].read_only
        assert not tools["echo"].idempotent  # its word is not the operator's
        assert not tools["toggle-simulated-logging"].read_only
        assert tools["echo"].parameters["required"] == ["message"]

        assert await table.answer("everything.echo", message="Prost ✓") == (
            "Echo: Prost ✓"
        )
        total = await table.answer("everything.get-sum", a=2, b=0.5)
        assert total == "The sum of 2 and 0.5 is 2.5."
        weather = await table.answer(
            "everything.get-structured-content", location="Chicago"
        )
        assert set(weather) == {"temperature", "conditions", "humidity"}

        # What is no text becomes a placeholder, with what there is to know of it.
        image = "[image: image/png, 4 kB]"
        assert image in await table.answer("everything.get-tiny-image")
        noted = await table.answer(
            "everything.get-annotated-message", messageType="error", includeImage=True
        )
        assert noted.splitlines() == ["Error: Operation failed", image]
        links = await table.answer("everything.get-resource-links", count=2)
        assert links.splitlines()[1:] == [
            "[link: Blob Resource 1, demo://resource/dynamic/blob/1]",
            "[link: Text Resource 2, demo://resource/dynamic/text/2]",
            "mcp__everything__read_resource reads a linked resource by its URI.",
        ]
        text = await table.answer(
            "everything.get-resource-reference", resourceType="Text", resourceId=1
        )
        assert "This is a plaintext resource" in text
        blob = await table.answer(
            "everything.get-resource-reference", resourceType="Blob", resourceId=1
        )
        assert "Resource 1: This is a base64 blob" in blob

        # What it links to, and what it offers to read beside.
        uri = "demo://resource/dynamic/text/2"
        linked = await table.answer("everything.read_resource", uri=uri)
        assert "Resource 2: This is a plaintext resource" in linked
        uri = "demo://resource/dynamic/blob/1"
        linked = await table.answer("everything.read_resource", uri=uri)
        assert "Resource 1: This is a base64 blob" in linked
        offered = (await table.answer("everything.list_resources"))["structured"]
        assert {entry["uri"] for entry in offered["templates"]} == {
            "demo://resource/dynamic/text/{resourceId}",
            "demo://resource/dynamic/blob/{resourceId}",
        }
        uri = next(x["uri"] for x in offered["resources"] if "features" in x["uri"])
        page = await table.answer("everything.read_resource", uri=uri)
        assert "Everything" in page
        none = await table.call("everything.read_resource", uri="demo://nothing")
        assert none.status is Status.TOOL_ERROR

        # What it does not take is never sent, or refused in its own words.
        wrong = await table.call("everything.echo", message={"a": 1})
        assert wrong.status is Status.INVALID_ARGUMENTS
        none = await table.call("everything.no-such-tool")
        assert none.status is Status.DENIED
        assert table.server("everything").restarts == 0


@pytest.mark.alone
@both
async def test_a_long_operation_is_cut_left_or_finished(transport: str) -> None:
    # G2, N20, N28
    async with served(transport) as spec, at_the_table(spec) as table:
        done = await table.answer(f"everything.{LONG}", duration=0.05, steps=5)
        assert done.endswith("Duration: 0.05 seconds, Steps: 5.")

        # Its limit is met; what comes later finds nobody and disturbs nobody.
        cut = await table.call(f"everything.{LONG}", duration=0.6, steps=6)
        assert (cut.status, cut.limit) == (Status.TIMEOUT, Limit.TOOL)
        assert cut.effect is Effect.NONE  # it only reads

        # Somebody stops waiting.
        async with trio.open_nursery() as nursery:
            call = partial(table.call, f"everything.{LONG}", duration=0.6, steps=2)
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()

        # Eight at once, while the server is still busy with the two of before.
        answers: set[str] = set()

        async def echo(word: str) -> None:
            answers.add(await table.answer("everything.echo", message=word))

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(echo, str(number))
        assert answers == {f"Echo: {number}" for number in range(8)}
        assert table.server("everything").restarts == 0


async def test_a_stdio_server_sees_only_what_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # N3, N28
    monkeypatch.setenv("TABLE_API_KEY", "not-for-servers")
    spec = node_peer("everything", env={"GIVEN": "to-this-one"})
    async with at_the_table(spec) as table:
        seen = await table.answer("everything.get-env")
        assert seen["GIVEN"] == "to-this-one"
        assert "TABLE_API_KEY" not in seen
        assert "not-for-servers" not in str(seen)


@pytest.mark.long
async def test_a_web_server_that_is_replaced_is_found_again_by_the_next_call() -> None:
    # G2, N4, N20, N28
    async with on_the_web() as (web, spec), at_the_table(spec) as table:
        assert await table.answer("everything.echo", message="one") == "Echo: one"
        await web.until_it_says("Session initialized")

        # Nobody notices that it went and came back. The new one does not know the
        # session, says so with 400, and has done nothing: so the call, whose tool
        # is not read-only, is made again over a new session.
        await web.kill()
        await web.start()
        outcome = await table.call("everything.toggle-simulated-logging")
        assert outcome.ok, outcome
        assert table.server("everything").state is ServerState.READY
        assert await table.answer("everything.echo", message="two") == "Echo: two"

        # It dies, and a call that comes meanwhile waits for it.
        await web.kill()

        async def wait_for_it() -> None:
            echo = partial(table.call, "everything.echo", message="3")
            while not (outcome := await echo()).ok:
                # A busy machine starts it later than a call may wait.
                assert "was not sent" in outcome.message, outcome

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_it)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await web.start()

        # At the end it is told.
        await table.runtime.remove_server("everything")
        await web.until_it_says("Received session termination request")
