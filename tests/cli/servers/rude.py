"""A server whose every word steers a terminal: names, texts, answers, errors, stderr.

python rude.py
"""

from __future__ import annotations

import json
import sys
from typing import Any

from words import said  # type: ignore[import-not-found]


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    match message.get("method"):
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": said("rude"), "version": said("1")},
                "instructions": said("be nice"),
            }
        case "tools/list":
            tool = {"inputSchema": {"type": "object"}, "description": said("Shout.")}
            hints = {
                "title": said("Shout"),
                "readOnlyHint": True,
                "openWorldHint": False,
            }
            return {
                "tools": [
                    {
                        **tool,
                        "name": "shout",
                        "annotations": {**hints, "title": said("!")},
                    },
                    {**tool, "name": said("yell")},
                ]
            }
        case "tools/call":
            text = [{"type": "text", "text": said("loud")}]
            return {"content": text, "isError": "yell" in message["params"]["name"]}
    return None


sys.stderr.write(said("on stderr") + "\n")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    result = answer(message)
    if result is None:
        reply["error"] = {"code": -32601, "message": said("no")}
    else:
        reply["result"] = result
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
