"""Ctrl-C and SIGTERM end the program in the midst of whatever servers do to it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio.testing import hostile
from tests.cli.support import COMMAND, environment

from .catalogue import CASES, Case

GROUPS = 2
PART = 8
WITHIN = 30.0  # seconds to its first words
MIDST = 1.5  # seconds that the servers have it to themselves
AGAIN = 0.2  # seconds between the first Ctrl-C and the second
ENDS = 2.0  # seconds that the end may take …
SLACK = 4.0  # … and what a loaded machine may add, where bad servers compute, too

CHOSEN = [case for case in CASES.values() if not case.http][::PART]
COMPANY = [CHOSEN[number::GROUPS] for number in range(GROUPS)]


def entry(case: Case, name: str) -> dict[str, Any]:
    command = hostile.command(case.behaviour, **case.options)
    return {"name": name, "command": list(command), "timeout_ms": 5_000}


async def end(table: Path, number: signal.Signals) -> tuple[float, int, bytes]:
    """Play, and be told to end in the midst of it: seconds, status, stderr."""
    process = await trio.lowlevel.open_process(
        [str(COMMAND), "play", str(table)],
        stdin=-1,
        stdout=-1,
        stderr=-1,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    said = bytearray()
    async with trio.open_nursery() as nursery:

        async def hear(stream: trio.abc.ReceiveStream, into: bytearray) -> None:
            async for data in stream:
                into += data
                spoke.set()

        spoke = trio.Event()
        assert process.stderr is not None
        nursery.start_soon(hear, process.stdout, bytearray())
        nursery.start_soon(hear, process.stderr, said)
        asked = time.monotonic()
        try:
            with trio.fail_after(WITHIN):
                await spoke.wait()
            with trio.move_on_after(MIDST):
                # Lines that wait would be a turn each, for a Ctrl-C of its own.
                await process.stdin.send_all(b"bad bad\n")
                await trio.sleep_forever()
            asked = time.monotonic()
            process.send_signal(number)
            if number is signal.SIGINT:  # the first one is for the NPC that speaks
                with trio.move_on_after(AGAIN):
                    await process.wait()
                process.send_signal(number)
            with trio.fail_after(ENDS + SLACK):
                await process.wait()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        took = time.monotonic() - asked
        nursery.cancel_scope.cancel()
    assert process.returncode is not None
    return took, process.returncode, bytes(said)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
async def test_a_signal_ends_the_program_in_bad_company(
    tmp_path: Path, group: int
) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[group % 2]
    cases = COMPANY[group]
    servers = [entry(case, f"bad{at}") for at, case in enumerate(cases)]
    tools = [f"{server['name']}.bad" for server in servers]
    table = tmp_path / "table.json"
    npc = {"name": "Bo", "tools": tools, "budget_tier": "deep"}
    table.write_text(json.dumps({"npcs": [npc], "mcp": {"servers": servers}}))
    took, status, said = await end(table, number)
    assert status in (0, 130, 143, -number), said.decode(errors="replace")[-2000:]
    assert b"Traceback" not in said, said.decode(errors="replace")[-3000:]
    assert took < ENDS + SLACK
