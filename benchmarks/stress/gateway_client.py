"""Clients of the gateway in a process of their own: `benchmarks.gateway` starts it.

    python -m benchmarks.stress.gateway_client URL turns COUNT
    python -m benchmarks.stress.gateway_client URL crowd IDLE TALKING SECONDS

It writes one JSON object: milliseconds until the first sentence and until the end, the
number of messages a turn took, and turns that did not end well.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "clients" / "python"))

import anyio
from glyphoxa_client import Client, connect

EVERY = 10.0  # seconds between two turns of one who talks


class Counted:
    """What was seen of all turns."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.whole: list[float] = []
        self.messages: list[int] = []
        self.failed = 0


def counting(client: Client) -> Callable[[], int]:
    """Return what counts the messages of events that a client was sent."""
    seen = 0
    take = client._take

    def counted(message: dict[str, Any]) -> None:
        nonlocal seen
        seen += message["type"] == "events"
        take(message)

    client._take = counted  # type: ignore[method-assign]
    return lambda: seen


async def speak(client: Client, session: str, counted: Counted) -> None:
    began = perf_counter()
    first: float | None = None
    async with client.say("Good evening!", npc="Bo", session=session) as answer:
        async for event in answer:
            if first is None and event["event"] == "Sentence":
                first = perf_counter() - began
    counted.whole.append((perf_counter() - began) * 1000)
    if first is None or answer.done is None or answer.done["end"] != "completed":
        counted.failed += 1
    else:
        counted.first.append(first * 1000)


async def turns(url: str, count: int, counted: Counted) -> None:
    async with connect(url) as client:
        messages = counting(client)
        for _ in range(count):
            before = messages()
            await speak(client, "one", counted)
            counted.messages.append(messages() - before)


async def crowd(
    url: str, idle: int, talking: int, seconds: float, counted: Counted
) -> None:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connect(url)) for _ in range(idle + talking)
        ]
        print("ready", flush=True)
        chance = Random(1)

        async def talk(client: Client, session: str, wait: float) -> None:
            await anyio.sleep(wait)
            while True:
                await speak(client, session, counted)
                await anyio.sleep(EVERY)

        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                for number, client in enumerate(clients[:talking]):
                    wait = chance.random() * EVERY
                    tasks.start_soon(talk, client, f"table {number}", wait)
        print("over", flush=True)


async def main() -> None:
    url, what, *numbers = sys.argv[1:]
    counted = Counted()
    if what == "turns":
        await turns(url, int(numbers[0]), counted)
    else:
        idle, talking, seconds = numbers
        await crowd(url, int(idle), int(talking), float(seconds), counted)
    print(json.dumps(vars(counted)), flush=True)


if __name__ == "__main__":
    anyio.run(main)
