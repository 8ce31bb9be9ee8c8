"""Helpers of the tests of `glyphoxa_trio.aio`: hosts, scenes, and leak checks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

import trio

from glyphoxa_trio import Config, aio
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    OverloadConfig,
    RestartConfig,
    ServerSpec,
)
from glyphoxa_trio.npc import TurnDone
from glyphoxa_trio.testing.model_server import (
    Script,
    ScriptedModelServer,
    open_model_server,
)
from glyphoxa_trio.tools.tier import Tier, TierLimits

from ..cli.support import SEER
from ..npc.support import ScriptedLLM

R = TypeVar("R")

LIMIT: Final = 60.0  # seconds; no test that passes comes near it
PATIENT: Final = TierLimits(
    fast_ceiling=LIMIT, standard_ceiling=LIMIT, deep_ceiling=LIMIT
)


@attrs.frozen(kw_only=True)
class Footprint:
    """What a process holds."""

    threads: frozenset[str] = frozenset()
    children: frozenset[int] = frozenset()
    descriptors: frozenset[tuple[int, str]] = frozenset()
    interrupt: frozenset[str] = frozenset()
    hooks: frozenset[str] = frozenset()

    @classmethod
    def now(cls) -> Footprint:
        return cls(
            threads=frozenset(thread.name for thread in threading.enumerate()),
            children=frozenset(_children()),
            descriptors=frozenset(_descriptors()),
            interrupt=frozenset([repr(signal.getsignal(signal.SIGINT))]),
            hooks=frozenset([repr(sys.get_asyncgen_hooks())]),
        )

    def beyond(self, before: Footprint) -> Footprint:
        """What is more than before."""
        return Footprint(
            **{
                field.name: getattr(self, field.name) - getattr(before, field.name)
                for field in attrs.fields(Footprint)
            }
        )


def _children() -> Generator[int]:
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended just now
            yield from map(int, (task / "children").read_text().split())


def _descriptors() -> Generator[tuple[int, str]]:
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that lists them
            yield int(name), os.readlink(f"/proc/self/fd/{name}")


def play(main: Callable[[], Awaitable[R]]) -> R:
    """An asyncio program, to its end; it leaves no task behind."""

    async def host() -> R:
        async with asyncio.timeout(LIMIT):
            result = await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(host(), debug=True)


def seer(*habits: str, name: str = "seer", **more: Any) -> ServerSpec:
    more.setdefault("restart", RestartConfig(backoff=0.01))
    more.setdefault("start_timeout", LIMIT)
    return ServerSpec(name=name, command=("python", str(SEER), "-", *habits), **more)


def config(*tools: str, servers: tuple[ServerSpec, ...] = (), **more: Any) -> Config:
    """One NPC, Bo, with these tools; nothing is measured or turned away."""
    more.setdefault("npcs", (NpcConfig(name="Bo", tools=tools),))
    more.setdefault("mcp", McpConfig(servers=servers, remember=False))
    more.setdefault("tiers", PATIENT)
    return Config(
        calibration=CalibrationConfig(at_start=False),
        overload=OverloadConfig(enabled=False),
        **more,
    )


@asynccontextmanager
async def opened(
    mode: aio.Mode, chosen: Config | None = None, *script: Any, **more: Any
) -> AsyncGenerator[aio.Runtime]:
    """A runtime whose model plays a script; see `tests.npc.support`."""
    if script:
        more["llm"] = ScriptedLLM(script)
    more.setdefault("wait_for_servers", LIMIT)
    async with aio.open_runtime(chosen or config(), mode=mode, **more) as runtime:
        yield runtime


async def say(
    runtime: aio.Runtime, text: str, npc: str = "Bo", *, tier: Tier | None = None
) -> TurnDone:
    async with runtime.npc(npc).say(text, tier=tier) as turn:
        return await turn.finish()


@contextmanager
def model_server(script: Script) -> Generator[ScriptedModelServer]:
    """The scripted model server, in a thread that has nothing to do with any host."""
    found: list[ScriptedModelServer] = []
    ready = threading.Event()
    over: list[Callable[[], None]] = []

    async def serve() -> None:
        async with open_model_server(script) as server:
            end, token = trio.Event(), trio.lowlevel.current_trio_token()
            over.append(lambda: token.run_sync_soon(end.set))
            found.append(server)
            ready.set()
            await end.wait()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    try:
        assert ready.wait(LIMIT)
        yield found[0]
    finally:
        for tell in over:
            tell()
        thread.join(LIMIT)
