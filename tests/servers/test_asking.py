"""What a request tells its client beside the answer, and what it asks it.

In memory and on virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

import trio
import trio.testing

from glyphoxa_trio import tool
from glyphoxa_trio.servers.asking import PATIENCE
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.servers.dispatch import ASKED, ClientRequest

from .support import served


@tool(group="t")
async def step() -> str:
    """A step."""
    await ASKED.get().progress(1)
    return "done"


async def steps(request: ClientRequest) -> Mapping[str, Any]:
    await request.progress(1, 2, "m")
    return {}


async def logs(request: ClientRequest) -> Mapping[str, Any]:
    await request.log("debug", "d")
    await request.log("info", "i")
    await request.log("error", {"e": 1}, "l")
    return {}


async def asks(request: ClientRequest) -> Mapping[str, Any]:
    return {"said": await request.channel.request(request.text("method"), {})}


async def bug(request: ClientRequest) -> Mapping[str, Any]:
    raise KeyError("hunter2")


async def nan(request: ClientRequest) -> Mapping[str, Any]:
    return {"hunter2": math.nan}


async def half(request: ClientRequest) -> Mapping[str, Any]:
    return {"hunter2": chr(0xD800)}


TALKS = ServerDefinition(
    name="t",
    tools=(step,),
    methods={
        "steps": steps,
        "logs": logs,
        "asks": asks,
        "bug": bug,
        "nan": nan,
        "half": half,
    },
    capabilities={"logging": {}},
)


async def test_who_is_told_progress_asked_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(TALKS) as client:
        await client.shake_hands()
        await client.send("steps", 1)
        assert (await client.read())["id"] == 1
        await client.send("steps", 2, _meta={"progressToken": "p"})
        assert await client.read() == {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": "p", "progress": 1, "total": 2, "message": "m"},
        }
        assert (await client.read())["id"] == 2


async def test_a_handler_knows_which_request_it_answers() -> None:
    async with served(TALKS) as client:
        await client.shake_hands()
        params = {"name": "step", "arguments": {}, "_meta": {"progressToken": 9}}
        await client.send("tools/call", 1, **params)
        assert (await client.read())["params"]["progressToken"] == 9
        assert (await client.read())["id"] == 1


async def test_the_log_is_told_from_the_level_that_was_asked_for() -> None:
    async with served(TALKS) as client:
        await client.shake_hands()
        await client.send("logs", 1)
        assert (await client.read())["params"] == {"level": "info", "data": "i"}
        assert (await client.read())["params"] == {
            "level": "error",
            "data": {"e": 1},
            "logger": "l",
        }
        await client.read()
        assert (await client.ask("logging/setLevel", 2, level="error"))["result"] == {}
        await client.send("logs", 3)
        assert (await client.read())["params"]["level"] == "error"
        assert (await client.read())["id"] == 3
        wrong = await client.ask("logging/setLevel", 4, level="loud")
        assert wrong["error"]["code"] == -32602


async def test_a_client_is_asked_and_its_answer_is_what_it_said() -> None:
    async with served(TALKS) as client:
        await client.shake_hands(capabilities={"elicitation": {}})
        await client.send("asks", 1, method="elicitation/create")
        asked = await client.read()
        assert asked["method"] == "elicitation/create"
        await client.write(
            b'{"jsonrpc":"2.0","id":"%d","result":{"action":"accept"}}' % asked["id"]
        )
        assert (await client.read())["result"] == {"said": {"action": "accept"}}
        # Once more is nothing to anybody.
        await client.write(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % asked["id"])
        await client.send("asks", 2, method="elicitation/create")
        asked = await client.read()
        error = b'{"code":-1,"message":"no"}'
        await client.write(
            b'{"jsonrpc":"2.0","id":%d,"error":%b}' % (asked["id"], error)
        )
        assert (await client.read())["error"] == {"code": -1, "message": "no"}


async def test_a_client_is_not_asked_what_it_cannot() -> None:
    async with served(TALKS) as client:
        await client.shake_hands()
        answer = await client.ask("asks", 1, method="sampling/createMessage")
        assert answer["error"]["message"] == "the client has no sampling"


async def test_a_client_that_does_not_answer_is_told_to_forget_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(TALKS) as client:
        await client.shake_hands(capabilities={"roots": {}})
        await client.send("asks", 1, method="roots/list")
        asked = await client.read()
        forgotten = await client.read()
        assert trio.current_time() == PATIENCE
        assert forgotten["method"] == "notifications/cancelled"
        assert forgotten["params"]["requestId"] == asked["id"]
        assert (await client.read())["error"]["code"] == -32001
        # The same when its own request is taken back.
        await client.send("asks", 2, method="roots/list")
        asked = await client.read()
        await client.send("notifications/cancelled", requestId=2)
        assert (await client.read())["params"]["requestId"] == asked["id"]


async def test_who_hangs_up_answers_nothing_any_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(TALKS) as client:
        await client.shake_hands(capabilities={"roots": {}})
        await client.send("asks", 1, method="roots/list")
        await client.read()
        await client.hang_up()
        assert (await client.read())["error"][
            "message"
        ] == "the client has disconnected"
        assert trio.current_time() == 0


@pytest.mark.parametrize("method", ["bug", "nan", "half"])
async def test_a_bug_costs_its_request_and_says_no_secret(
    caplog: pytest.LogCaptureFixture, method: str
) -> None:
    async with served(TALKS) as client:
        await client.shake_hands()
        answer = await client.ask(method)
        assert answer["error"]["code"] == -32603
        assert "hunter2" not in str(answer)
        assert len(caplog.records) == 1
        assert (await client.ask("ping", 2))["result"] == {}
