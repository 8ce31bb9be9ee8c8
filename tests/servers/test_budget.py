"""The helper for servers: whose ``_meta`` it reads, and what it ends when."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.mcpserver import Context
from mcp.types import CallToolRequestParams
from pydantic import BaseModel, ConfigDict

import trio

from glyphoxa_trio.servers import budget, remaining_seconds, session_claim

KEY = "glyphoxa/remaining_ms"
META = {KEY: 1500, "progressToken": 7}


class OldMeta(BaseModel):
    """As the SDK had it before 2.0: a model with whatever else there was."""

    model_config = ConfigDict(extra="allow")
    progressToken: int | None = None


@pytest.mark.parametrize(
    "source",
    [
        META,
        SimpleNamespace(meta=META),
        SimpleNamespace(request_context=SimpleNamespace(meta=META)),
        SimpleNamespace(
            request_context=SimpleNamespace(meta=OldMeta.model_validate(META))
        ),
        OldMeta.model_validate(META),
        CallToolRequestParams.model_validate({"name": "x", "_meta": META}),
    ],
    ids=["mapping", "request", "context", "old context", "old meta", "params"],
)
def test_the_budget_is_read_from_whatever_holds_it(source: object) -> None:
    assert remaining_seconds(source) == 1.5


@pytest.mark.parametrize(
    "source",
    [
        None,
        {},
        "1500",
        Context(),  # outside of any request
        SimpleNamespace(request_context=None),
        SimpleNamespace(meta=None),
        CallToolRequestParams(name="x"),
        OldMeta(),
    ],
    ids=repr,
)
def test_who_says_nothing_sets_no_limit(source: object) -> None:
    assert remaining_seconds(source) is None
    assert trio.run(deadline_of, source) == math.inf


@pytest.mark.parametrize(
    "value",
    [-1, -0.5, 1e13, 10**400, math.nan, math.inf, True, "80", None, [80], {}],
    ids=lambda value: repr(value)[:12],
)
def test_nonsense_is_ignored(value: object) -> None:
    assert remaining_seconds({KEY: value}) is None
    assert trio.run(deadline_of, {KEY: value}) == math.inf


@given(st.integers(0, 10**12) | st.floats(0, 1e12))
def test_any_number_of_milliseconds_is_seconds(value: float) -> None:
    assert remaining_seconds({KEY: value}) == value / 1000


CLAIM = {"glyphoxa/session": "9f86", "glyphoxa/epoch": 3}


@pytest.mark.parametrize(
    "source",
    [CLAIM, SimpleNamespace(meta=CLAIM), OldMeta.model_validate(CLAIM)],
    ids=["mapping", "request", "old meta"],
)
def test_the_claim_of_a_session_is_read(source: object) -> None:
    assert session_claim(source) == ("9f86", 3)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"glyphoxa/epoch": x} for x in (0, -1, True, "3", 2.5, 10**400, None)),
        *({"glyphoxa/session": x} for x in ("", "x" * 65, 7, None)),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_claim_that_makes_no_sense_is_none(wrong: dict[str, Any]) -> None:
    assert session_claim(CLAIM | wrong) is None
    assert session_claim(META) is None


async def deadline_of(source: object) -> float:
    return budget(source).deadline


async def test_the_work_ends_a_margin_before_the_budget(
    autojump_clock: trio.testing.MockClock,
) -> None:
    steps: list[float] = []
    with budget(META, margin=0.25) as scope:
        while True:
            await anyio.sleep(0.5)
            steps.append(trio.current_time())
    assert scope.cancelled_caught
    assert (steps, trio.current_time()) == ([0.5, 1.0], 1.25)


async def test_work_that_is_done_in_time_is_left_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with budget(META) as scope:
        await anyio.sleep(1.25)
    assert not scope.cancelled_caught
    assert trio.current_time() == 1.25


async def test_a_budget_below_the_margin_is_over_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with budget({KEY: 10}) as scope:
        await anyio.sleep(1)
    assert scope.cancelled_caught
    assert trio.current_time() == 0


def test_it_works_under_asyncio() -> None:
    async def main() -> tuple[bool, float, float]:
        with budget({KEY: 0}) as scope:
            await anyio.sleep_forever()
        began = asyncio.get_running_loop().time()
        deadline = budget({KEY: 60_000}, margin=20).deadline - began
        return scope.cancelled_caught, deadline, budget({}).deadline

    caught, deadline, unlimited = asyncio.run(asyncio.wait_for(main(), 20))
    assert caught
    assert deadline == pytest.approx(40, abs=5)
    assert unlimited == math.inf


@pytest.mark.border
def test_the_file_itself_needs_neither_trio_nor_the_runtime() -> None:
    """Loaded by its path, as somebody would who has copied it."""
    code = (
        "import importlib.util as u, sys;"
        f"spec = u.spec_from_file_location('copied', {_path()!r});"
        "module = u.module_from_spec(spec); spec.loader.exec_module(module);"
        "assert module.remaining_seconds({'glyphoxa/remaining_ms': 80}) == 0.08;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"anyio", "attrs", "glyphoxa_trio", "mcp", "trio"} & set(
        loaded.stdout.split()
    )


def _path() -> str:
    module: Any = sys.modules[remaining_seconds.__module__]
    return str(module.__file__)
