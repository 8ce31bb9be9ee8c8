"""What our servers answer, without any transport: tools, arguments, limits, refusals.

Virtual time, exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import trio
import trio.testing

from glyphoxa_trio import tool
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.servers.dispatch import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Client,
    ClientRequest,
    Dispatch,
    RpcError,
)
from glyphoxa_trio.tools.definition import CallContext, ToolError, ToolUnavailable


class Refusal(ToolError):
    code = "FailedPrecondition"


@tool(group="t", estimated_duration_ms=40, max_duration_ms=200, read_only=True)
async def echo(word: str, times: int = 1) -> dict[str, Any]:
    """Say it again."""
    return {"said": [word] * times}


@tool(group="t", max_duration_ms=200)
async def dawdle() -> str:
    """Never ends."""
    await trio.sleep_forever()
    raise AssertionError


@tool(group="t")
async def fail(kind: str) -> str:
    """Does not work."""
    raise {
        "refused": Refusal("there is one already"),
        "plain": ToolError("no"),
        "away": ToolUnavailable("it is away"),
        "bug": KeyError("secret"),
    }[kind]


@tool(group="t", read_only=True)
async def whose(context: CallContext) -> str:
    """Say who has the session."""
    claim = context.claim
    return "nobody" if claim is None else f"{claim.session} {claim.epoch}"


class Nobody:
    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        raise AssertionError(method)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError(method)


async def asked(method: str, **params: Any) -> Mapping[str, Any]:
    dispatch = Dispatch(ServerDefinition(name="t", tools=(echo, dawdle, fail, whose)))
    return await dispatch.answer(
        ClientRequest(method=method, params=params, client=Client(), channel=Nobody())
    )


async def called(name: str, meta: Any = None, **arguments: Any) -> Mapping[str, Any]:
    return await asked("tools/call", name=name, arguments=arguments, _meta=meta)


async def test_tools_are_listed_with_their_latencies() -> None:  # G15, G20
    first = (await asked("tools/list"))["tools"][0]
    assert first["name"] == "echo"
    assert first["description"] == "Say it again."
    assert first["inputSchema"]["required"] == ["word"]
    assert first["annotations"] == {
        "readOnlyHint": True,
        "idempotentHint": False,
        "openWorldHint": False,
    }
    assert first["_meta"] == {
        "glyphoxa/estimated_duration_ms": 40,
        "glyphoxa/max_duration_ms": 1200,  # with the way there and back
    }


async def test_an_answer_is_data_and_the_same_as_text() -> None:
    assert await called("echo", word="hm", times=2) == {
        "content": [{"type": "text", "text": '{"said": ["hm", "hm"]}'}],
        "structuredContent": {"said": ["hm", "hm"]},
    }


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [
        ("refused", "FailedPrecondition", "there is one already"),
        ("away", "Unavailable", "it is away"),
        ("bug", "Internal", "t.fail: KeyError"),
    ],
)
async def test_what_fails_has_a_code(kind: str, code: str, text: str) -> None:
    assert await called("fail", kind=kind) == {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "structuredContent": {"error": {"code": code, "message": text}},
    }


async def test_a_function_is_told_the_claim_of_its_caller() -> None:
    claim = {"glyphoxa/session": "9f86", "glyphoxa/epoch": 3}
    for meta, told in ((claim, "9f86 3"), ({}, "nobody"), (None, "nobody")):
        answer = await called("whose", meta)
        assert answer["content"] == [{"type": "text", "text": told}]


async def test_a_plain_no_is_only_words() -> None:
    assert await called("fail", kind="plain") == {
        "content": [{"type": "text", "text": "no"}],
        "isError": True,
    }


async def test_arguments_are_checked() -> None:
    answer = await called("echo", word=3)
    assert answer["isError"]
    assert answer["structuredContent"]["error"]["code"] == "InvalidArgument"
    assert "$.word" in answer["content"][0]["text"]


@pytest.mark.parametrize(
    ("awaited", "seconds"), [(None, 0.7), (5000, 0.7), (120, 0.1), (0, 0.0)]
)
async def test_a_call_ends_by_the_earliest_limit(
    autojump_clock: trio.testing.MockClock, awaited: float | None, seconds: float
) -> None:
    began = trio.current_time()
    answer = await called("dawdle", {"glyphoxa/remaining_ms": awaited})
    assert trio.current_time() - began == pytest.approx(seconds)
    assert answer["structuredContent"]["error"]["code"] == "DeadlineExceeded"


def test_two_tools_of_one_name_are_no_offer() -> None:
    with pytest.raises(ValueError, match="t: two tools have the name 'echo'"):
        ServerDefinition(name="t", tools=(echo, fail, echo))


async def test_what_is_unknown_is_an_error_of_the_protocol() -> None:
    with pytest.raises(RpcError) as unknown:
        await asked("tools/dance")
    assert unknown.value.code == METHOD_NOT_FOUND
    with pytest.raises(RpcError, match="Unknown tool: dance") as tool_unknown:
        await called("dance")
    assert tool_unknown.value.code == INVALID_PARAMS


async def _spoken(request: ClientRequest) -> Mapping[str, Any]:
    await request.progress(1, 2)
    if request.params["arguments"]["word"] == "refuse":
        raise RpcError(-32021, "it cannot be asked", {"requiredCapabilities": {}})
    if request.params["arguments"]["word"] == "dawdle":
        await trio.sleep_forever()
    return {"content": [], "resultType": "input_required"}


async def spoke(word: object, meta: Any = None) -> Mapping[str, Any]:
    """What a call brings that is answered by `ServerDefinition.calls`."""
    offer = ServerDefinition(name="t", tools=(echo,), calls={"echo": _spoken})
    params = {"name": "echo", "arguments": {"word": word}, "_meta": meta}
    asked = ClientRequest(
        method="tools/call", params=params, client=Client(), channel=Nobody()
    )
    return await Dispatch(offer).answer(asked)


async def test_a_call_may_be_answered_with_all_of_mcp() -> None:
    assert await spoke("hm") == {"content": [], "resultType": "input_required"}
    with pytest.raises(RpcError, match="cannot be asked") as refused:
        await spoke("refuse")
    assert refused.value.code == -32021
    # Its arguments are checked as those of any tool.
    assert "$.word" in (await spoke(3))["content"][0]["text"]


async def test_such_a_call_has_its_limits_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    began = trio.current_time()
    answer = await spoke("dawdle", {"glyphoxa/remaining_ms": 120})
    assert trio.current_time() - began == pytest.approx(0.1)
    assert answer["structuredContent"]["error"]["code"] == "DeadlineExceeded"
