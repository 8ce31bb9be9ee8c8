"""Whole programs that end in the middle of things: what they started ends with them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import attrs
import pytest

from benchmarks.common import children
from glyphoxa_trio.aio import Mode

from .support import LIMIT

pytestmark = pytest.mark.border

PROGRAM = Path(__file__).parent / "program.py"
End = Literal["forgets", "closes", "exits", "waits"]


@attrs.frozen
class Program:
    process: subprocess.Popen[str]
    servers: tuple[int, ...]

    def ended(self) -> tuple[int, str]:
        """Its status and what it wrote to stderr; its servers go with it."""
        _, errors = self.process.communicate("\n", timeout=LIMIT)
        until = time.monotonic() + LIMIT
        while left := [x for x in self.servers if Path(f"/proc/{x}").exists()]:
            assert time.monotonic() < until, (left, errors)  # those were killed
            time.sleep(0.01)
        return self.process.returncode, errors


@contextmanager
def program(mode: Mode, end: End) -> Generator[Program]:
    process = subprocess.Popen(
        [sys.executable, PROGRAM, mode, end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], LIMIT)
            assert ready
            assert process.stdout.readline() == "ready\n"
            servers = children(process.pid)
            assert len(servers) == 2
            yield Program(process, tuple(servers))
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.parametrize("end", ["forgets", "closes"])
def test_a_loop_that_nobody_ends(mode: Mode, end: End) -> None:
    with program(mode, end) as one:
        status, errors = one.ended()
    assert status == 0
    # What asyncio says of a task that is left like that, and nothing else.
    said = [line for line in errors.splitlines() if line and not line.startswith(" ")]
    assert [line for line in said if not line.startswith(("Task was", "task: "))] == []


@pytest.mark.long
def test_a_program_that_exits_from_a_task(mode: Mode) -> None:
    with program(mode, "exits") as one:
        assert one.ended() == (3, "")


@pytest.mark.parametrize(
    "times", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 8))]
)
def test_a_program_that_is_interrupted(mode: Mode, times: int) -> None:
    """As often as somebody is impatient. A second Ctrl-C ends `asyncio.run` itself, and
    what it was waiting for ends all the same."""
    with program(mode, "waits") as one:
        for _ in range(times):
            os.kill(one.process.pid, signal.SIGINT)
            time.sleep(0.1)  # the pace of a hand; its servers take longer to end
        status, errors = one.ended()
    assert status == -signal.SIGINT
    said = [line for line in errors.splitlines() if line and not line.startswith(" ")]
    usual = (
        "Traceback",
        "During handling",
        "KeyboardInterrupt",
        "asyncio.exceptions.CancelledError",  # it came of that
        "Task was",
        "task: ",
    )
    assert [line for line in said if not line.startswith(usual)] == []
    assert "KeyboardInterrupt" in said
