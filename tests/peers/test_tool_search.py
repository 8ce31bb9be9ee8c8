"""Whether a tool is found by what people say, among those of real servers (N26).

What the servers say of their tools is asked of them: it is theirs. Each query has the
tools that would do; one of them has to be among the first five. The words that
`glyphoxa_trio.tools.words` knows were chosen with the ``tuned`` ones before the eyes;
those that are ``held_out`` were written, and looked at, afterwards, and stay so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

import trio

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.naming import exposed_name
from glyphoxa_trio.tools.search import Findable, search, summary, words_of

from .support import at_the_table, node_peer, python_peer

pytestmark = pytest.mark.border

ENOUGH = 22 / 24

QUERIES = json.loads(Path(__file__).with_name("tool_queries.json").read_text())


@attrs.frozen
class Described:
    """A tool that no server here has, in words of ours."""

    definition: ToolDefinition

    @property
    def exposed(self) -> str:
        return exposed_name(self.definition)

    @property
    def words(self) -> Mapping[str, float]:
        return words_of(self.definition)


FETCH = Described(
    ToolDefinition(
        name="fetch",
        group="fetch",
        description="Gets a URL from the internet, as markdown or as it is.",
        parameters={
            "type": "object",
            "properties": {"url": {}, "max_length": {}, "start_index": {}, "raw": {}},
        },
        external=True,
    )
)


def missed(queries: Mapping[str, list[str]], tools: list[Findable]) -> list[str]:
    """The queries that do not find what they want, with what they find."""
    known = {tool.definition.key for tool in tools}
    lost = []
    for query, wanted in queries.items():
        assert set(wanted) & known, wanted
        found = [tool.definition.key for tool in search(query, tools)]
        if not set(wanted) & set(found):
            lost.append(f"{query}: {found}")
    return lost


@pytest.mark.long
async def test_what_people_say_finds_the_tool(tmp_path: Path) -> None:  # N26
    await trio.run_process(["git", "init", "-q", str(tmp_path)])
    specs = (
        node_peer("filesystem", str(tmp_path)),
        node_peer("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory")}),
        node_peer("everything"),
        node_peer("sequential-thinking"),
        python_peer("time"),
        python_peer("git", "--repository", str(tmp_path)),
    )
    async with at_the_table(*specs) as table:
        listings = table.runtime.host.snapshot.listings
        theirs = [x for x in listings if x.definition.external]
        tools: list[Findable] = [*theirs, FETCH]
        assert len(tools) > 50
        for queries in QUERIES.values():
            lost = missed(queries, tools)
            assert 1 - len(lost) / len(queries) >= ENOUGH, lost
        # And a model that is told of all of them is told of each name (N25).
        told = summary(tools)
        assert [tool.exposed for tool in tools if tool.exposed not in told] == []
        assert told.count("\n") == len(tools)
