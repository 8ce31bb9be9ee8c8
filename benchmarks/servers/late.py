"""A server in plain Python that is ready a second after it was started.

    python late.py [SECONDS]

Two tools, of which one declares that it is quick.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
TOOLS = [
    {
        "name": "echo",
        "description": "Give it back.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "_meta": {"glyphoxa/estimated_duration_ms": 20},
    },
    {"name": "other", "inputSchema": {"type": "object"}},
]


def result_of(method: str) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "late", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    return {"content": [{"type": "text", "text": "here"}]}


time.sleep(SECONDS)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        reply = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "result": result_of(message["method"]),
        }
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
