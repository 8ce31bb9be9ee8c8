"""A server in plain Python that starts in some 50 ms, with two tools.

    python -I -S sudden.py [MILLISECONDS]

It sleeps for so long, 30 ms by default, before it reads its first line; the rest is
the interpreter. It does one thing at a time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

ASLEEP = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0


def tool(name: str, *, reads: bool) -> dict[str, Any]:
    return {
        "name": name,
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": reads},
        "_meta": {"glyphoxa/estimated_duration_ms": 5},
    }


KNOWN: dict[str, dict[str, Any]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "sudden", "version": "1"},
    },
    "ping": {},
    "tools/list": {"tools": [tool("read", reads=True), tool("write", reads=False)]},
    "tools/call": {"content": [{"type": "text", "text": "page 112"}]},
}


def answer(line: bytes) -> bytes:
    message: dict[str, Any] = json.loads(line)
    if "id" not in message:
        return b""
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in KNOWN:
        reply["result"] = KNOWN[message["method"]]
    else:
        reply["error"] = {"code": -32601, "message": "no such method"}
    return json.dumps(reply).encode() + b"\n"


def main() -> None:
    time.sleep(ASLEEP / 1000)
    unfinished = b""
    while chunk := os.read(0, 65536):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        reply = b"".join(map(answer, lines))
        while reply:
            reply = reply[os.write(1, reply) :]


if __name__ == "__main__":
    main()
