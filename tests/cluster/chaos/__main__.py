"""Kill workers, each in the middle of something, and count what is broken.

    python -m tests.cluster.chaos [COUNT] [--seed N]

While a session is quiet, in a turn, in a side effect, in a claim, in a drain: so COUNT
workers are killed. Meanwhile others are stopped, links are cut, held and halved, NATS
and PostgreSQL are restarted, and the disk of the database is full. The servers are
real, and the workers are processes. Prints what was done, what was said, and what must
be zero; the exit status is 1 if something of that is not.
"""

from __future__ import annotations

import argparse
import random
import sys

from .run import NoServer, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos")
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    asked = parser.parse_args()
    sys.stdout.write(f"{asked.count} kills, --seed {asked.seed}\n")
    sys.stdout.flush()
    try:
        report = run(asked.count, asked.seed)
    except NoServer as missing:
        sys.exit(str(missing))
    sys.stdout.write("\n".join(report.lines()) + "\n")
    sys.exit(not report.is_well)


if __name__ == "__main__":
    main()
