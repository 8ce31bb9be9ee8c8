"""A worker as a process of its own: ``python -m tests.cluster.worker_process NATS
DATABASE LEDGER``. Its side effects append a line to the ledger, a file.

It prints its name once it serves. SIGTERM drains it.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import attrs

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.cluster import ownership, serve
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.tier import TierLimits

from ..npc.support import ScriptedLLM, call
from ..runtime.test_snapshots import with_room
from ..runtime.test_turn_keeper import silent
from .conftest import STILL

LIMIT = 60.0  # seconds
PATIENT = TierLimits(fast_ceiling=LIMIT, standard_ceiling=LIMIT, deep_ceiling=LIMIT)


def think(request: LLMRequest) -> list[Any]:
    """Answer with how often the player has spoken; slowly, or with an effect."""
    last = request.messages[-1]
    if last.role == "tool":
        return [f"It says {last.content[:60]}."]
    said = str(last.content)
    heard = [str(x.content) for x in request.messages if x.role == "user"]
    if "slowly" in said:
        return [3.0, "At last. ", f"Heard {len(heard)}."]
    if "story" in said:
        return [x for n in range(30) for x in (f"Sentence {n}. ", 0.2)]
    if "pay" in said:
        return [call("pay", '{"whom": "' + said.rpartition(" ")[2] + '"}')]
    return [f"Heard {len(heard)}: {heard[0][-20:]}."]


def ledger_of(path: Path) -> Tool:
    @tool(read_only=False)
    async def pay(whom: str) -> str:
        """Pay somebody."""
        with path.open("a") as ledger:
            ledger.write(f"{whom}\n")
        await trio.sleep(LIMIT)  # it is killed meanwhile
        return "paid"

    return pay


async def main(nats_url: str, database: str, ledger: str) -> None:
    ownership.STILL = STILL  # type: ignore[misc]
    async with (
        open_postgres(database) as store,
        open_runtime(
            attrs.evolve(silent(with_room(1000)), tiers=PATIENT),
            llm=ScriptedLLM(think),
            tools=[ledger_of(Path(ledger))],
            memory=store,
        ) as runtime,
        open_nats(nats_url) as nats,
        serve(runtime, nats) as worker,
    ):
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            sys.stdout.write(f"{worker.name}\n")
            sys.stdout.flush()
            async for _ in signals:
                await worker.drained(within=5.0)
                return


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
