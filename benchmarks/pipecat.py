"""An NPC in a pipeline of Pipecat, beside that framework's own service for models.

Promised: the TTS service is given the first sentence at most 3 ms later than from the
framework's own service; an interruption reaches a running tool within 10 ms; a tool
that never ends costs the turn no more than its ceiling, half a second; and with forty
calls in one process the NPC takes at most 20 ms of a first sentence.

Measured: both in one process and in turns, with the same model server in a process of
its own, which sends a word every 5 ms (``servers/ponderer.py``). Ours is `NpcProcessor`
on a runtime that is a guest of the loop, theirs `OpenAILLMService`, and both send the
same conversation: forty turns, or one where that is said. The forty calls have a model
in the same process, which writes a word every 20 ms; each says something every 4 s.

    first sentence, as text    from the end of the user turn until the model's processor
                               has pushed it; theirs is pushed in pieces, ours when it
                               is known to be over, which is a word later
    first sentence, to speak   until the TTS service is given it, which waits for that
                               word in either case
    ..., new conversation      the same, in the second turn
    interruption to tool       from the interruption until a tool that runs knows of it:
                               ours in a server over stdio, theirs in a function
    a hung tool                from its start until the call is over; 5 s is never
    40 calls: model asked      from the end of the user turn
    40 calls: to speak         from the word that ends a first sentence until the TTS
                               service is given it
    40 calls: ours             the sum of both, in each turn

It needs the environment of that framework: ``make peers``.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Budget, Figure, figure, main

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = ROOT / "tests" / "frameworks" / ".pipecat" / "bin" / "python"
LASTS: Final = 300.0  # seconds, at the very most


def measure(quick: bool) -> list[Figure]:
    if not PYTHON.exists():
        raise SystemExit("Pipecat is not installed beside: make peers")
    found = _run("pipecat_turns", 10 if quick else 200)
    calls = _run("pipecat_calls", 1 if quick else 10)
    hung, endless = [found["hung"]], [found["their_hung"]]
    return [
        figure(
            "first sentence, as text", found["ours"], unit="ms", bare=found["theirs"]
        ),
        figure(
            "first sentence, to speak",
            found["voice"],
            unit="ms",
            bare=found["their_voice"],
        ),
        figure(
            "first sentence, new conversation",
            found["new"],
            unit="ms",
            bare=found["their_new"],
        ),
        figure(
            "interruption to tool", found["told"], unit="ms", bare=found["their_told"]
        ),
        figure("a hung tool", hung, unit="ms", bare=endless),
        figure("40 calls: model asked", calls["asked"], unit="ms"),
        figure("40 calls: to speak", calls["spoken"], unit="ms"),
        figure("40 calls: ours", calls["ours"], unit="ms"),
        Figure(
            name="40 calls: processor",
            unit="% of a core",
            n=1,
            p50=100 * calls["processor"][0],
        ),
    ]


def _run(module: str, turns: int) -> dict[str, Any]:
    ran = subprocess.run(
        [PYTHON, "-m", f"benchmarks.peers.{module}", str(turns)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LASTS,
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


BENCHMARK = Benchmark(
    name="pipecat",
    promise="in Pipecat the first sentence is at most 3 ms later, and tools end",
    measure=measure,
    budgets=(
        Budget(figure="first sentence, to speak", statistic="added", at_most=3),
        Budget(figure="first sentence, new conversation", statistic="added", at_most=3),
        Budget(figure="interruption to tool", statistic="p99", at_most=10),
        Budget(figure="a hung tool", statistic="p99", at_most=600),
        Budget(figure="40 calls: ours", statistic="p99", at_most=20),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
