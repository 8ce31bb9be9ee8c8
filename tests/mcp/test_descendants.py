"""Descendants of a process are found and ended, however they tried to escape."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

import trio

from glyphoxa_trio.mcp.descendants import NAME, Descendants
from glyphoxa_trio.testing import hostile

from .support import gone, is_gone

pytestmark = pytest.mark.border

LIMIT = 60.0

FAMILY = """
import os, sys, time

def fork(then):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        then()
        os.write(theirs, str(os.getpid()).encode())
        os.close(theirs)
        time.sleep(3600)
    os.close(theirs)
    return int(os.read(ours, 32))

def daemon():
    if os.fork() > 0:
        os._exit(0)
    os.setsid()

def bare():
    # What was started without any environment has no mark.
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c",
        "import os, time; os.write(%d, str(os.getpid()).encode());"
        "time.sleep(3600)" % theirs], {})

print(fork(lambda: None))            # in the group
print(fork(os.setpgrp))              # in a group of its own
print(fork(os.setsid))               # in a session of its own
print(fork(daemon))                  # and without a parent
ours, theirs = os.pipe()
os.set_inheritable(theirs, True)
if os.fork() == 0:
    os.setsid()
    bare()
print(int(os.read(ours, 32)), flush=True)
time.sleep(3600)
"""


@asynccontextmanager
async def family() -> AsyncGenerator[tuple[Descendants, trio.Process, list[int]]]:
    """A process with five children, each further away than the one before."""
    descendants = Descendants()
    process = await trio.lowlevel.open_process(
        [sys.executable, "-I", "-S", "-c", FAMILY],
        stdout=subprocess.PIPE,
        env={**os.environ, **descendants.environment},
        start_new_session=True,
    )
    assert process.stdout is not None
    with trio.fail_after(LIMIT):
        try:
            async with process.stdout:
                told = b""
                while told.count(b"\n") < 5:
                    told += await process.stdout.receive_some(4096)
            yield descendants, process, [int(line) for line in told.split()]
        finally:
            with trio.CancelScope(shield=True):
                await descendants.end()
                await process.wait()


def pids(descendants: Descendants) -> set[int]:
    return {kin.pid for kin in descendants.living()}


async def test_everybody_who_came_of_a_process_is_found_and_nobody_else() -> None:
    async with family() as (descendants, process, children):
        assert pids(descendants) == {process.pid, *children}
        assert pids(Descendants()) == set()
        async with family() as (others, other, others_children):
            assert pids(others) == {other.pid, *others_children}
            assert pids(descendants) == {process.pid, *children}


async def test_everybody_is_ended_while_the_process_is_there() -> None:
    async with family() as (descendants, process, children):
        assert await descendants.end() == ()
        await process.wait()
        assert pids(descendants) == set()
        for child in children:
            await gone(child)


async def test_those_who_kept_their_environment_are_ended_after_its_death() -> None:
    async with family() as (descendants, process, children):
        process.kill()
        await process.wait()
        *marked, bare = children
        assert pids(descendants) == set(marked)
        assert await descendants.end() == ()
        for child in marked:
            await gone(child)
        # The documented limit: no parent, no group, no environment.
        os.kill(bare, 9)
        await gone(bare)


async def test_a_family_that_forks_all_the_time_is_ended() -> None:
    storm = (
        "import os, time\n"
        "for _ in range(250):\n"  # five seconds, if nobody ends it
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "    else:\n"
        "        time.sleep(0.02)\n"
        "        os._exit(0)\n"
    )  # one process at a time, never the same for long
    descendants = Descendants()
    process = await trio.lowlevel.open_process(
        [sys.executable, "-I", "-S", "-c", storm],
        env=dict(descendants.environment),
        start_new_session=True,
    )
    with trio.fail_after(LIMIT):
        await process.wait()
        before = pids(descendants)
        assert len(before) >= 1
        assert await descendants.end() == ()
        for _ in range(3):
            assert pids(descendants) == set()


async def test_nothing_is_left_open_by_looking() -> None:
    async with family() as (descendants, _, _children):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            descendants.living()
        assert await descendants.end() == ()
        assert len(os.listdir("/proc/self/fd")) == before


async def test_the_mark_is_not_shown() -> None:
    descendants = Descendants()
    assert descendants.mark not in repr(descendants)
    assert descendants.environment == {NAME: descendants.mark}
    assert descendants.mark != Descendants().mark


@pytest.mark.parametrize("folder", ["/nowhere", "/dev/null"])
async def test_without_proc_nobody_is_found(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glyphoxa_trio.mcp.descendants._PROC", folder)
    descendants = Descendants()
    assert descendants.living() == ()
    assert await descendants.end() == ()


async def test_a_process_that_has_its_pid_by_now_is_not_signalled() -> None:
    import attrs

    from glyphoxa_trio.mcp.descendants import _kin, _send

    words = hostile.command("never_reads")
    process = await trio.lowlevel.open_process(words, stdin=subprocess.PIPE)
    try:
        kin = _kin(process.pid)
        assert kin is not None
        _send(attrs.evolve(kin, began=kin.began - 1), 9)  # type: ignore[arg-type]
        with trio.move_on_after(0.2):
            await process.wait()
        assert process.returncode is None
        assert not is_gone(process.pid)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            if process.stdin is not None:
                await process.stdin.aclose()
