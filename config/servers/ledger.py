"""A tavern's ledger: an MCP server that answers in about a millisecond.

    python config/servers/ledger.py

It speaks stdio. Every tool says the truth about itself: what it costs in time
(``_meta``), and whether it changes anything (annotations). The runtime shows the
quick ones in FAST turns, caches and repeats only what may be repeated, and
measures all of them from the first call on.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

server = MCPServer("ledger", instructions="Who owes what at the bar, in copper.")

# One dictionary is the whole book: it lives as long as the server does.
tabs: dict[str, list[tuple[str, int]]] = {}

# Prefixed names cannot collide with anybody else's entries.
QUICK: dict[str, Any] = {
    "glyphoxa/estimated_duration_ms": 10,
    "glyphoxa/max_duration_ms": 200,
}

Patron = Annotated[str, Field(description="Whose tab, by name.", min_length=1)]
Copper = Annotated[int, Field(description="The price in copper pieces.", ge=1)]


class Tab(TypedDict):
    """A patron's items, and their sum."""

    patron: str
    items: list[str]
    copper: int


def tab_of(patron: str) -> Tab:
    """The tab of `patron`; a name is the same in any case."""
    try:
        entries = tabs[patron.casefold()]
    except KeyError:
        # The model reads this text and can do something about it.
        raise ToolError(f"{patron} has no tab here. Open one first.") from None
    return Tab(
        patron=patron,
        items=[item for item, _ in entries],
        copper=sum(price for _, price in entries),
    )


# Opening a tab twice leaves one tab: it changes something, but is idempotent.
@server.tool(annotations=ToolAnnotations(open_world_hint=False), meta=QUICK)
async def open_tab(patron: Patron) -> Tab:
    """Open a tab for a patron. An open tab stays as it is."""
    tabs.setdefault(patron.casefold(), [])
    return tab_of(patron)


# Two ales are two ales: neither read-only nor idempotent, so never sent twice.
@server.tool(
    annotations=ToolAnnotations(destructive_hint=False, open_world_hint=False),
    meta=QUICK,
)
async def add_to_tab(patron: Patron, item: str, copper: Copper) -> Tab:
    """Write one item onto a patron's tab."""
    tab_of(patron)
    tabs[patron.casefold()].append((item, copper))
    return tab_of(patron)


@server.tool(
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False), meta=QUICK
)
async def read_tab(patron: Patron) -> Tab:
    """Read what a patron has had, and what they owe in copper."""
    return tab_of(patron)


if __name__ == "__main__":
    server.run()  # stdio: requests on stdin, answers on stdout, the rest on stderr
