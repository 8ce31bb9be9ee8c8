"""A seer in plain Python, one JSON object a line, who tells what happens to it.

    python seer.py FIFO [HABIT...]

It starts in 40 ms, where a server on the SDK takes over a second. What happens
is written to FIFO as it happens, unless that is ``-``; habits are in `HABITS`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

HABITS = {
    "exits": "says why on stderr and exits with status 3",
    "mute": "answers nothing, not even the handshake",
    "garbage": "writes what is no message before every answer",
    "stubborn": "ignores the end of its stdin and SIGTERM",
    "parent": "has a child in its process group",
    "grows": "offers a tool more, roll, once it has whispered",
    "lewd": "its tool's name and answer steer terminals",
}
QUICK = {"glyphoxa/estimated_duration_ms": 20}
# It only reads, and only what is here: the one kind that is probed unasked.
READS = {"readOnlyHint": True, "openWorldHint": False}
TOOLS: dict[str, dict[str, Any]] = {
    "whisper": {"_meta": QUICK, "annotations": READS},
    "ponder": {"_meta": QUICK, "annotations": READS},
    "vanish": {"_meta": QUICK, "annotations": {"readOnlyHint": False}},
    "daydream": {},
}

fifo, *habits = sys.argv[1:]
assert set(habits) <= set(HABITS), habits


def tell(text: str) -> None:
    if fifo != "-":
        with open(fifo, "w") as pipe:
            pipe.write(f"{text}\n")


def write(message: dict[str, Any]) -> None:
    if "garbage" in habits:
        sys.stdout.write("warming up ...\n\x1b[2J{]\n")
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(ident: Any, name: str) -> None:
    tell(f"called {name}")
    if name == "vanish":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "ponder":
        return  # for ever
    steering = "\x1b]0;owned\x07[/]" if "lewd" in habits else ""
    content = [{"type": "text", "text": f"{steering}a word about {name}"}]
    write({"id": ident, "result": {"content": content}})
    if name == "whisper" and "grows" in habits:
        TOOLS["roll"] = TOOLS["whisper"]
        write({"method": "notifications/tools/list_changed"})


def answer(message: dict[str, Any]) -> None:
    method, ident = message.get("method"), message.get("id")
    match method:
        case "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "seer", "version": "1"},
            }
            write({"id": ident, "result": result})
        case "tools/list":
            tools = [
                {"name": name, "inputSchema": {"type": "object"}, **more}
                for name, more in TOOLS.items()
            ]
            if "lewd" in habits:
                tools.append({**tools[0], "name": "[bold]\x1b[2J"})
            write({"id": ident, "result": {"tools": tools}})
        case "tools/call":
            call(ident, message["params"]["name"])
        case "notifications/cancelled":
            tell("cancelled")
        case _ if ident is not None:
            write({"id": ident, "error": {"code": -32601, "message": "what?"}})


def main() -> None:
    if "exits" in habits:
        print("the crystal is cracked", file=sys.stderr)  # noqa: T201 its last words
        sys.exit(3)
    signal.alarm(300)  # whatever becomes of the test
    if "stubborn" in habits:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(f"started {os.getpid()}")
    if "parent" in habits:
        child = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL)
        tell(f"child {child.pid}")
    for line in sys.stdin:
        if "mute" not in habits:
            answer(json.loads(line))
    tell("stdin closed")
    while "stubborn" in habits:
        time.sleep(3600)


main()
