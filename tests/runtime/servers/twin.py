"""A server in plain Python that answers at once, unless a call says otherwise.

    python twin.py NAME

Its tool ``look`` takes the names of those who are late (by 0.3 s) and of those who
never answer. Such calls, and what it is told to cancel, it writes to stderr; the
others not, since a runtime hears only some lines a second.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

name = sys.argv[1]
writing = threading.Lock()


def write(message: dict[str, Any]) -> None:
    with writing:
        print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)  # noqa: T201


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def look(ident: Any, arguments: dict[str, Any]) -> None:
    if arguments:
        say(f"asked {ident}")
    answer = {"content": [{"type": "text", "text": name}]}
    if name in arguments.get("never", []):
        return
    late = 0.3 if name in arguments.get("late", []) else 0.0
    if late:
        answers = threading.Timer(late, write, [{"id": ident, "result": answer}])
        answers.daemon = True
        answers.start()
    else:
        write({"id": ident, "result": answer})


INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": name, "version": "1"},
}
LOOK = {
    "name": "look",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
    "_meta": {"glyphoxa/estimated_duration_ms": 20},
}

for line in sys.stdin:
    message = json.loads(line)
    method, ident = message["method"], message.get("id")
    params = message.get("params", {})
    if method == "initialize":
        write({"id": ident, "result": INITIALIZED})
    elif method == "tools/list":
        write({"id": ident, "result": {"tools": [LOOK]}})
    elif method == "tools/call":
        look(ident, params.get("arguments", {}))
    elif method == "notifications/cancelled":
        say(f"cancelled {params['requestId']}")
