"""A server whose tools are what its arguments say, in plain Python.

    python hours.py TOOLS

TOOLS is a file with a JSON object: by name, what is listed beside the name. Every
call is answered at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(message: dict[str, Any]) -> None:
    ident = message["id"]
    match message["method"]:
        case "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hours", "version": "1"},
            }
        case "tools/list":
            listed = json.loads(Path(sys.argv[1]).read_text())
            tools = [
                {"name": name, "inputSchema": {"type": "object"}, **more}
                for name, more in listed.items()
            ]
            result = {"tools": tools}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "noon"}]}
        case "ping":
            result = {}
        case _:
            write({"id": ident, "error": {"code": -32601, "message": "no"}})
            return
    write({"id": ident, "result": result})


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received and "method" in received:
        answer(received)
