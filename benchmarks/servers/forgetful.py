"""An MCP server in plain Python that answers at once, and now and then never.

    python benchmarks/servers/forgetful.py EVERY

One JSON object a line on stdin and stdout. ``ask`` answers at once; every so many
calls it does not answer at all, with 0 it always does.
"""

from __future__ import annotations

import json
import sys
from typing import Any

EVERY = int(sys.argv[1])
SCHEMA = {
    "type": "object",
    "properties": {"what": {"type": "string"}},
    "required": ["what"],
}
TOOL = {"name": "ask", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
calls = 0


def write(ident: Any, **message: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": ident, **message}) + "\n"
    sys.stdout.write(line)
    sys.stdout.flush()


def answer(message: dict[str, Any]) -> None:
    global calls
    method, ident = message.get("method"), message.get("id")
    if method == "initialize":
        result: dict[str, Any] = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "forgetful", "version": "1"},
        }
        write(ident, result=result)
    elif method == "tools/list":
        write(ident, result={"tools": [TOOL]})
    elif method == "tools/call":
        calls += 1
        if not EVERY or calls % EVERY:
            text = f"Of {message['params']['arguments']['what']} there is enough."
            write(ident, result={"content": [{"type": "text", "text": text}]})
    elif ident is not None:
        write(ident, error={"code": -32601, "message": f"no such method: {method}"})


if __name__ == "__main__":
    for line in sys.stdin:
        answer(json.loads(line))
