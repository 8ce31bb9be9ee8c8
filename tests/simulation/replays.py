"""``make replays``: many random scenarios, recorded and replayed, to the byte.

    python -m tests.simulation.replays [NUMBER] [SEED]

So many of each kind: one table, several tables with room for fewer, equal calls, and a
model that speaks by itself.
Exit status 1 if one is not the same; its seed is told.
"""

from __future__ import annotations

import sys
from time import perf_counter

from glyphoxa_trio.observability.recording.format import recorded
from glyphoxa_trio.simulation.replay.again import replay

from .test_replay import crowded_session, random_session, random_tables
from .test_replay_speech import random_spoken

KINDS = (random_session, random_tables, crowded_session, random_spoken)


def main(number: int = 1000, first: int = 0) -> int:
    began, different = perf_counter(), 0
    for make in KINDS:
        name = make.__name__.replace("_", " ")
        wrong = 0
        for seed in range(first, first + number):
            again = replay(recorded(make(seed)))
            if not again.same or again.notes:
                wrong += 1
                told = "\n".join((*again.notes, *again.difference))
                print(f"{name}, seed {seed}:\n{told}")  # noqa: T201
        took = perf_counter() - began
        print(f"{name}: {number - wrong} of {number} are the same, {took:.0f} s")  # noqa: T201
        different += wrong
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
