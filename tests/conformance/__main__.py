"""Run the official conformance suite against our client and our servers:
``make conformance``.

    python -m tests.conformance [PLAN or SCENARIO …]

Every scenario that the suite has is run, or left out for a reason (`expected.toml`,
`servers.toml`). One that does not come as expected, in either direction, is run once
more. Ends with status 1 if it is wrong again or three were unsteady, 2 if the suite is
not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import trio

from .clients import run_clients
from .judge import FILE, SERVERS, read
from .servers import run_servers
from .suite import NODE

UNSTEADY = 3  # so many are a problem


async def main(chosen: Sequence[str]) -> int:
    if not NODE.exists():
        print("the conformance suite is not installed: make peers", file=sys.stderr)
        return 2
    ran, wrong = await _run(chosen)
    unsteady: list[str] = []
    if wrong and ran:
        # Other people's programs, real sockets and timers: each gets another try.
        print("once more", *wrong, sep="\n  ", flush=True)
        _, again = await _run([word for text in wrong for word in text.split()])
        unsteady = [text for text in wrong if text not in again]
        wrong = again + (unsteady if len(unsteady) >= UNSTEADY else [])
    print(f"{len(unsteady)} unsteady, {UNSTEADY} are a problem", *unsteady, sep="\n  ")
    print(f"{ran} scenarios, {len(wrong)} problems", *wrong, sep="\n  ")
    return 1 if wrong or not ran else 0


async def _run(chosen: Sequence[str]) -> tuple[int, list[str]]:
    """Run what is chosen, or everything; how many those were, and which went wrong."""
    clients, servers = (read(file.read_text()).plans for file in (FILE, SERVERS))
    named = [word for word in chosen if word in {*clients, *servers}]
    scenarios = [word for word in chosen if word not in named]
    wrong: list[str] = []
    ran = 0
    for name, plan in clients.items():
        if name in named or not named:
            ran += await run_clients(name, plan, scenarios, wrong)
    ran += await run_servers(
        {name: plan for name, plan in servers.items() if name in named or not named},
        scenarios,
        wrong,
    )
    return ran, wrong


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1:]))
