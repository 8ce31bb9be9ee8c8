"""The resources of servers, as two more tools (N1): real processes, all protocols.

Rows N1 and D18. Every wait has an end; what a server was asked, it says on stderr.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import open_server_pool
from glyphoxa_trio.mcp import resources as offered
from glyphoxa_trio.mcp.tool_cache import ToolCache
from glyphoxa_trio.tools.definition import ToolError
from glyphoxa_trio.tools.outcome import ToolResult

from .support import QUICKLY, SERVERS, Watcher
from .test_real_servers import web_server

pytestmark = pytest.mark.border

LIMIT = 60.0
LIST, READ = "list_resources", "read_resource"


def library(*habits: str, **options: Any) -> ServerSpec:
    command = ("python", str(SERVERS / "library.py"), *habits)
    return ServerSpec(name="library", command=command, restart=QUICKLY, **options)


@attrs.define(eq=False)
class Reader(Watcher):
    def asked(self) -> list[str]:
        return [line.removeprefix("asked ") for _, line in self.logged]


@asynccontextmanager
async def connected(
    spec: ServerSpec, *, known: ToolCache | None = None
) -> AsyncGenerator[Reader]:
    watcher = Reader()
    with trio.fail_after(LIMIT):
        async with open_server_pool(
            [spec],
            publish=watcher.publish,
            warn=watcher.warn,
            log=watcher.log,
            known=known,
        ) as fleet:
            assert await fleet.wait_ready(LIMIT)
            yield watcher


def listed(result: ToolResult) -> list[str]:
    return [entry["uri"] for entry in result.structured["resources"]]


@pytest.mark.parametrize("era", [(), ("modern",)])
async def test_a_server_with_resources_has_two_tools_more(era: tuple[str, ...]) -> None:
    # N1
    async with connected(library(*era)) as watcher:
        tools = watcher.tools("library")
        assert list(tools) == ["lend", LIST, READ]
        assert [tools[name].reads_resources for name in tools] == [False, False, True]
        for name in (LIST, READ):
            definition = tools[name].definition
            assert definition.external
            assert definition.read_only
            assert not definition.idempotent
            assert definition.key == f"library.{name}"
        # Whether there is anything is asked once, and no more before a call.
        assert watcher.asked().count("resources/list") == 1
        assert "resources/read" not in watcher.asked()

        text = await watcher.call("library", READ, uri="book://77")
        assert text == ToolResult(text=("Mugwort.",))
        both = await watcher.call("library", READ, uri="book://two")
        assert both.text == ("One.", "Two.")
        picture = await watcher.call("library", READ, uri="book://map")
        assert picture.text == ("[resource: image/png, 3 kB]",)
        empty = await watcher.call("library", READ, uri="book://empty")
        assert empty.text == ("The resource is empty.",)
        with pytest.raises(ToolError, match="Resource not found: book://78"):
            await watcher.call("library", READ, uri="book://78")

        every = await watcher.call("library", LIST)
        assert every.text == ("120 resources, the first 50 of them shown; 1 template",)
        assert listed(every) == [f"book://{number}" for number in range(50)]
        assert every.structured["templates"] == [
            {"uri": "book://{number}/{page}", "name": "One page"}
        ]
        first = every.structured["resources"][0]
        assert first["mime_type"] == "text/plain"
        assert len(first["description"]) == 120
        # The others are found by a word.
        found = await watcher.call("library", LIST, contains="herbal")
        assert found.text == ("1 of 120 resources; 0 of 1 template",)
        assert listed(found) == ["book://77"]


async def test_a_list_that_does_not_end_is_left() -> None:
    async with connected(library("circular", "untemplated")) as watcher:
        result = await watcher.call("library", LIST)
        assert result.text == ("20 or more resources; 0 templates",)
        last = "resources/templates/list"
        await watcher.until(lambda: last in watcher.asked())
        assert watcher.asked().count("resources/list") == 3  # one when it connected


async def test_a_server_that_has_nothing_but_resources_can_be_read() -> None:
    async with connected(library("bare")) as watcher:
        assert list(watcher.tools("library")) == [LIST, READ]
        assert watcher.warnings == []
        found = await watcher.call("library", READ, uri="book://77")
        assert found.text == ("Mugwort.",)


async def test_its_own_tool_of_that_name_stays_and_is_told_of() -> None:
    async with connected(library("own")) as watcher:
        assert list(watcher.tools("library")) == ["lend", "read_resource", LIST]
        (warning,) = watcher.warnings
        assert warning.text == (
            "read_resource: the server has a tool of that name, so none is added for"
            " its resources"
        )
        assert not watcher.tools("library")[READ].reads_resources
        own = await watcher.call("library", READ)
        assert own.text[0] == "read_resource: here"
        assert "resources/read" not in watcher.asked()


async def test_who_asks_for_more_before_it_reads_is_refused() -> None:
    async with connected(library("modern", "asks")) as watcher:
        with pytest.raises(ToolError, match="asks for input, which is not supported"):
            await watcher.call("library", READ, uri="book://77")


async def test_resources_can_be_switched_off_and_taken_in_part(tmp_path: Path) -> None:
    known = ToolCache(tmp_path)
    async with connected(library(), known=known) as watcher:
        assert len(watcher.tools("library")) == 3
    async with connected(library(resources=False), known=known) as watcher:
        # Nor from what is known of the last run.
        seen = {x.definition.name for _, _, tools in watcher.published for x in tools}
        assert seen == {"lend"}
    async with connected(library(allow=("lend", READ))) as watcher:
        assert list(watcher.tools("library")) == ["lend", READ]
        assert watcher.warnings == []


async def test_a_server_without_resources_has_no_such_tools() -> None:
    async with connected(library("old")) as watcher:
        assert list(watcher.tools("library")) == ["lend"]


async def test_a_linked_resource_is_named_with_its_address() -> None:
    async with connected(library()) as watcher:
        result = await watcher.call("library", "lend")
        assert result.text == ("lend: here", "[link: The Herbal, book://77]")
        assert result.links == ("book://77",)


# The SDK leaves a response's stream before its end without closing the generators
# of httpx2 and httpcore2; trio closes them, and says so.
@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
@pytest.mark.parametrize("path", ["/mcp", "/old/mcp"])
async def test_resources_over_http_in_both_protocol_families(path: str) -> None:
    with trio.fail_after(60):
        async with web_server() as web:
            url = f"http://127.0.0.1:{web.port}{path}"
            async with connected(ServerSpec(name="web", url=url)) as watcher:
                found = await watcher.call("web", LIST)
                assert listed(found) == ["shelf://herbal"]
                (template,) = found.structured["templates"]
                assert template["uri"] == "shelf://{name}/page"
                text = await watcher.call("web", READ, uri="shelf://herbal")
                assert text.text == ("Mugwort.",)
                page = await watcher.call("web", READ, uri="shelf://bestiary/page")
                assert page.text == ("bestiary",)
                with pytest.raises(ToolError, match="Unknown resource"):
                    await watcher.call("web", READ, uri="shelf://none")


# ---------------------------------------------------------------- what is pure


def test_where_a_resource_leads_is_not_known_so_nobody_calls_them_unasked() -> None:
    for tool in offered.TOOLS:
        assert tool["annotations"] == {"readOnlyHint": True, "openWorldHint": True}


async def test_nonsense_in_a_list_is_no_end_of_it() -> None:
    async def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method == "resources/list":
            return {"resources": [7, {"uri": None}, {"uri": "a:b", "size": 3}]}
        return {"resourceTemplates": None}

    answer = await offered.call(LIST, {}, ask)
    assert answer["structuredContent"] == {
        "resources": [{"uri": "None"}, {"uri": "a:b", "size": 3}],
        "templates": [],
    }
