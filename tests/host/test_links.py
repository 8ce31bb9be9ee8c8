"""An answer that links to a resource, and who is told what reads it (N1, D5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from trio.testing import MockClock

from glyphoxa_trio.host import ToolHost, open_host
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.gate import Availability, Grant, TrustMode
from glyphoxa_trio.tools.outcome import ToolResult

from .fakes import fake, fan_out

READY = Availability.READY
HINT = "mcp__world__read_resource reads a linked resource by its URI."


def linking(links: tuple[str, ...] = ("map://1",), **more: Any) -> Tool:
    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        return ToolResult(text=("[link: A map, map://1]",), links=links)

    fields: dict[str, Any] = {"group": "world", "external": True, "read_only": True}
    fields |= {"estimated_duration": 0.01} | more
    return Tool(definition=ToolDefinition(name="find", **fields), handler=handler)


def world(find: Tool, *names: str) -> list[Tool]:
    others = [fake(name, group="world", external=True) for name in names]
    return [find, *(attrs.evolve(tool, reads_resources=True) for tool in others)]


async def told(host: ToolHost, *tools: str, **more: Any) -> tuple[str, str]:
    """What may be spoken, and what the model reads."""
    grant = Grant(npc="Bo", tools=tools, **more)
    (end,) = await fan_out(host, "world.find", grant=grant)
    assert end.ok, end
    return end.message, end.data


@pytest.mark.parametrize(
    ("tools", "trust", "is_told"),
    [
        (("world.find", "world.read_resource"), TrustMode.LIMITED, True),
        (("world",), TrustMode.FULL, True),
        (("world.*",), TrustMode.FULL, True),
        (("world.find",), TrustMode.FULL, False),  # not granted
        (("world.find", "world"), TrustMode.LIMITED, False),  # not approved
    ],
)
async def test_whoever_may_read_is_told_what_reads(
    autojump_clock: MockClock,
    tools: tuple[str, ...],
    trust: TrustMode,
    is_told: bool,
) -> None:
    async with open_host() as host:
        host.publish("world", READY, world(linking(), "read_resource"))
        said = await told(host, *tools, trust=trust)
        link = "[link: A map, map://1]"
        expected = f"{link}\n{HINT}" if is_told else link
        assert said == (expected, expected)


async def test_a_kept_answer_tells_each_what_is_true_of_it(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        find = linking(cacheable=60)
        host.publish("world", READY, world(find, "read_resource"))
        assert HINT not in (await told(host, "world.find"))[0]
        assert HINT in (await told(host, "world.find", "world.read_resource"))[0]
        assert HINT not in (await told(host, "world.find"))[0]


async def test_without_links_or_without_a_reader_nothing_is_said(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        everything = ("world.find", "world.read_resource")
        host.publish("world", READY, world(linking(links=()), "read_resource"))
        assert HINT not in (await told(host, *everything))[0]
        host.publish("world", READY, world(linking()))
        assert "reads what" not in (await told(host, *everything))[0]


async def test_a_tool_of_the_server_itself_with_that_name_is_not_the_reader(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        own = fake("read_resource", group="world", external=True)
        host.publish("world", READY, [linking(), own])
        said = await told(host, "world.find", "world.read_resource")
        assert "reads what" not in said[0]
