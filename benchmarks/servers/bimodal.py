"""An MCP server in plain Python that is quick, and now and then slow.

    python benchmarks/servers/bimodal.py SEED

One JSON object a line on stdin and stdout. ``look`` answers after 10 to 20 ms, and
every fiftieth time, at random, after 600; calls do not wait for each other. What is
cancelled is not answered, and counted: ``cancelled`` says how many there were.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from typing import Any

SLOW = 0.02  # of all calls
rng = random.Random(int(sys.argv[1]))
writing = threading.Lock()
on_the_way: dict[Any, threading.Timer] = {}
cancelled = 0

HINTS = {"readOnlyHint": True}
META = {"glyphoxa/estimated_duration_ms": 15}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": HINTS}
    | {"_meta": META}
    for name in ("look", "cancelled")
]


def write(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with writing:
        sys.stdout.write(line)
        sys.stdout.flush()


def say(ident: Any, text: str) -> None:
    on_the_way.pop(ident, None)
    write({"id": ident, "result": {"content": [{"type": "text", "text": text}]}})


def call(ident: Any, name: str) -> None:
    if name == "cancelled":
        say(ident, str(cancelled))
        return
    takes = 0.6 if rng.random() < SLOW else rng.uniform(0.01, 0.02)
    answer = threading.Timer(takes, say, [ident, "The moon is up."])
    answer.daemon = True
    on_the_way[ident] = answer
    answer.start()


def answer(message: dict[str, Any]) -> None:
    global cancelled
    method, ident = message.get("method"), message.get("id")
    params = message.get("params", {})
    if method == "notifications/cancelled":
        waiting = on_the_way.pop(params["requestId"], None)
        if waiting is not None:
            waiting.cancel()
            cancelled += 1
    elif method == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bimodal", "version": "1"},
        }
        write({"id": ident, "result": result})
    elif method == "tools/list":
        write({"id": ident, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        call(ident, params["name"])
    elif ident is not None:
        error = {"code": -32601, "message": f"no such method: {method}"}
        write({"id": ident, "error": error})


if __name__ == "__main__":
    for line in sys.stdin:
        answer(json.loads(line))
