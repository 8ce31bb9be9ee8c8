"""An NPC as an agent of LiveKit, beside an agent with LiveKit's own model.

Promised: the first sentence comes at most 3 ms later (median), a tool's server is told
of an interruption within 10 ms (p99), and a tool that hangs ends with its turn's time
for tools, 1.5 s.

Measured: both agents in one process, in turns, in LiveKit's sessions without a room, at
one model server in a process of its own, which streams a word every 5 ms. LiveKit's
agent has its OpenAI plugin; the NPC has a tool server over stdio
(``servers/patient.py``), LiveKit's agent a function that sleeps. Needs LiveKit in its
Python (``make peers``).

    first sentence   from the user's text until it is at LiveKit's text output
    tool stops       from the interruption until the server has read that it should stop
    hung tool        from the user's text until the answer has ended

LiveKit's own tool goes on after an interruption and while it hangs: it is given up
after 5 s, which is what its column has then.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Budget, Figure, figure, main

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = ROOT / "tests" / "frameworks" / ".livekit" / "bin" / "python"
LASTS: Final = 600.0  # seconds, at the very most
NEVER: Final = 5.0


def measure(quick: bool) -> list[Figure]:
    if not PYTHON.exists():
        raise RuntimeError("LiveKit is not installed for this: make peers")
    module, rounds = "benchmarks.frameworks.livekit_sessions", 10 if quick else 200
    done = subprocess.run(
        [PYTHON, "-m", module, str(rounds)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LASTS,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])

    def times(key: str) -> list[float]:
        return [NEVER if took is None else took for took in found[key]]

    return [
        figure("first sentence", times("first"), unit="ms", bare=times("their_first")),
        figure("tool stops", times("stopped"), unit="ms", bare=times("their_stopped")),
        figure("hung tool", times("hung"), unit="s", bare=times("their_hung")),
    ]


BENCHMARK = Benchmark(
    name="livekit",
    promise="an NPC in LiveKit answers within 3 ms of its own model, and stops in 10",
    measure=measure,
    budgets=(
        Budget(figure="first sentence", statistic="added", at_most=3),
        Budget(figure="tool stops", statistic="p99", at_most=10),
        Budget(figure="hung tool", statistic="p50", at_most=2),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
