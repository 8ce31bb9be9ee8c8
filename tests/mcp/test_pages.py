"""Pages of a tool list that are small, and yet made to take long; or not to be read."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import ConnectionFailed, sdk
from glyphoxa_trio.mcp.condensing import Unusable
from glyphoxa_trio.mcp.listing import paginate
from glyphoxa_trio.mcp.metadata import describe, describe_in_turn
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.transport import ToolListing
from glyphoxa_trio.testing.web_server import (
    ReceivedRequest,
    Reply,
    StatusReply,
    open_mcp_server,
    result,
)
from glyphoxa_trio.tools.fingerprint import fingerprint

LIMIT = 60.0
SPEC = ServerSpec(name="web", url="http://127.0.0.1:1/mcp")


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


async def listed(*pages: list[Any]) -> ToolListing:
    """What is taken of these pages, one after the other."""

    def script(request: ReceivedRequest) -> Reply | None:
        if request.called != "tools/list":
            return None
        at = int((request.message.get("params") or {}).get("cursor") or 0)
        value: dict[str, Any] = {"tools": pages[at]}
        if at + 1 < len(pages):
            value["nextCursor"] = str(at + 1)
        return StatusReply(200, body=result(request, value))

    with trio.fail_after(LIMIT):
        async with open_mcp_server(script, old=True) as server:
            spec = ServerSpec(name="web", url=server.url)
            async with sdk.open_session(
                spec, on_tools_changed=lambda: None, stderr=LastLines()
            ) as session:
                return await session.list_tools()


def names(listing: ToolListing) -> list[str]:
    return [found["name"] for found in listing.tools]


# A page of more values than are read at all.
BEYOND = [tool("vast", _meta={"a": [0] * 200_001})]


async def test_a_page_that_cannot_be_read_costs_no_tools_of_the_pages_before() -> None:
    listing = await listed([tool("a")], [tool("b")], BEYOND, [tool("d")])
    assert names(listing) == ["a", "b"]
    (warning,) = listing.warnings
    assert "the rest of its list of tools cannot be read" in warning
    assert "more than 200000 values" in warning


async def test_a_first_page_that_cannot_be_read_is_a_failed_list() -> None:
    with pytest.raises(ConnectionFailed, match="more than 200000 values"):
        await listed(BEYOND, [tool("b")])


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (Unusable("it is too large"), True),
        (MCPError(types.PARSE_ERROR, "it is too large"), True),
        (MCPError(types.CONNECTION_CLOSED, "gone"), False),
        (MCPError(types.INTERNAL_ERROR, "a bug of the server"), False),
    ],
)
async def test_only_what_cannot_be_read_ends_a_list_in_the_middle(
    error: MCPError, is_kept: bool
) -> None:
    async def fetch(cursor: str | None) -> types.ListToolsResult:
        if cursor is not None:
            raise error
        page = {"tools": [tool("a")], "nextCursor": "1", "ttlMs": 0}
        return types.ListToolsResult.model_validate(page | {"cacheScope": "public"})

    if is_kept:
        assert names(await paginate(fetch)) == ["a"]
    else:
        with pytest.raises(MCPError):
            await paginate(fetch)


# -------------------------------------------------------------- small pages


async def test_icons_cost_nothing_however_many_and_however_wrong() -> None:
    # 9,900 faults in a page of 30 kB took the loop a tenth of a second.
    listing = await listed([tool("a", icons=[0] * 9_900), tool("b")])
    assert names(listing) == ["a", "b"]
    assert "icons" not in listing.tools[0]


@pytest.mark.parametrize("key", ["inputSchema", "outputSchema"])
async def test_of_thousands_of_faults_in_a_tool_one_is_said(key: str) -> None:
    wrong = {"type": "object", "required": [0] * 9_000}
    listing = await listed([tool("a", **{key: wrong}), tool("b")])
    # It can be used without a promise of what it answers, not without its parameters.
    assert names(listing) == (["a", "b"] if key == "outputSchema" else ["b"])
    (warning,) = listing.warnings
    assert f"{key}.required: it is not a list of names" in warning


async def test_others_get_their_turn_while_a_thousand_tools_are_described() -> None:
    tools = [tool(f"tool_{number}") for number in range(1_000)]
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        described = await describe_in_turn(SPEC, tools)
        nursery.cancel_scope.cancel()
    assert turns >= 40
    assert len(described.definitions) == 1_000
    assert described == describe(SPEC, tools)


@given(st.lists(st.integers() | st.text() | st.none() | st.lists(st.integers())))
def test_an_approval_does_not_depend_on_how_fast_it_was_made(entries: Any) -> None:
    # Entries of a set are in the order of their JSON, as they always were.
    schema = {"type": "object", "properties": {"a": {"enum": entries}}}
    ordered = sorted(entries, key=json.dumps)
    same = {"type": "object", "properties": {"a": {"enum": ordered}}}
    prints = []
    for parameters in (schema, same):
        (definition,) = describe(
            SPEC, [tool("a", inputSchema=parameters)], sound=True
        ).definitions
        prints.append(fingerprint(definition))
    assert prints[0] == prints[1]
    assert json.dumps(ordered, separators=(",", ":")) in prints[0]
