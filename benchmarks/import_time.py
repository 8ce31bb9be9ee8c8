"""What it costs to import `open_runtime`, and to call it for the first time.

Promised: ``from glyphoxa_trio import open_runtime`` takes at most 60 ms more than
``import trio``, and loads none of the heavy libraries: the MCP SDK, pydantic, httpx2,
jsonschema_rs, apsw, ruamel.yaml, cattrs, structlog, prometheus_client, rich, typer,
hypothesis, starlette. What is put off is shown beside it: the first call of
`open_runtime` imports most of the package, and the second is of a process that has it.

Measured: seven processes a run, one after the other, whose byte code is compiled. Each
times ``import trio``, then ``from glyphoxa_trio import open_runtime``, then opens a
runtime of one NPC and no server, of a `Config` made in code: from the call until the
block is entered, importing included, and then its first turn, with a roll of dice.
Then the same again, in the same process. Another seven open the file that is shipped as
the demo, which has one server on stdio and no catalogue of it from an earlier run.

    open_runtime imported    together with trio; against trio alone
    above trio, least        the least of seven less the least of trio: what is promised
    open_runtime called      the first call; against the second
    the demo opened          the first call, of a file; against the second
    the first turn           in the first runtime; against that of the second
    heavy libraries          how many of them are loaded once the name is there
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs

from benchmarks.common import Benchmark, Budget, Figure, figure, main

DEMO = Path(__file__).parents[1] / "config" / "tavern.yaml"
PROCESSES = 7
HEAVY = (
    *("mcp", "pydantic", "httpx2", "jsonschema_rs", "apsw", "ruamel", "cattrs"),
    *("structlog", "prometheus_client", "rich", "typer", "hypothesis", "starlette"),
)
PROGRAM = f"""
import json, sys
from time import perf_counter

begun = perf_counter()
import trio
between = perf_counter()
from glyphoxa_trio import open_runtime
imported = perf_counter()
heavy = sorted({{name.partition(".")[0] for name in sys.modules}} & set({HEAVY!r}))


async def once(config):
    begun = perf_counter()
    async with open_runtime(config() if callable(config) else config) as runtime:
        opened = perf_counter()
        async with runtime.npc(runtime.npcs[0].name).say("roll 2d6+3") as turn:
            done = await turn.finish()
        turned = perf_counter()
        if not done.outcomes:
            raise SystemExit(f"no dice were rolled: {{done}}")
    return opened - begun, turned - opened


def config():
    from glyphoxa_trio import Config
    from glyphoxa_trio.config import NpcConfig

    return Config(npcs=(NpcConfig(name="Bo", tools=("roll",)),))


async def main():
    given = sys.argv[1] if len(sys.argv) > 1 else config
    return [await once(given), await once(given)]


first, second = trio.run(main)
print(json.dumps([between - begun, imported - begun, *first, *second, heavy]))
"""


@attrs.frozen
class _Seen:
    """Of one process, seconds: ``both`` is trio and the package."""

    trio: float
    both: float
    opened: float
    turned: float
    opened_again: float
    turned_again: float
    heavy: list[str]


def measure(quick: bool) -> list[Figure]:
    _look()  # compiles what has no byte code yet
    n = 2 if quick else PROCESSES
    in_code = [_look() for _ in range(n)]
    demo = [_look(str(DEMO)) for _ in range(n)]
    heavy = max((one.heavy for one in in_code), key=len)
    if heavy:
        print(f"loaded: {', '.join(heavy)}", file=sys.stderr)
    least = min(x.both for x in in_code) - min(x.trio for x in in_code)
    return [
        figure(
            "open_runtime imported",
            [one.both for one in in_code],
            unit="ms",
            bare=[one.trio for one in in_code],
        ),
        Figure(name="above trio, least", unit="ms", n=n, p50=1000 * least),
        figure(
            "open_runtime called",
            [one.opened for one in in_code],
            unit="ms",
            bare=[one.opened_again for one in in_code],
        ),
        figure(
            "the demo opened",
            [one.opened for one in demo],
            unit="ms",
            bare=[one.opened_again for one in demo],
        ),
        figure(
            "the first turn",
            [one.turned for one in in_code],
            unit="ms",
            bare=[one.turned_again for one in in_code],
        ),
        Figure(name="heavy libraries", unit="", n=len(HEAVY), p50=len(heavy)),
    ]


def _look(*config: str) -> _Seen:
    with tempfile.TemporaryDirectory() as folder:  # nothing of an earlier run
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *config],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "XDG_STATE_HOME": folder},
        )
    return _Seen(*json.loads(done.stdout))


BENCHMARK = Benchmark(
    name="import_time",
    promise="importing open_runtime takes at most 60 ms above trio and is light",
    measure=measure,
    budgets=(
        Budget(figure="above trio, least", statistic="p50", at_most=60),
        Budget(figure="heavy libraries", statistic="p50", at_most=0),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
