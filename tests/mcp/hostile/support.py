"""A bad server beside a good one, and what must be true whatever the bad one does.

Real processes, under `open_runtime`, called as a host calls. Leaving `beside`
checks that the end was in time, that the good server never noticed anything, and
that nothing is left: no process, no descriptor, no task. Nothing here waits for a
time to pass; the limits only keep a failure from taking for ever.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

import trio

from glyphoxa_trio import Config, Outcome, Runtime, Tier, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    RestartConfig,
    ServerSpec,
)
from glyphoxa_trio.mcp import ServerState, ServerStatus, ServerWarning
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.tools.tier import TierLimits

LIMIT = 30.0  # seconds; no test that passes comes near it
ENDS = 2.0  # seconds that the end of a runtime may take, also if servers resist …
SLACK = 2.0  # … and what a loaded machine may add: the one place that says so
# Seconds that another server's call may take beside a flood; alone it takes one or
# two ms. The quickest of many is what a loaded machine does not spoil.
UNDISTURBED = 0.02
FAST = 0.3  # seconds that a FAST turn's tools have here

READY, FAILED = ServerState.READY, ServerState.FAILED
RESTARTING = ServerState.RESTARTING

QUICKLY = RestartConfig(backoff=0.01)
ONCE = RestartConfig(enabled=False)

# No ceiling but FAST's ends what a test wants to end itself.
TIERS = TierLimits(fast_ceiling=FAST, standard_ceiling=LIMIT, deep_ceiling=LIMIT)


@attrs.define(eq=False)
class Table:
    """A running runtime with the servers of a test; ``name`` is the bad one.

    ``opened_in`` is how long opening waited for the servers, seconds.
    """

    runtime: Runtime
    name: str
    warned: list[ServerWarning]
    opened_in: float

    async def call(
        self, tool: str, tier: Tier = Tier.DEEP, /, *, of: str = "", **arguments: Any
    ) -> Outcome:
        """Call a tool of the bad server, as an operator would."""
        key = f"{of or self.name}.{tool}"
        return await self.runtime.host.execute(key, arguments, tier=tier)

    async def good(self) -> None:
        """The other server answers, and has never been away."""
        outcome = await self.call("echo", of="good", say="hi")
        assert outcome.ok, outcome
        assert outcome.data == {"say": "hi"}
        row = self.row("good")
        assert (row.state, row.restarts) == (READY, 0)

    async def quickest_of_the_other(self) -> float:
        """Seconds that the other server's quickest of twenty calls took, by our doing.

        That is, as in `company`: the smaller one of the time that passed and of our
        own processor time in it. What the machine has to do for others is not ours.
        """
        took: list[float] = []
        for _ in range(20):
            began, worked = trio.current_time(), time.process_time()
            await self.good()
            passed = trio.current_time() - began
            took.append(min(passed, time.process_time() - worked))
        return min(took)

    def row(self, server: str = "") -> ServerStatus:
        rows = {row.name: row for row in self.runtime.servers()}
        return rows[server or self.name]

    @property
    def pid(self) -> int:
        pid = self.row().pid
        assert pid is not None
        return pid

    @property
    def tools(self) -> set[str]:
        """What a model may be shown of the bad server."""
        listed = self.runtime.host.tools(Tier.DEEP)
        return {x.definition.name for x in listed if x.definition.group == self.name}

    @property
    def warnings(self) -> list[str]:
        """What an operator was told of the bad server."""
        return [w.text for w in self.warned if w.server == self.name]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what no event tells; the limit of the test is the end of it."""
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)


@asynccontextmanager
async def beside(
    behaviour: str,
    *,
    extra: tuple[ServerSpec, ...] = (),
    env: Mapping[str, str] | None = None,
    ends: float = ENDS,
    npcs: tuple[NpcConfig, ...] = (),
    **options: Any,
) -> AsyncGenerator[Table]:
    """A bad server beside a good one, once the first attempt of both is over."""
    mark = uuid.uuid4().hex
    options.setdefault("restart", QUICKLY)
    bad = hostile.server(behaviour, **options)
    specs = tuple(
        attrs.evolve(spec, env={"HOSTILE_MARK": Secret(mark), **spec.env})
        for spec in (bad, hostile.server("good"), *extra)
    )
    config = Config(
        mcp=McpConfig(servers=specs, remember=False),
        calibration=CalibrationConfig(at_start=False),
        tiers=TIERS,
        npcs=npcs,
    )
    await _warmed()
    descriptors, tasks = _descriptors(), _tasks()
    warned: list[ServerWarning] = []
    closing = 0.0
    with trio.fail_after(LIMIT):
        began = trio.current_time()
        async with open_runtime(
            config, wait_for_servers=LIMIT, on_warning=warned.append
        ) as runtime:
            took = trio.current_time() - began
            table = Table(runtime, bad.name, warned, took)
            await table.good()
            yield table
            await table.good()
            closing = trio.current_time()
        took = trio.current_time() - closing
        assert took < ends + SLACK
    with trio.fail_after(SLACK):  # what was killed may still be dying
        await table.until(lambda: not marked(mark))
    with trio.move_on_after(SLACK):  # a thread may be in the middle of something
        await table.until(lambda: _descriptors() == descriptors)
    assert _descriptors() == descriptors
    assert _tasks() == tasks


def marked(mark: str) -> list[int]:
    """Every process that was started with this mark, or by one that was."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environ = (folder / "environ").read_bytes()
            except OSError:  # somebody else's, or gone by now
                continue
            if mark.encode() in environ:
                found.append(int(folder.name))
    return found


async def _warmed() -> None:
    """What a first start opens once and keeps (the SDK, trio's own machinery)."""
    global _warm
    if not _warm:
        _warm = True
        spec = hostile.server("good")
        config = Config(mcp=McpConfig(servers=(spec,), remember=False))
        with trio.fail_after(LIMIT):
            async with open_runtime(config, wait_for_servers=LIMIT):
                pass


_warm = False


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def restarts(**options: Any) -> RestartConfig:
    return RestartConfig(**options)
