"""`blocking=True` and `isolated=True`: real threads, real processes. Issue 13."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio import tool
from glyphoxa_trio.host import Caller, open_host
from glyphoxa_trio.host.measurements import CalibratorSettings
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Effect, Limit, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier, TierLimits

from .clumsy import clumsy, naps, plain, waits_for_ever


async def test_an_async_function_that_blocks_runs_in_a_thread_if_it_says_so() -> None:
    async with open_host() as host:
        host.register(naps)
        end = await host.execute("custom.naps", tier=Tier.DEEP)
        assert end.ok, end
        assert end.data["thread"] != threading.get_ident()
        # Its clock is that of its own run, and so are the times that it is told.
        assert 0 < end.data["left"] <= host.settings.limits.ceiling(Tier.DEEP)


async def test_its_run_ends_with_the_time_of_the_call() -> None:
    async with open_host() as host:
        host.register(waits_for_ever)
        with trio.fail_after(20):
            end = await host.execute("custom.waits_for_ever", tier=Tier.FAST)
            assert (end.status, end.limit) == (Status.TIMEOUT, Limit.TURN)
            while host.statistics().shared_tasks.lingering:  # noqa: ASYNC110
                await trio.sleep(0.01)


async def gone(pid: int) -> None:
    """Wait until there is no process of that number, nor its remains."""
    with trio.fail_after(20):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            await trio.sleep(0.01)


# A busy machine takes its time to start a process.
PATIENT = CalibratorSettings(limits=TierLimits(deep_ceiling=30.0))

ENDS: dict[str, tuple[Status, str]] = {
    "no": (Status.TOOL_ERROR, "not today"),
    "away": (Status.UNAVAILABLE, "gone fishing"),
    "crash": (Status.CRASHED, "ValueError: a bug"),
    "exit": (Status.CRASHED, "status 3"),
    "leave": (Status.CRASHED, "SystemExit"),
    "segfault": (Status.CRASHED, "SIGSEGV"),
    "memory": (Status.CRASHED, "MemoryError"),
    "large": (Status.CRASHED, "256 KiB"),
    "object": (Status.CRASHED, "object"),
}


@pytest.mark.border
async def test_whatever_an_isolated_handler_does_costs_one_call() -> None:
    async with open_host(settings=PATIENT) as host:
        host.register(clumsy)
        for how, (status, words) in ENDS.items():
            with trio.fail_after(60):
                end = await host.execute("custom.clumsy", {"how": how})
            assert end.status is status, (how, end)
            assert words in end.message, (how, end)
            host.deregister("custom.clumsy")  # its breaker would open
            host.register(clumsy)
        pid = (await host.execute("custom.clumsy", {"how": "pid"})).data
        assert pid != os.getpid()
        assert (await host.execute("custom.clumsy", {"how": "pid"})).data == pid
        picture = await host.execute("custom.clumsy", {"how": "picture"})
        assert [item.data for item in picture.media] == [b"png"]
        call = ToolCall("1", "custom.clumsy", '{"how": "who"}')
        (who,) = await host.fan_out(
            [call],
            Caller(grant=EVERYTHING, npc="Bartok", tenant="studio", epoch=4),
            deadline=trio.current_time() + 30,
        )
        assert who.data["npc"] == "Bartok"
        assert (who.data["tenant"], who.data["epoch"]) == ("studio", 4)
        assert 0 < who.data["left"] <= 30


@pytest.mark.border
@pytest.mark.parametrize("how", ["loop", "c"])
async def test_a_process_without_an_end_is_killed_at_its_limit(how: str) -> None:
    """And meanwhile the loop runs, also if it keeps the interpreter to itself."""
    rounds = 0

    async def beat() -> None:
        nonlocal rounds
        while True:
            await trio.sleep(0.01)
            rounds += 1

    async with open_host(settings=PATIENT) as host:
        host.register(clumsy)
        pid = (await host.execute("custom.clumsy", {"how": "pid"})).data
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            end = await host.execute("custom.clumsy", {"how": how}, tier=Tier.FAST)
            nursery.cancel_scope.cancel()
        assert (end.status, end.effect) == (Status.TIMEOUT, Effect.NONE)
        assert rounds
        await gone(pid)
        again = await host.execute("custom.clumsy", {"how": "pid"})
        assert again.ok
        assert again.data != pid


@pytest.mark.border
async def test_its_processes_end_with_the_host() -> None:
    async with open_host(settings=PATIENT) as host:
        host.register(clumsy, plain)
        pid = (await host.execute("custom.clumsy", {"how": "pid"})).data
        assert (await host.execute("plain.plain", {"number": 1})).data == 2
    await gone(pid)


@pytest.mark.border
def test_a_function_of_the_program_itself_can_be_isolated(tmp_path: Path) -> None:
    program = tmp_path / "game.py"
    program.write_text(
        """
import os
import trio
from glyphoxa_trio import tool
from glyphoxa_trio.host import open_host
from glyphoxa_trio.host.measurements import CalibratorSettings
from glyphoxa_trio.tools.tier import TierLimits

@tool(isolated=True, read_only=True)
def elsewhere() -> int:
    "Say where."
    return os.getpid()

async def main():
    settings = CalibratorSettings(limits=TierLimits(deep_ceiling=30.0))
    async with open_host(settings=settings) as host:
        host.register(elsewhere)
        end = await host.execute("custom.elsewhere")
        print(end.ok and end.data != os.getpid(), end.message)

if __name__ == "__main__":
    trio.run(main)
"""
    )
    said = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert said.stdout.startswith("True"), said


class Holder:
    def method(self) -> None:
        """Bound."""


def test_what_another_process_cannot_find_is_refused_with_the_remedy() -> None:
    def local() -> None:
        """Made here."""

    def nameless() -> Any:
        return lambda: None

    for function, why in (
        (local, "defined inside another function"),
        (nameless(), "lambda"),
        (Holder().method, "bound to an object"),
    ):
        with pytest.raises(TypeError, match=f"{why}.*top level of a module"):
            tool(isolated=True, name="local")(function)
    with pytest.raises(ValueError, match="blocking or isolated, not both"):
        tool(isolated=True, blocking=True, name="ends")(
            test_its_processes_end_with_the_host
        )
