"""The official inspector lists, calls and reads our servers from its command line,
over both transports and in both ways of speaking MCP."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

import trio

from glyphoxa_trio.servers.builtin import SHELF
from tests.conformance.servers import GLYPHOXA, ROOT, serving

from .support import MODULES, NODE, PATIENCE

pytestmark = pytest.mark.border

LAUNCHER: Final = (
    MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
)
TOOL_SAID_NO: Final = 5  # the inspector's exit status

# What a server needs to be told.
OPTIONS: Final = {
    "campaign": ("--db", ":memory:"),
    "files": ("--base", "."),
    "memory": ("--store", "m.db", "--campaign", "inn", "--allow-remember"),
    "music": ("--library", "."),
    "images": ("--folder", "."),
    "npc": (str(ROOT / "config" / "tavern.yaml"), "--game-master"),
    "atis": ("--feed-url", "http://localhost/{icao}"),
}
ROLL: Final = ("--tool-name", "roll", "--tool-arg")

both = pytest.mark.parametrize("transport", ["stdio", "http"])
eras = pytest.mark.parametrize(
    "era", [pytest.param("legacy", marks=pytest.mark.long), "modern"]
)


@attrs.frozen
class Inspector:
    """The inspector with one server: where that is, and a home of its own."""

    server: Sequence[str]
    home: Path
    era: str = "auto"

    async def __call__(self, method: str, *words: str, status: int = 0) -> Any:
        """What a method brings."""
        options = ["--protocol-era", self.era, "--method", method, "--format", "json"]
        with trio.fail_after(PATIENCE):
            done = await trio.run_process(
                [
                    *(str(NODE), str(LAUNCHER), "--cli", *options, *words),
                    *self.server,
                ],
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=self.home,
                env={**os.environ, "HOME": str(self.home)},
            )
        assert done.returncode == status, done.stderr.decode()[-4000:]
        return json.loads(done.stdout)["result"]


@asynccontextmanager
async def inspecting(
    transport: str, home: Path, *words: str, era: str = "auto"
) -> AsyncGenerator[Inspector]:
    command = (str(GLYPHOXA), "serve", *words)
    if transport == "stdio":
        yield Inspector(("--", *command), home, era)
        return
    async with serving(*command) as server:
        yield Inspector(("--transport", "http", "--server-url", server.url), home, era)


@both
@eras
async def test_it_lists_and_calls_a_tool(
    transport: str, era: str, tmp_path: Path
) -> None:
    # G15
    async with inspecting(transport, tmp_path, "dice", era=era) as inspect:
        tools = (await inspect("tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["roll", "roll_table"]
        rolled = await inspect("tools/call", *ROLL, "expression=3d1+4")
        assert rolled["structuredContent"]["total"] == 7


@pytest.mark.long
@both
async def test_it_speaks_with_an_npc(transport: str, tmp_path: Path) -> None:
    words = ("npc", OPTIONS["npc"][0], "--npc", "Greymantle")
    async with inspecting(transport, tmp_path, *words) as inspect:
        asked = ("--tool-name", "say", "--tool-arg", "text=Roll 2d1+3 for me")
        said = (await inspect("tools/call", *asked))["structuredContent"]
        assert (said["npc"], said["end"]) == ("Greymantle the Sage", "completed")
        assert said["text"] == "2d1+3 comes to 5."


async def test_it_is_told_why_a_tool_says_no(tmp_path: Path) -> None:
    async with inspecting("stdio", tmp_path, "dice") as inspect:
        words = (*ROLL, "expression=nonsense")
        refused = await inspect("tools/call", *words, status=TOOL_SAID_NO)
        assert refused["isError"]
        assert "nonsense" in refused["content"][0]["text"]


@pytest.mark.long
async def test_what_it_makes_over_stdio_it_reads_over_http(tmp_path: Path) -> None:
    # F44, F45
    words = ("campaign", "--db", str(tmp_path / "campaigns.db"))
    arguments = json.dumps({"name": "The Sunken Crown", "gm_mode": "HUMAN"})
    async with inspecting("stdio", tmp_path, *words, era="legacy") as inspect:
        name = ("--tool-name", "campaign_create", "--tool-args-json", arguments)
        made = (await inspect("tools/call", *name))["structuredContent"]
    async with inspecting("http", tmp_path, *words, era="modern") as inspect:
        listed = await inspect("resources/list")
        uris = [resource["uri"] for resource in listed["resources"]]
        assert "campaigns://list" in uris
        read = await inspect("resources/read", "--uri", f"campaign://{made['id']}")
        campaign = json.loads(read["contents"][0]["text"])["campaign"]
        assert campaign["name"] == "The Sunken Crown"


@pytest.mark.long
@pytest.mark.parametrize("name", SHELF)
async def test_it_finds_no_fault_in_the_tools_of_any_server(
    name: str, tmp_path: Path
) -> None:
    # With --strict, a schema that other programs cannot take is an error.
    words = (name, *OPTIONS.get(name, ()))
    async with inspecting("stdio", tmp_path, *words) as inspect:
        assert (await inspect("tools/list", "--strict"))["tools"]
