"""A server in plain Python, one JSON object a line, that misbehaves on request.

    python plain.py [HABIT...]

It starts in 40 ms, where one on the SDK takes over a second. Its tools do what
they are called; its habits are in `HABITS`.
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
    "mute": "answers nothing",
    "garbage": "writes what is no message before every answer",
    "floods": "writes a line that never ends",
    "endless": "its list of tools has no last page",
    "unlisted": "does not know tools/list",
    "modern": "knows only the protocol family of 2026-07-28",
    "stubborn": "ignores the end of its stdin and SIGTERM",
    "deaf": "stops reading once its tools are listed",
    "tells": "writes its environment and its working directory to stderr",
}
TOOLS = ["echo", "hang", "die", "refuse", "spawn", "grow", "blind", "what_meta"]

habits = set(sys.argv[1:])
assert habits <= set(HABITS), habits - set(HABITS)
tools = list(TOOLS)


def write(message: dict[str, Any]) -> None:
    if "garbage" in habits:
        sys.stdout.write('warming up ...\n{"neither": "fish"}\n\n\x1b[2J{]\n')
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def describe(name: str) -> dict[str, Any]:
    return {"name": name, "description": name, "inputSchema": {"type": "object"}}


def call(ident: Any, name: str, arguments: dict[str, Any], meta: Any) -> None:
    text = json.dumps(arguments)
    if name == "hang":
        say(f"hanging {ident}")
        return
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "refuse":
        error = {"code": -32602, "message": "not with these arguments"}
        write({"id": ident, "error": error})
        return
    if name == "blind":  # answers, but no longer hears
        os.close(0)
        habits.add("blind")
    if name == "spawn":  # a child in the same group that holds stdout open
        text = str(subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL).pid)
    if name == "grow":
        tools.append("grown")
        write({"method": "notifications/tools/list_changed"})
    if name == "what_meta":
        text = json.dumps(meta)
    done = {"content": [{"type": "text", "text": text}], "resultType": "complete"}
    write({"id": ident, "result": done})


def answer(message: dict[str, Any]) -> None:
    method, ident = message.get("method"), message.get("id")
    params = message.get("params", {})
    if method == "initialize" and "modern" not in habits:
        write(
            {
                "id": ident,
                "result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "plain", "version": "1"},
                },
            }
        )
    elif method == "server/discover" and "modern" in habits:
        write(
            {
                "id": ident,
                "result": {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "resultType": "complete",
                    "ttlMs": 0,
                    "cacheScope": "public",
                },
            }
        )
    elif method == "tools/list" and "unlisted" not in habits:
        page: dict[str, Any] = {"tools": [describe(name) for name in tools]}
        if "modern" in habits:
            page |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        if "endless" in habits:
            page["nextCursor"] = "again"
        write({"id": ident, "result": page})
        if "deaf" in habits:
            time.sleep(3600)
    elif method == "tools/call":
        meta = params.get("_meta")
        call(ident, params["name"], params.get("arguments", {}), meta)
    elif method == "notifications/cancelled":
        say(f"cancelled {params['requestId']}")
    elif ident is not None:
        error = {"code": -32601, "message": f"no such method: {method}"}
        write({"id": ident, "error": error})


def main() -> None:
    if "exits" in habits:
        say("the cellar is flooded")
        sys.exit(3)
    if "stubborn" in habits:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "tells" in habits:
        say(json.dumps({"env": dict(os.environ), "cwd": os.getcwd()}))
    if "floods" in habits:
        while True:
            sys.stdout.write("x" * 2**20)
    for line in sys.stdin:
        if "mute" not in habits:
            answer(json.loads(line))
        if "blind" in habits:
            break
    while habits & {"stubborn", "blind"}:
        time.sleep(3600)


main()
