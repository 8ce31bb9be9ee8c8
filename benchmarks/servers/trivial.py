"""The smallest MCP server over stdio: the cost of its calls is the client's.

    python benchmarks/servers/trivial.py

It reads and writes bytes without buffers or threads, answers all that one read
brought with one write, and knows one tool, ``echo``, whose answer was written
beforehand. It knows no more of a call than its id.
"""

from __future__ import annotations

import json
import os
from typing import Any

STARTED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "trivial", "version": "1"},
}
ECHO = {
    "name": "echo",
    "description": "Say it again",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}
SAID = {"content": [{"type": "text", "text": "page 112"}], "isError": False}
TAIL = json.dumps(SAID).encode()


def answer(line: bytes) -> bytes:
    message: dict[str, Any] = json.loads(line)
    ident, method = message.get("id"), message.get("method")
    if ident is None:
        return b""
    if method == "tools/call":
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (ident, TAIL)
    known = {"initialize": STARTED, "tools/list": {"tools": [ECHO]}}
    if method in known:
        reply = {"jsonrpc": "2.0", "id": ident, "result": known[method]}
    else:
        error = {"code": -32601, "message": f"no such method: {method}"}
        reply = {"jsonrpc": "2.0", "id": ident, "error": error}
    return json.dumps(reply).encode() + b"\n"


def main() -> None:
    unfinished = b""
    while chunk := os.read(0, 65536):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        reply = b"".join(map(answer, lines))
        while reply:
            reply = reply[os.write(1, reply) :]


if __name__ == "__main__":
    main()
