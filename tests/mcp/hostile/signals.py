"""`glyphoxa play` beside bad servers, told to end in the midst of them.

    python -m tests.mcp.hostile.signals [PART OF A NAME ...]

does it with Ctrl-C twice and with SIGTERM beside every behaviour of the catalogue, a
few at a time, as `make hostile` does at its end: one line for each, ``MISSED`` where
the end took longer than two seconds, or was a traceback. Then each of them is alone
with it once more, to find who it was.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.testing import hostile
from tests.cli.support import COMMAND, environment

from .catalogue import CASES, Case

WITHIN: Final = 60.0  # seconds to its first words
MIDST: Final = 1.5  # seconds that the servers have it to themselves
AGAIN: Final = 0.2  # seconds between the first Ctrl-C and the second
ENDS: Final = 2.0  # seconds that the end may take
LIMIT: Final = 60.0  # seconds until a program counts as one that does not end
TOGETHER: Final = 6  # bad servers at once, in the long form
LINES: Final = 50  # that wait in the pipe: none of them is worth a Ctrl-C of its own
STATUSES: Final = (0, 130, 143, -2, -15)


@attrs.frozen
class End:
    """How a program ended: after how many seconds, and with which last words."""

    took: float
    status: int
    said: str

    @property
    def was_clean(self) -> bool:
        return self.status in STATUSES and "Traceback" not in self.said


async def end(
    cases: Sequence[Case], number: signal.Signals, *, within: float = LIMIT
) -> End:
    """Play beside these servers, and be told to end in the midst of it; killed if it
    does not end ``within`` so many seconds."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = [
            await _entry(stack, case, f"bad{at}") for at, case in enumerate(cases)
        ]
        tools = [server["name"] for server in servers]  # whatever they have
        npc = {"name": "Bo", "tools": tools, "budget_tier": "deep"}
        table = Path(folder) / "table.json"
        table.write_text(json.dumps({"npcs": [npc], "mcp": {"servers": servers}}))
        return await _end(table, number, within)


async def _entry(stack: AsyncExitStack, case: Case, name: str) -> dict[str, Any]:
    if case.http:
        web = hostile.open_web(case.behaviour, http=case.http, **case.options)
        spec = await stack.enter_async_context(web)
        return {"name": name, "url": spec.url, "timeout_ms": 5_000}
    command = hostile.command(case.behaviour, **case.options)
    return {"name": name, "command": list(command), "timeout_ms": 5_000}


async def _end(table: Path, number: signal.Signals, within: float) -> End:
    process = await trio.lowlevel.open_process(
        [str(COMMAND), "play", str(table)],
        stdin=-1,
        stdout=-1,
        stderr=-1,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    said = bytearray()
    spoke = trio.Event()

    async def hear(stream: trio.abc.ReceiveStream, into: bytearray) -> None:
        async for data in stream:
            into += data
            spoke.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hear, process.stdout, bytearray())
        nursery.start_soon(hear, process.stderr, said)
        try:
            with trio.move_on_after(WITHIN):
                await spoke.wait()
            with trio.move_on_after(MIDST):
                await process.stdin.send_all(b"bad bad\n" * LINES)
                await trio.sleep_forever()
            asked = time.monotonic()
            process.send_signal(number)
            if number is signal.SIGINT:  # the first one is for the NPC that speaks
                with trio.move_on_after(AGAIN):
                    await process.wait()
                asked = time.monotonic()
                process.send_signal(number)
            with trio.move_on_after(within):
                await process.wait()
            took = time.monotonic() - asked
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        nursery.cancel_scope.cancel()
    assert process.returncode is not None
    return End(took, process.returncode, said.decode(errors="replace"))


async def endings(cases: Sequence[Case]) -> list[str]:
    """Each of them, some at a time; the names of those beside which it missed."""
    missed: list[str] = []
    for at in range(0, len(cases), TOGETHER):
        company = cases[at : at + TOGETHER]
        for number in (signal.SIGINT, signal.SIGTERM):
            if await _one(company, number):
                continue
            alone = [case.name for case in company if not await _one([case], number)]
            missed += [f"{name} {number.name}" for name in alone]
    return missed


async def _one(company: Sequence[Case], number: signal.Signals) -> bool:
    names = " ".join(case.name for case in company)
    seen = await end(company, number, within=4 * ENDS)
    fine = seen.was_clean and seen.took <= ENDS
    print(
        f"{number.name:8} {seen.took:5.2f} s  status {seen.status:4}"
        + (f"  {names}" if fine else f"  MISSED {names} {seen.said[-300:]!r}"),
        flush=True,
    )
    return fine


async def main() -> int:
    parts = sys.argv[1:]
    chosen = [
        case
        for case in CASES.values()
        if not parts or any(part in case.name for part in parts)
    ]
    missed = await endings(chosen)
    print(f"{len(chosen)} behaviours, {len(missed)} ends missed: {missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(trio.run(main))
