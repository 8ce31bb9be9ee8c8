"""An MCP server in plain Python that says when it was told to stop.

    python benchmarks/servers/patient.py

One JSON object a line on stdin and stdout. ``echo`` answers at once; the tools
``slow_0`` to ``slow_39`` sleep for ten seconds; ``cancellations`` tells when the
server was told to stop which of them, on the monotonic clock, which all processes
of a Linux machine share.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

SLOW = [f"slow_{at}" for at in range(40)]
TOOLS = ["echo", "cancellations", *SLOW]
SLEEP = 10.0  # seconds

running: dict[Any, tuple[str, threading.Event]] = {}
cancelled: dict[str, float] = {}
writing = threading.Lock()


def write(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with writing:
        sys.stdout.write(line)
        sys.stdout.flush()


def say(ident: Any, text: str) -> None:
    write({"id": ident, "result": {"content": [{"type": "text", "text": text}]}})


def sleep(ident: Any, name: str, stop: threading.Event) -> None:
    if not stop.wait(SLEEP):
        say(ident, f"{name} is awake")


def call(ident: Any, name: str, arguments: dict[str, Any]) -> None:
    if name in SLOW:
        stop = threading.Event()
        running[ident] = (name, stop)
        sleeper = threading.Thread(target=sleep, args=(ident, name, stop), daemon=True)
        sleeper.start()
    else:
        say(ident, json.dumps(cancelled if name == "cancellations" else arguments))


def answer(message: dict[str, Any]) -> None:
    method, ident = message.get("method"), message.get("id")
    params = message.get("params", {})
    if method == "notifications/cancelled":
        now = time.monotonic()
        if params["requestId"] in running:  # an echo may be answered already
            name, stop = running.pop(params["requestId"])
            cancelled[name] = now
            stop.set()
    elif method == "initialize":
        info = {"name": "patient", "version": "1"}
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
        write({"id": ident, "result": result})
    elif method == "tools/list":
        schema = {"type": "object"}
        hints = {"readOnlyHint": True}
        tools = [
            {"name": name, "inputSchema": schema, "annotations": hints}
            for name in TOOLS
        ]
        write({"id": ident, "result": {"tools": tools}})
    elif method == "tools/call":
        call(ident, params["name"], params.get("arguments", {}))
    elif ident is not None:
        error = {"code": -32601, "message": f"no such method: {method}"}
        write({"id": ident, "error": error})


if __name__ == "__main__":
    for line in sys.stdin:
        answer(json.loads(line))
