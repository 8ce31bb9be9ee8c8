"""The server that every client is measured with. Python alone, nothing installed.

It runs calls side by side, stops one when it is told to, and does next to nothing
else, so that the clients dominate. Tools:

    echo           answers at once
    wait, pause    answer after so many seconds
    ponder         answers after 40 ms, mostly, and sometimes long after that
    cancelled      how many calls it was told to stop
    die            the process ends
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import sys
from functools import partial
from typing import Any

STARTED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "peer", "version": "1"},
}
CHANCE = random.Random(7)
SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}}
NOTHING = {"type": "object", "properties": {}}
TOOLS = [
    {
        "name": name,
        "description": name,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": name != "die"},
    }
    for name, schema in (
        ("echo", NOTHING),
        ("wait", SECONDS),
        ("pause", SECONDS),
        ("ponder", NOTHING),
        ("cancelled", NOTHING),
        ("die", NOTHING),
    )
]


def write(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def said(ident: object, text: str) -> None:
    write({"id": ident, "result": {"content": [{"type": "text", "text": text}]}})


async def call(ident: object, name: str, arguments: dict[str, Any], told: int) -> None:
    if name == "die":
        os._exit(3)
    if name == "ponder":
        await asyncio.sleep(CHANCE.lognormvariate(math.log(0.04), 0.8))
    if name in ("wait", "pause"):
        await asyncio.sleep(arguments.get("seconds", 0))
    said(ident, str(told) if name == "cancelled" else "done")


def gone(
    running: dict[object, asyncio.Task[None]], ident: object, _: asyncio.Task[None]
) -> None:
    running.pop(ident, None)


async def main() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    running: dict[object, asyncio.Task[None]] = {}
    told = 0
    while line := await reader.readline():
        message = json.loads(line)
        ident, method = message.get("id"), message.get("method")
        params = message.get("params") or {}
        if method == "tools/call":
            task = loop.create_task(
                call(ident, params["name"], params.get("arguments") or {}, told)
            )
            running[ident] = task
            task.add_done_callback(partial(gone, running, ident))
        elif method == "notifications/cancelled":
            told += 1
            stopped = running.get(params.get("requestId"))
            if stopped is not None:
                stopped.cancel()
        elif method == "initialize":
            write({"id": ident, "result": STARTED})
        elif method == "tools/list":
            write({"id": ident, "result": {"tools": TOOLS}})
        elif ident is not None:
            error = {"code": -32601, "message": f"no such method: {method}"}
            write({"id": ident, "error": error})


asyncio.run(main())
