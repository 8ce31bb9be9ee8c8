"""The cost of importing the package on top of trio.

Promised: ``import glyphoxa_trio`` takes at most 60 ms more than ``import trio``,
and loads none of the heavy libraries that come when they are used: the MCP SDK,
httpx2, jsonschema_rs, ruamel.yaml, cattrs, rich, typer.

Measured: fifteen interpreters a run, one after the other; each imports trio and
then the package, and times trio alone and both together; and once more until
`open_runtime` is there, because what the package offers is imported when it is
asked for. Byte code is compiled already. Against: trio alone, so that what is
*added* is the package. Whatever of the heavy libraries is in ``sys.modules``
afterwards is counted, and none may be.
"""

from __future__ import annotations

import json
import subprocess
import sys

import attrs

from benchmarks.common import Benchmark, Budget, Figure, figure, main

HEAVY = ("mcp", "httpx2", "jsonschema_rs", "ruamel", "cattrs", "rich", "typer")
PROGRAM = f"""
import json, sys
from time import perf_counter
begun = perf_counter()
import trio
between = perf_counter()
import glyphoxa_trio
end = perf_counter()
from glyphoxa_trio import open_runtime
whole = perf_counter()
heavy = sorted({{name.partition(".")[0] for name in sys.modules}} & set({HEAVY!r}))
print(json.dumps([between - begun, end - begun, whole - begun, heavy]))
"""


@attrs.frozen
class _Imported:
    """Seconds for trio, for trio and the package, and until a runtime can be opened."""

    trio: float
    both: float
    whole: float
    heavy: list[str]


def measure(quick: bool) -> list[Figure]:
    _import()  # compiles what has no byte code yet
    every = [_import() for _ in range(2 if quick else 15)]
    heavy = max((one.heavy for one in every), key=len)
    if heavy:
        print(f"loaded: {', '.join(heavy)}", file=sys.stderr)
    return [
        figure(
            "trio and glyphoxa_trio",
            [one.both for one in every],
            unit="ms",
            bare=[one.trio for one in every],
        ),
        figure(
            "and open_runtime",
            [one.whole for one in every],
            unit="ms",
            bare=[one.trio for one in every],
        ),
        Figure(name="heavy libraries", unit="", n=len(HEAVY), p50=len(heavy)),
    ]


def _import() -> _Imported:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, check=True
    )
    return _Imported(*json.loads(done.stdout))


BENCHMARK = Benchmark(
    name="import_time",
    promise="importing takes at most 60 ms above trio, and loads nothing heavy",
    measure=measure,
    budgets=(
        Budget(figure="trio and glyphoxa_trio", statistic="added", at_most=60),
        Budget(figure="heavy libraries", statistic="p50", at_most=0),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
