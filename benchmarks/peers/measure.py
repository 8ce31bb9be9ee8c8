"""The measurements, the same for each client. Needs only anyio and Python.

    {"call": [...], "four": [...], "limit": [...], "turn": [...], "told": 10,
     "kept": [...], "after_crash": {"failed": 1, "seconds": 1.04}}

Times are seconds, and null is never.

A client is whatever has ``call(name, arguments)``; ``limited`` is a call of at most
half a second, by the client's own means, and ``fan_out`` several of them.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter
from typing import Any, Protocol

import anyio

LIMIT = 0.5
HUNG = {"seconds": 10.0}
MOST_OF_IT = {"seconds": 0.4}
QUICK = {"seconds": 0.02}
GIVES_UP = 10.0  # seconds after a crash


class Client(Protocol):
    async def call(self, name: str, arguments: dict[str, Any]) -> str: ...

    async def limited(self, name: str, arguments: dict[str, Any]) -> str | None:
        """The answer, or None if the limit came first."""
        ...

    async def fan_out(
        self, calls: list[tuple[str, dict[str, Any]]]
    ) -> list[str | None]:
        """The answers that came within the limit, in order."""
        ...

    async def turn(self, rounds: list[tuple[str, dict[str, Any]]]) -> None:
        """One call after the other, all of them within the limit, if it can."""
        ...


def text_of(answer: Any) -> str:
    """Return the text of a result of the SDK's."""
    return str(answer.content[0].text)


class EachByItself:
    """A fan-out for clients that have none: calls side by side, each limited."""

    async def limited(self, name: str, arguments: dict[str, Any]) -> str | None:
        raise NotImplementedError

    async def fan_out(
        self, calls: list[tuple[str, dict[str, Any]]]
    ) -> list[str | None]:
        answers: list[str | None] = [None] * len(calls)

        async def one(at: int) -> None:
            answers[at] = await self.limited(*calls[at])

        async with anyio.create_task_group() as group:
            for at in range(len(calls)):
                group.start_soon(one, at)
        return answers

    async def turn(self, rounds: list[tuple[str, dict[str, Any]]]) -> None:
        """There is a limit for each call, and none for all."""
        for one in rounds:
            await self.limited(*one)


async def measure(client: Client, calls: int) -> None:
    """Print one line of JSON. With few calls there is little waiting, too."""
    waits, patience = (5, GIVES_UP) if calls >= 100 else (1, 1.0)
    for _ in range(20):
        await client.call("echo", {})
    took: list[float] = []
    for _ in range(calls):
        begun = perf_counter()
        await client.call("echo", {})
        took.append(perf_counter() - begun)
    four: list[float] = []
    for _ in range(max(10, calls // 10)):
        begun = perf_counter()
        answers = await client.fan_out([("wait", QUICK)] * 4)
        four.append(perf_counter() - begun)
        assert answers.count("done") == 4, answers
    limit: list[float] = []
    for _ in range(waits):
        begun = perf_counter()
        assert await client.limited("wait", HUNG) is None
        limit.append(perf_counter() - begun)
    kept: list[int] = []
    for _ in range(waits):
        answers = await client.fan_out([("wait", QUICK)] * 3 + [("wait", HUNG)])
        kept.append(sum(answer == "done" for answer in answers))
    told = int(await client.call("cancelled", {}))
    turn: list[float] = []
    for _ in range(waits):
        begun = perf_counter()
        # Another tool: ours knows by now how long the one above takes, and would
        # not even begin.
        await client.turn([("pause", MOST_OF_IT)] * 2)
        turn.append(perf_counter() - begun)
    print(
        json.dumps(
            {
                "call": took,
                "four": four,
                "limit": limit,
                "turn": turn,
                "told": told,
                "kept": kept,
                "after_crash": await _after_a_crash(client, patience),
            }
        ),
        flush=True,
    )


async def _after_a_crash(client: Client, patience: float) -> dict[str, Any]:
    """Count the calls that fail after the server's death, and for how long."""
    try:
        with anyio.move_on_after(2):
            await client.call("die", {})
    except Exception as error:  # border: each client has its own way to say so
        print(f"died: {type(error).__name__}", file=sys.stderr)
    begun, failed = perf_counter(), 0
    while perf_counter() - begun < patience:
        try:
            with anyio.fail_after(2):
                if await client.call("echo", {}) == "done":
                    return {"failed": failed, "seconds": perf_counter() - begun}
        except Exception:  # border: as above
            failed += 1
        await anyio.sleep(0.05)
    return {"failed": failed, "seconds": None}
