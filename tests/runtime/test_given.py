"""Arguments of `open_runtime`: mistakes are named before anything runs."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any, cast

import pytest

import trio

from glyphoxa_trio import Config, ConfigError, aio, open_runtime, tool
from glyphoxa_trio.aio.block import NotOnAsyncio
from glyphoxa_trio.config import McpConfig, NpcConfig
from glyphoxa_trio.npc.approval import APPROVAL_TIMEOUT
from glyphoxa_trio.runtime import NotOnTrio
from glyphoxa_trio.tools.naming import NameCollision

QUIET = Config(npcs=(NpcConfig(name="Bo"),), mcp=McpConfig(remember=False))


@tool(read_only=True)
async def toss() -> str:
    """Toss a coin."""
    return "heads"


async def plain() -> str:
    return "tails"


async def opened(config: object = QUIET, **options: Any) -> None:
    with trio.fail_after(10):
        async with open_runtime(cast("Any", config), **options):
            pass


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (
            [toss, plain],
            "got 'plain', which is not decorated: write @tool above it @ tools[1]",
        ),
        (["toss"], "expected a tool, got a str @ tools[0]"),
        (toss, "expected a list of tools, got the tool custom.toss: write [toss]"),
        (plain, "expected a list of tools, got 'plain', which is not decorated"),
    ],
)
async def test_what_is_no_tool_is_named(tools: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        await opened(tools=tools)


async def test_a_tool_that_is_given_twice_is_named_with_both_places() -> None:
    again = re.escape("custom.toss is given twice: leave one out, or")
    with pytest.raises(NameCollision, match=rf"{again}.*tools\[0\] and tools\[1\]$"):
        await opened(tools=[toss, toss])
    async with open_runtime(QUIET) as runtime:
        with pytest.raises(NameCollision, match=again):
            runtime.register(toss, toss)
        with pytest.raises(ConfigError, match="'plain', which is not decorated"):
            runtime.register(cast("Any", plain))
        runtime.register(toss)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"npcs": []}, "expected a Config, the path of a file, or a function that"),
        (
            Config(npcs=cast("Any", [{"name": "Bo"}])),
            "expected a NpcConfig, got a mapping: write NpcConfig(...) @ npcs[0]",
        ),
        (
            Config(npcs=(NpcConfig(name="Bo", tools=cast("Any", "stock")),)),
            "expected a list, got text: write ['stock'] @ npcs[0].tools",
        ),
        (lambda: {"npcs": []}, "expected a Config, the path of a file"),
    ],
)
async def test_a_configuration_that_is_none_is_refused_by_its_place(
    config: Any, said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        await opened(config)


async def test_another_configuration_is_looked_at_as_the_first_one() -> None:
    broken = Config(npcs=(NpcConfig(name="Bo", tools=cast("Any", "stock")),))
    async with open_runtime(QUIET) as runtime:
        with pytest.raises(ConfigError, match=r"expected a list, got text"):
            await runtime.reload(broken)
        assert runtime.config is QUIET


def test_from_asyncio_the_way_in_is_named() -> None:
    async def main() -> None:
        async with open_runtime(QUIET):
            raise AssertionError("it opened")

    with pytest.raises(NotOnTrio, match=r"glyphoxa_trio\.aio\.open_runtime"):
        asyncio.run(main())


def test_the_timeout_of_an_approval_is_the_one_that_npcs_know() -> None:
    """It is written twice, because importing it would import most of the package."""
    parameter = inspect.signature(open_runtime).parameters["approval_timeout"]
    assert parameter.default == APPROVAL_TIMEOUT


def test_from_asyncio_mistakes_have_the_same_words(tmp_path: Path) -> None:
    async def main(config: Any, **options: Any) -> None:
        async with aio.open_runtime(config, **options):
            raise AssertionError("it opened")

    with pytest.raises(ConfigError, match="'plain', which is not decorated"):
        asyncio.run(main(QUIET, tools=[plain]))
    with pytest.raises(ConfigError, match="expected a Config, the path of a file"):
        asyncio.run(main({"npcs": []}))


async def test_aio_from_trio_names_the_way_for_trio() -> None:
    with pytest.raises(NotOnAsyncio, match=r"glyphoxa_trio\.open_runtime from trio"):
        async with aio.open_runtime(QUIET):
            pass
