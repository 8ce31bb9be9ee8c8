"""Run the official conformance suite against our client and our servers:
``make conformance``.

    python -m tests.conformance [PLAN or SCENARIO …]

Every scenario that the suite has is run, or left out for a reason (`expected.toml`,
`servers.toml`). Ends with status 1 if one does not come as expected, in either
direction, 2 if the suite is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import trio

from .clients import run_clients
from .judge import FILE, SERVERS, read
from .servers import run_servers
from .suite import NODE


async def main(chosen: Sequence[str]) -> int:
    if not NODE.exists():
        print("the conformance suite is not installed: make peers", file=sys.stderr)
        return 2
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
    if not ran:
        wrong.append("nothing was run")
    print(f"{ran} scenarios, {len(wrong)} problems", *wrong, sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1:]))
