"""``glyphoxa check --model``: whether the model answers, how fast, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from glyphoxa_trio.testing.http_server import (
    ReceivedRequest,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.testing.model_kinds import KINDS, open_strict_server

from .support import beside, run, written


def checked(path: Path) -> CompletedProcess[str]:
    return run("check", path, "--model")


def config(folder: Path, base_url: str, **llm: str) -> Path:
    keys = {"provider": "ollama", "model": "m", "base_url": base_url} | llm
    return written(folder, npcs=[{"name": "Bo"}], llm=keys)


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
