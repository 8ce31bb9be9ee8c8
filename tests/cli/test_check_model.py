"""``glyphoxa check --model``: whether a model plays a turn, and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from glyphoxa_trio.testing.http_server import (
    ReceivedRequest,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.testing.model_kinds import KINDS, open_strict_server
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Fail,
    Reply,
    SayText,
    open_model_server,
)

from .support import beside, run, written


def checked(path: Path, *more: str) -> CompletedProcess[str]:
    return run("check", path, "--model", *more)


def config(folder: Path, base_url: str, *npcs: dict[str, Any], **llm: str) -> Path:
    keys = {"provider": "ollama", "model": "m", "base_url": base_url} | llm
    return written(folder, npcs=[*npcs] or [{"name": "Bo"}], llm=keys)


def vendor(folder: Path, base_url: str, *npcs: dict[str, Any]) -> Path:
    """A server whose model is not loaded by a request of its own."""
    return config(folder, base_url, *npcs, provider="chat_completions")


BO: dict[str, Any] = {"name": "Bo", "tools": ["dice.*"]}


def names(body: Any) -> list[str]:
    return [x["function"]["name"] for x in body.get("tools", ())]


def plays(body: Any) -> Reply:
    """Calls the tool that it is asked for, and says what came of it."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return SayText(f"It says: {json.loads(last['content'])['message']}")
    asked = re.search(r"Use your tool (\w+)", last["content"])
    assert asked is not None
    return CallTools([(asked[1], {"expression": "1d6"})])


@pytest.mark.border
def test_a_model_that_answers_is_timed(tmp_path: Path) -> None:
    def use(_: object) -> tuple[str, str]:
        return "look", '{"thing": "door"}'

    with beside(open_strict_server(KINDS["llama.cpp"], use)) as server:
        done = checked(config(tmp_path, server.base_url))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(
        r"m at http\S+: answers, first word after \d+ ms, all of it after \d+ ms,"
        r" and called the tool",
        done.stdout,
    )


@pytest.mark.border
def test_a_model_without_tools_is_said_to_have_none(tmp_path: Path) -> None:
    with beside(open_strict_server(KINDS["ollama"])) as server:
        done = checked(config(tmp_path, server.base_url))
    assert done.returncode == 0
    assert "accepts no tools" in done.stdout
    assert "called no tool" in done.stdout


@pytest.mark.border
def test_what_is_wrong_is_said_with_its_remedy(tmp_path: Path) -> None:
    no: Callable[[ReceivedRequest], StatusReply] = lambda request: (  # noqa: E731
        StatusReply(200, {}, {"data": [{"id": "qwen3:4b"}]})
        if request.path == "/v1/models"
        else StatusReply(404, {}, {"error": {"message": "model not found"}})
    )
    with beside(open_http_server(no)) as server:
        done = checked(config(tmp_path, f"{server.origin}/v1"))
    assert done.returncode == 1
    assert "the server does not have 'm': it has qwen3:4b" in done.stdout
    assert "ollama pull m" in done.stdout


@pytest.mark.border
def test_a_turn_is_played_with_the_npcs_own_tools_and_none_is_run(
    tmp_path: Path,
) -> None:
    with beside(open_model_server(plays)) as server:
        done = checked(vendor(tmp_path, server.base_url, BO), "--json")
        first, second = server.requests
    assert done.returncode == 0, done.stdout + done.stderr
    assert "roll" in names(first)
    assert names(second) == names(first)
    assert first["messages"][0]["content"].startswith("You are Bo,")
    call, result = second["messages"][-2:]
    assert "this is a test, and nothing was done" in result["content"].lower()
    (told,) = json.loads(done.stdout)["models"]
    name = call["tool_calls"][0]["function"]["name"]
    assert (told["npc"], told["called"], told["tool"]) == ("Bo", True, name)
    assert told["first_ms"] <= told["call_ms"] <= told["total_ms"]
    assert told["answer_ms"] <= told["total_ms"]
    assert (told["refused"], told["error"]) == ([], None)
    assert told["input_tokens"] > 0


@pytest.mark.border
def test_a_second_round_that_fails_is_a_problem(tmp_path: Path) -> None:
    def unsigned(body: Any) -> Reply:  # as Gemini 3 does
        if body["messages"][-1]["role"] == "tool":
            words = "Function call is odd in some way in position 2"
            return Fail(400, {"error": {"message": words, "code": 400}})
        return plays(body)

    with beside(open_model_server(unsigned)) as server:
        done = checked(vendor(tmp_path, server.base_url, BO))
    assert done.returncode == 1
    assert re.search(
        r"problem: m at http\S+: in the round after a call of \w+:"
        r" bad_request: HTTP 400: Function call is odd",
        " ".join(done.stdout.split()),
    )


@pytest.mark.border
def test_a_tool_that_the_server_refuses_is_named(tmp_path: Path) -> None:
    def strict(body: Any) -> Reply:
        if "roll" in names(body):
            words = "Invalid schema for function 'roll': odd"
            place = f"tools[{names(body).index('roll')}].function.parameters"
            return Fail(400, {"error": {"message": words, "param": place}})
        return plays(body) if "roll_table" in str(body["messages"]) else SayText("Hm.")

    with beside(open_model_server(strict)) as server:
        done = checked(vendor(tmp_path, server.base_url, BO), "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    (problem,) = told["problems"]
    assert "it refuses the tool 'roll'" in problem
    assert "Invalid schema for function 'roll': odd" in problem
    assert (told["models"][0]["refused"], told["models"][0]["error"]) == (
        [problem],
        None,
    )


@pytest.mark.border
def test_a_model_that_calls_nothing_is_only_reported(tmp_path: Path) -> None:
    with beside(open_model_server([SayText("I would rather not.")])) as server:
        done = checked(vendor(tmp_path, server.base_url, BO))
        assert len(server.requests) == 1
    assert done.returncode == 0
    assert "and called no tool (as Bo; " in " ".join(done.stdout.split())


@pytest.mark.border
def test_what_a_model_does_wrong_is_a_warning(tmp_path: Path) -> None:
    def wild(body: Any) -> Reply:
        return CallTools([("roll", {"n": "many"}), ("fly", {})])

    with beside(open_model_server(wild)) as server:
        done = checked(vendor(tmp_path, server.base_url, BO), "--json")
        assert len(server.requests) == 3
        assert server.requests[-1].get("tool_choice") in ("none", None)
    assert done.returncode == 0
    said = "; ".join(json.loads(done.stdout)["warnings"])
    assert "it called 'fly', which it was not shown" in said
    assert "its arguments of roll do not fit" in said
    assert "it called roll, and said nothing after the result" in said


@pytest.mark.border
def test_each_npc_with_other_tools_is_played(tmp_path: Path) -> None:
    npcs: list[dict[str, Any]] = [
        {"name": "Ann", "tools": ["dice.roll"]},
        {"name": "Bo", "tools": ["dice.roll_table"]},
        {"name": "Cy", "tools": ["dice.roll"]},
        {"name": "Dee"},
    ]
    with beside(open_model_server([SayText("No.")])) as server:
        done = checked(vendor(tmp_path, server.base_url, *npcs), "--json")
    played = [row["npc"] for row in json.loads(done.stdout)["models"]]
    assert sorted(played) == ["Ann", "Bo"]


@pytest.mark.border
def test_an_address_of_one_request_is_named_with_the_right_one(tmp_path: Path) -> None:
    with beside(open_strict_server(KINDS["llama.cpp"])) as server:
        wrong = f"{server.base_url}/chat/completions"
        done = checked(vendor(tmp_path, wrong))
    assert done.returncode == 1
    remedy = f"write base_url: {server.base_url}"
    (problem,) = [x for x in done.stdout.splitlines() if x.startswith("problem: ")]
    assert remedy in problem
    assert done.stdout.count(remedy) == 2  # the warning says it without asking
