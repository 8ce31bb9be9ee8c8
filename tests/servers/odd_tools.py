"""Tools that are odd, each in one way, for ``glyphoxa serve odd_tools.py``."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import trio

from glyphoxa_trio import tool
from glyphoxa_trio.servers.dispatch import ASKED

print("while it is read")  # noqa: T201


@tool
def loud() -> str:
    """Prints in every way, and says what it can read."""
    print("from Python")  # noqa: T201
    sys.stdout.flush()
    os.write(1, b"from C\n")
    subprocess.run(["sh", "-c", "echo from a child; cat"], check=True)
    return repr(sys.stdin.read() + os.read(0, 10).decode())


@tool
async def crash() -> str:
    """Has a bug."""
    raise KeyError("hunter2")


@tool(read_only=True)
async def wait() -> str:
    """Never ends."""
    await trio.sleep_forever()
    return ""


@tool
async def act() -> str:
    """Does something, and never ends."""
    print("acting", flush=True)  # noqa: T201
    await trio.sleep_forever()
    return ""


@tool
async def resist() -> str:
    """Never ends, and will not be stopped."""
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
    return ""


@tool
def block() -> str:
    """Takes a thread and keeps it."""
    time.sleep(3600)
    return ""


@tool
async def steps() -> str:
    """Says how far it is."""
    await ASKED.get().progress(1, 2, "half")
    return "done"


@tool
async def ask_who() -> str:
    """Asks for a name."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    said = await ASKED.get().channel.request(
        "elicitation/create", {"message": "Who?", "requestedSchema": schema}
    )
    return f"{said['action']} {said['content']['name']}"
