"""Handlers that need a thread or a process of their own. The process imports this."""

from __future__ import annotations

import os
import signal
import threading
import time

import trio
import trio.lowlevel

from glyphoxa_trio import CallContext, ToolError, tool
from glyphoxa_trio.tools.definition import ToolUnavailable
from glyphoxa_trio.tools.outcome import Media, ToolResult


@tool(blocking=True, read_only=True)
async def naps(context: CallContext) -> dict[str, object]:
    """Block, and wait as well."""
    time.sleep(0.15)  # noqa: ASYNC251 - that is the point
    left = context.deadline - trio.current_time()
    await trio.lowlevel.checkpoint()
    return {"thread": threading.get_ident(), "left": left}


@tool(blocking=True, read_only=True)
async def waits_for_ever() -> str:
    """Wait in its own run."""
    await trio.sleep_forever()
    raise AssertionError


@tool(isolated=True, read_only=True)
async def clumsy(how: str, context: CallContext) -> object:
    """Do what a process is needed for."""
    match how:
        case "pid":
            return os.getpid()
        case "who":
            left = context.deadline - trio.current_time()
            claim = context.claim
            return {
                "npc": context.npc,
                "tenant": context.tenant,
                "epoch": 0 if claim is None else claim.epoch,
                "left": left,
            }
        case "no":
            raise ToolError("not today")
        case "away":
            raise ToolUnavailable("gone fishing")
        case "crash":
            raise ValueError("a bug")
        case "exit":
            os._exit(3)
        case "leave":
            raise SystemExit(4)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "loop":
            while True:
                pass
        case "c":
            return 10 ** (10**9) > 0
        case "memory":
            return len(bytearray(1 << 40))
        case "large":
            return "x" * (1 << 20)
        case "object":
            return object()
        case "picture":
            return ToolResult(text=("Here.",), media=(Media("image/png", b"png"),))
    return how


@tool(isolated=True, read_only=True, group="plain")
def plain(number: int) -> int:
    """Count."""
    return number + 1
