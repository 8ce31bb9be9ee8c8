"""A server in plain Python that keeps what it is told: as long as it lives.

Its tool ``note`` writes a line into its diary, after ``seconds``; ``pages`` reads it,
and says which process it is; ``die`` ends that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

pages: list[str] = []


def write(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)  # noqa: T201


def call(name: str, arguments: dict[str, Any]) -> str:
    if name == "note":
        time.sleep(arguments.get("seconds", 0))
        pages.append(arguments["line"])
        if path := arguments.get("path"):
            with open(path, "a") as file:
                file.write(arguments["line"] + "\n")
        return "noted"
    if name == "die":
        os._exit(1)
    return json.dumps({"pid": os.getpid(), "pages": pages})


def tool(name: str, reads: bool) -> dict[str, Any]:
    return {
        "name": name,
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": reads, "openWorldHint": False},
        "_meta": {"glyphoxa/estimated_duration_ms": 20},
    }


INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "diary", "version": "1"},
}
TOOLS = [tool("note", reads=False), tool("pages", reads=True), tool("die", reads=False)]

for line in sys.stdin:
    message = json.loads(line)
    method, ident = message["method"], message.get("id")
    params = message.get("params", {})
    if method == "initialize":
        write({"id": ident, "result": INITIALIZED})
    elif method == "tools/list":
        write({"id": ident, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        said = call(params["name"], params.get("arguments", {}))
        answer = {"content": [{"type": "text", "text": said}]}
        write({"id": ident, "result": answer})
