"""Servers whose list of tools is endless, broken, or never twice the same."""

from __future__ import annotations

from typing import Any

import pytest

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.tools.outcome import Status

from .support import FAILED, ONCE, beside

pytestmark = pytest.mark.border

GOOD = {"echo", "write", "bad"}
MOST = 1_000  # tools of one server


@pytest.mark.parametrize("cursor", ["same", "new"])
async def test_a_list_without_an_end_is_taken_as_far_as_it_is_sensible(
    cursor: str,
) -> None:
    async with beside("lists_for_ever", cursor=cursor) as table:
        assert table.tools >= GOOD
        assert len(table.tools) <= MOST
        assert table.warnings == [
            "its list of tools does not end: only its first pages are used"
        ]
        assert (await table.call("echo")).ok


async def test_the_first_of_two_tools_of_one_name_counts() -> None:
    async with beside("lists_twice") as table:
        assert table.tools == GOOD
        assert table.warnings == ["echo: offered twice, the first one counts"]
        (echo,) = [
            x.definition
            for x in table.runtime.host.tools()
            if x.definition.key == "lists_twice.echo"
        ]
        assert echo.description == "The tool echo."
        assert (await table.call("echo")).ok


async def test_a_tool_with_a_broken_schema_is_left_out_and_the_rest_is_served() -> None:
    async with beside("lists_broken_schemas") as table:
        assert table.tools >= GOOD
        assert (await table.call("echo")).ok
        for name in ("of_type", "of_reference", "of_elsewhere"):
            assert name not in table.tools
            assert any(
                w.startswith(f"{name}: left out, its inputSchema is broken")
                for w in table.warnings
            ), table.warnings
        # Whatever else was accepted can be called, and is an answer or a refusal.
        for name in sorted(table.tools - GOOD):
            outcome = await table.call(name, a={"a": {}})
            assert outcome.status in (Status.OK, Status.INVALID_ARGUMENTS), outcome


@pytest.mark.parametrize("kind", ["entry", "schema"])
async def test_entries_that_are_no_tools_cost_only_themselves(kind: str) -> None:
    async with beside("lists_nonsense", kind=kind) as table:
        assert table.tools >= GOOD, table.warnings
        assert (await table.call("echo")).ok
        assert table.warnings


async def test_names_that_are_none_cost_only_themselves() -> None:
    async with beside("lists_nonsense", kind="name") as table:
        assert table.tools >= GOOD
        assert (await table.call("echo")).ok
        exposed = [x.exposed for x in table.runtime.host.tools()]
        assert all(len(name) <= 64 and name.isidentifier() for name in exposed), exposed
        assert not any("\x1b" in text or "\n" in text for text in table.warnings)


@pytest.mark.parametrize("kind", ["list", "result"])
async def test_a_list_that_is_none_is_a_failed_start(kind: str) -> None:
    options: dict[str, Any] = {"kind": kind, "restart": ONCE}
    async with beside("lists_nonsense", **options) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert table.warnings[0].startswith("no list of tools")


async def test_of_10_000_tools_the_first_thousand_are_taken() -> None:
    async with beside("lists_many", count=10_000) as table:
        assert len(table.tools) == MOST
        assert table.tools >= GOOD
        assert table.warnings == [
            "it offers more than 1000 tools: the rest is left out"
        ]
        assert (await table.call("echo")).ok


async def test_a_list_that_changes_with_notice_is_read_again() -> None:
    async with beside("changes_its_list") as table:
        assert table.tools == GOOD | {"tool_0"}
        assert (await table.call("bad")).ok
        await table.until(lambda: table.tools == GOOD | {"tool_1"})
        gone = await table.call("tool_0")
        assert gone.status is Status.DENIED
        assert (await table.call("tool_1", say="hi")).data == {"say": "hi"}


async def test_a_list_that_changes_silently_is_served_as_it_was() -> None:
    async with beside("changes_its_list", how="silently") as table:
        assert (await table.call("bad")).ok
        assert (await table.call("tool_0")).ok  # the server still takes it
        assert table.tools == GOOD | {"tool_0"}


async def test_a_list_that_changes_under_calls_in_flight_fails_none_of_them() -> None:
    async with beside("changes_its_list") as table:
        for number in range(20):
            assert (await table.call("bad")).ok
            outcome = await table.call("echo", number=number)
            assert outcome.data == {"number": number}
        await table.until(lambda: table.tools == GOOD | {"tool_20"})
        assert table.row().restarts == 0


@pytest.mark.parametrize("what", ["description", "schema", "annotations"])
async def test_a_tool_that_changes_after_it_was_approved_is_held_back(
    what: str,
) -> None:
    bo = NpcConfig(name="Bo", tools=("pulls_the_rug.write",))
    async with beside("pulls_the_rug", what=what, npcs=(bo,)) as table:
        grant = table.runtime.npc("Bo").grant
        host = table.runtime.host
        assert (await host.execute("pulls_the_rug.write", {}, grant=grant)).ok
        assert (await table.call("bad")).ok
        await table.until(lambda: bool(table.warnings))
        outcome = await host.execute("pulls_the_rug.write", {}, grant=grant)
        assert outcome.status is Status.DENIED
        assert "has changed since it was approved" in outcome.message
        assert "pulls_the_rug.write" in table.warnings[0]


@pytest.mark.long
async def test_a_flood_of_changes_delays_nobody() -> None:
    async with beside("floods_list_changed") as table:
        await table.good_many_times()
        for number in range(2):
            outcome = await table.call("echo", number=number)
            assert outcome.data == {"number": number}
        assert table.tools == GOOD
        assert (table.row().restarts, table.warnings) == (0, [])
