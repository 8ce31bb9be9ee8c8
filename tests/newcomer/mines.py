"""A mine field: an MCP server of which every tool that may write is fatal.

    python mines.py LOG

It has a tool for every combination of the four hints, each true, false or not given,
and one without any annotations. Each call is noted in LOG as it arrives, before
anything else happens, as ``NAME PID``. A tool that may write then ends the process;
one that says that it only reads answers. So a mine that was stepped on is in LOG
whatever became of the caller.

Standard library only: it starts in some 40 ms.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from typing import Any, Final

HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_LETTERS: Final = {True: "yes", False: "no", None: "unsaid"}


def _combinations() -> dict[str, dict[str, bool] | None]:
    tools: dict[str, dict[str, bool] | None] = {"plain": None}
    for values in itertools.product((True, False, None), repeat=len(HINTS)):
        said = dict(zip(HINTS, values, strict=True))
        name = "_".join(f"{hint[0]}{_LETTERS[value]}" for hint, value in said.items())
        tools[name] = {hint: v for hint, v in said.items() if v is not None}
    return tools


TOOLS: Final = _combinations()
"""By name, what each says of itself; None says nothing at all."""


def is_mine(name: str) -> bool:
    """It may write: it does not say that it only reads, or says that it destroys."""
    hints = TOOLS[name] or {}
    return not hints.get("readOnlyHint") or bool(hints.get("destructiveHint"))


def is_open(name: str) -> bool:
    """It reads, and may go out into the world: it does not say that it does not."""
    hints = TOOLS[name] or {}
    return not is_mine(name) and hints.get("openWorldHint") is not False


def is_safe(name: str) -> bool:
    """It only reads, and nothing but what is its own."""
    return not is_mine(name) and not is_open(name)


def _tool(name: str, hints: dict[str, bool] | None) -> dict[str, Any]:
    # With arguments that invite: a default, an example, and one that is required.
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "default": "a"}},
        "required": ["path"],
        "examples": [{"path": "a"}],
    }
    tool = {"name": name, "description": "Keeps the books.", "inputSchema": schema}
    return tool if hints is None else {**tool, "annotations": hints}


def _answer(method: str, params: dict[str, Any], log: str) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "mines", "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [_tool(name, hints) for name, hints in TOOLS.items()]}
        case "tools/call":
            name = params["name"]
            with open(log, "a") as marks:
                marks.write(f"{name} {os.getpid()}\n")
            if is_mine(name):
                os._exit(1)
            return {"content": [{"type": "text", "text": "All is well."}]}
    return None


def main(log: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        answer = _answer(message["method"], message.get("params") or {}, log)
        end = (
            {"error": {"code": -32601, "message": "no such method"}}
            if answer is None
            else {"result": answer}
        )
        sys.stdout.write(
            json.dumps({"jsonrpc": "2.0", "id": message["id"], **end}) + "\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
