"""The cost of a call of one of our servers over stdio, and of its start.

Promised: a Duality roll on our server takes at most 0.35 of the same roll on the
SDK's high-level server, by the medians; and the answer to ``initialize`` comes within
300 ms of the start of the process.

Measured: a client that writes a line and reads a line, without any library, and two
servers as processes: ``glyphoxa serve duality`` and ``servers/sdk_duality.py``, which
calls the same function on trio as well. They take turns. A roll has arguments, is
checked against its schema, and is answered with structured content.

    a call            one after the other, each timed by itself
    64 at once        64 requests are written, then 64 answers read; by request
    first answer      from the start of a process to the answer, in turns
    first call        from the start of a process to the answer of a roll
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import IO, Any, Final

import attrs

from benchmarks.common import Benchmark, Budget, Figure, figure, main

OURS: Final = (str(Path(sys.executable).with_name("glyphoxa")), "serve", "duality")
THEIRS: Final = (
    sys.executable,
    str(Path(__file__).parent / "servers" / "sdk_duality.py"),
)
TURN: Final = 100  # calls before the other one's turn
AT_ONCE: Final = 64

INTRODUCTION: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
ROLL: Final = {
    "name": "duality_action_roll",
    "arguments": {"modifier": 2, "difficulty": 15},
}


def measure(quick: bool) -> list[Figure]:
    calls, volleys, starts = (200, 2, 2) if quick else (5000, 50, 20)
    begun: dict[Sequence[str], list[float]] = {OURS: [], THEIRS: []}
    rolled: dict[Sequence[str], list[float]] = {OURS: [], THEIRS: []}
    for _ in range(starts):
        for command in (THEIRS, OURS):
            first, call = _start(command)
            begun[command].append(first)
            rolled[command].append(call)
    with _served(OURS) as ours, _served(THEIRS) as theirs:
        return [
            _in_turns("a call", _one_by_one, ours, theirs, calls, TURN),
            _in_turns(f"{AT_ONCE} at once", _volleys, ours, theirs, volleys, 5),
            figure("first answer", begun[OURS], unit="ms", bare=begun[THEIRS]),
            figure("first call", rolled[OURS], unit="ms", bare=rolled[THEIRS]),
        ]


@attrs.define
class Client:
    """Lines to a process and from it, through its pipes."""

    _calls: IO[bytes]
    _answers: IO[bytes]
    _last: int = 0

    def write(self, method: str, params: dict[str, Any]) -> None:
        self._last += 1
        call = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._calls.write(json.dumps(call).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._answers.readline())
        return message

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.write(method, params)
        self._calls.flush()
        answer = self.read()
        assert answer["id"] == self._last
        result: dict[str, Any] = answer["result"]
        return result

    def roll(self) -> None:
        assert 4 <= self.ask("tools/call", ROLL)["structuredContent"]["total"] <= 26

    def volley(self) -> None:
        for _ in range(AT_ONCE):
            self.write("tools/call", ROLL)
        self._calls.flush()
        for _ in range(AT_ONCE):
            assert "structuredContent" in self.read()["result"]


@contextmanager
def _process(command: Sequence[str]) -> Iterator[Client]:
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        yield Client(server.stdin, server.stdout)
        server.stdin.close()


@contextmanager
def _served(command: Sequence[str]) -> Iterator[Client]:
    with _process(command) as client:
        client.ask("initialize", INTRODUCTION)
        yield client


def _start(command: Sequence[str]) -> tuple[float, float]:
    begun = perf_counter()
    with _process(command) as client:
        client.ask("initialize", INTRODUCTION)
        first = perf_counter() - begun
        client.roll()
        return first, perf_counter() - begun


def _in_turns(
    name: str,
    timed: Callable[[Client, int], list[float]],
    ours: Client,
    theirs: Client,
    n: int,
    turn: int,
) -> Figure:
    """``n`` samples of each; the first turn warms up."""
    took: list[float] = []
    bare: list[float] = []
    for _ in range(1 + -(-n // turn)):
        bare += timed(theirs, turn)
        took += timed(ours, turn)
    return figure(name, took[turn:], unit="µs", bare=bare[turn:])


def _one_by_one(client: Client, n: int) -> list[float]:
    took: list[float] = []
    for _ in range(n):
        begun = perf_counter()
        client.roll()
        took.append(perf_counter() - begun)
    return took


def _volleys(client: Client, n: int) -> list[float]:
    took: list[float] = []
    for _ in range(n):
        begun = perf_counter()
        client.volley()
        took.append((perf_counter() - begun) / AT_ONCE)
    return took


BENCHMARK = Benchmark(
    name="serve_stdio",
    promise="a call of our server takes at most 0.35 of the SDK's time, and 300 ms"
    " after its start it answers",
    measure=measure,
    budgets=(
        Budget(figure="a call", statistic="ratio", at_most=0.35),
        Budget(figure="first answer", statistic="p50", at_most=300),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
