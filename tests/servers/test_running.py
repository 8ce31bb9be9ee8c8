"""Calls of tools that run as shared tasks: limits, handlers that resist, threads, bugs.

Virtual time, exact, but for the handlers that need threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
import trio.testing

from glyphoxa_trio import tool
from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.servers.dispatch import (
    ASKED,
    IN_LINE,
    LONGEST_CALL,
    Client,
    ClientRequest,
    Dispatch,
)
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.outcome import ToolResult


@tool(group="t", max_duration_ms=200)
async def resist(seconds: float) -> str:
    """Does not stop when it is told to."""
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
    return "late"


@tool(group="t")
async def dawdle() -> str:
    """Never ends, and has no limit."""
    await trio.sleep_forever()
    return ""


@tool(group="t")
async def who_asks() -> str:
    """Knows who asked."""
    return ASKED.get().client.session


@tool(group="t", max_duration_ms=60_000)
def who_asks_from_a_thread() -> str:
    """Knows who asked, too."""
    return ASKED.get().client.session + threading.current_thread().name[:4]


@tool(group="t")
async def crash() -> str:
    """Has a bug."""
    raise KeyError("hunter2")


def odd(result: Any) -> Tool:
    """A handler that returns what none should."""

    async def handler(arguments: Mapping[str, Any], context: object) -> ToolResult:
        return result  # type: ignore[no-any-return]

    return attrs.evolve(dawdle, handler=handler)


async def call(dispatch: Dispatch, name: str, **arguments: Any) -> Mapping[str, Any]:
    params = {"name": name, "arguments": arguments}
    return await dispatch.answer(
        ClientRequest(
            method="tools/call",
            params=params,
            client=Client(session="s"),
            channel=None,  # type: ignore[arg-type]  # nobody here tells anything
        )
    )


def code_of(answer: Mapping[str, Any]) -> str:
    assert answer["isError"]
    code: str = answer["structuredContent"]["error"]["code"]
    return code


@asynccontextmanager
async def dispatching(*tools: Tool) -> AsyncGenerator[Dispatch]:
    async with trio.open_nursery() as nursery:
        yield Dispatch(ServerDefinition(name="t", tools=tools), SharedTasks(nursery))
        nursery.cancel_scope.cancel()


async def test_a_handler_that_resists_is_refused_beyond_two_until_it_stops(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with dispatching(resist) as dispatch:
        for _ in range(2):
            assert code_of(await call(dispatch, "resist", seconds=9)) == (
                "DeadlineExceeded"
            )
        began = trio.current_time()
        assert began == pytest.approx(2 * (0.2 + IN_LINE))
        await trio.sleep(0.2)  # they are given a moment to stop
        assert code_of(await call(dispatch, "resist", seconds=9)) == "Unavailable"
        assert trio.current_time() == pytest.approx(began + 0.2)
        await trio.sleep(9)
        assert code_of(await call(dispatch, "resist", seconds=9)) == "DeadlineExceeded"


async def test_who_leaves_a_call_waits_for_nobody(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with dispatching(resist) as dispatch:
        with trio.move_on_after(0.1) as scope:
            await call(dispatch, "resist", seconds=9)
        assert scope.cancelled_caught
        assert trio.current_time() == pytest.approx(0.1)


async def test_a_tool_without_a_limit_has_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with dispatching(dawdle) as dispatch:
        assert code_of(await call(dispatch, "dawdle")) == "DeadlineExceeded"
        assert trio.current_time() == LONGEST_CALL


async def test_a_handler_knows_who_asked_wherever_it_runs() -> None:
    async with dispatching(who_asks, who_asks_from_a_thread) as dispatch:
        said = await call(dispatch, "who_asks")
        assert said["content"][0]["text"] == "s"
        said = await call(dispatch, "who_asks_from_a_thread")
        assert said["content"][0]["text"].startswith("s")


async def test_a_bug_is_logged_once_with_where_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with dispatching(crash) as dispatch:
        answer = await call(dispatch, "crash")
    assert code_of(answer) == "Internal"
    assert "hunter2" not in str(answer)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "t.crash crashed"
    assert record.exc_info is not None


@pytest.mark.parametrize("result", [None, "text", 7, {"a": 1}, object()])
async def test_a_handler_that_returns_no_result_is_a_bug(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with dispatching(odd(result)) as dispatch:
        assert code_of(await call(dispatch, "dawdle")) == "Internal"
        assert len(caplog.records) == 1


async def test_a_schema_that_is_broken_is_a_bug_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "strong"}}}
    definition = attrs.evolve(dawdle.definition, parameters=parameters)
    broken = attrs.evolve(dawdle, definition=definition)
    async with dispatching(broken) as dispatch:
        dispatch.warm()
        assert code_of(await call(dispatch, "dawdle", a=1)) == "Internal"


async def test_the_end_of_the_server_ends_a_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    answers: list[Mapping[str, Any]] = []

    async def ask() -> None:
        answers.append(await call(dispatch, "dawdle"))

    async with trio.open_nursery() as nursery:
        async with dispatching(dawdle) as dispatch:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
    assert [code_of(answer) for answer in answers] == ["Unavailable"]
