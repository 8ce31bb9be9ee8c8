"""A purse for each table, which only the process that has the table may spend from.

    python docs/examples/servers/purse.py purses.db

Several processes may use one file: each worker of a cluster starts this server for
itself. A worker that has lost a session does not always know that at once, and its call
may arrive late. So the highest epoch of each session is kept beside its purse, and a
call in a lower one changes nothing. Clients that name no claim have a purse, too.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from glyphoxa_trio.servers import session_claim

COINS = 100
TABLE = """
    create table if not exists purse (
        session text primary key, epoch integer not null, coins integer not null)
"""
# One statement: nothing comes between the look at the epoch and the change.
SPEND = """
    insert into purse values (:session, :epoch, :coins - :price)
    on conflict do update set epoch = excluded.epoch, coins = coins - :price
    where epoch <= excluded.epoch
    returning coins
"""


def purses(path: str) -> MCPServer[Any]:
    """Return the server; the purses are in the file ``path``."""
    server: MCPServer[Any] = MCPServer("purse")

    @server.tool(
        annotations=ToolAnnotations(destructive_hint=False, open_world_hint=False),
        meta={"glyphoxa/estimated_duration_ms": 20},
    )
    def spend(price: int, ctx: Context[Any, Any]) -> int:
        """Spend coins of the table's purse, and return how many are left."""
        session, epoch = session_claim(ctx) or ("", 0)
        values = {"session": session, "epoch": epoch, "coins": COINS, "price": price}
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(TABLE)
            left = database.execute(SPEND, values).fetchall()
        if not left:
            raise ToolError("nothing was spent: another process has this session")
        return int(left[0][0])

    return server


if __name__ == "__main__":
    purses(sys.argv[1]).run()
