"""A server in plain Python whose tool is described by a file.

python moody.py FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

described = Path(sys.argv[1])


def result_of(method: str) -> dict[str, Any]:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "moody", "version": "1"},
            }
        case "tools/list":
            tool = {"name": "tell", "inputSchema": {"type": "object"}}
            meta = {"glyphoxa/estimated_duration_ms": 20}
            text = described.read_text()
            return {"tools": [tool | {"description": text, "_meta": meta}]}
        case _:
            return {"content": [{"type": "text", "text": "told"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"id": message["id"], "result": result_of(message["method"])}
        print(json.dumps({"jsonrpc": "2.0"} | answer), flush=True)  # noqa: T201
