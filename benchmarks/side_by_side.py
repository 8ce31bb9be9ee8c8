"""The same four things with other clients of MCP servers, and with ours.

No promise but that it is printed, also where ours is not better. All of them call
the same server (``peers/server.py``) over stdio, one after the other in one run,
each in an environment of its own, which is made when it is first asked for
(``peers/.environments``; needs the package index, a minute and 300 MB). Ours is
`open_runtime` and its host, with the gate, health and measurement of each call; the
others are called directly, without an agent's loop around them.

    a call                   one after the other, each timed
    four at once             four calls of 20 ms each, until all have answered
    limit of 500 ms          on a tool that takes 10 s: until the caller goes on
    turn of 500 ms           two rounds of 400 ms each in a turn that may wait 500
    kept of three            a fan-out with three quick calls and one of 10 s
    server was told          to stop, of the ten calls that were given up
    calls failed in a crash  the server dies: calls that failed until one went well
    back after a crash       seconds until then, at a call every 50 ms; 10 is never

Each row is ours against theirs, so a ratio below 1 is in favour of ours, but for
what is kept and told. The raw SDK runs in our own environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Figure, figure, main

HERE: Final = Path(__file__).parent / "peers"
ENVIRONMENTS: Final = HERE / ".environments"
PEERS: Final = ("sdk", "fastmcp", "pydantic_ai", "openai_agents")
NEVER: Final = 10.0
LASTS: Final = 120.0  # seconds for one client, at the very most


def measure(quick: bool) -> list[Figure]:
    """Quick is without new environments: the raw SDK only."""
    calls = 50 if quick else 1000
    pythons = {
        peer: sys.executable if peer == "sdk" else str(environment(peer))
        for peer in (PEERS[:1] if quick else PEERS)
    }
    ours = _run([sys.executable, "-m", "benchmarks.peers.ours", str(calls)])
    figures: list[Figure] = []
    for peer, python in pythons.items():
        client = f"benchmarks.peers.{peer}_client"
        theirs = _run([python, "-m", client, str(calls)])
        figures += _compared(peer.replace("_", "-"), ours, theirs)
    return figures


def environment(peer: str) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there."""
    wanted = (HERE / f"{peer}.txt").read_text(encoding="utf-8")
    folder = ENVIRONMENTS / peer
    python, made = folder / "bin" / "python", folder / "made-of.txt"
    if not made.exists() or made.read_text(encoding="utf-8") != wanted:
        print(f"making an environment for {peer} ...", file=sys.stderr, flush=True)
        venv.create(folder, clear=True, with_pip=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        requirements = ["-r", str(HERE / f"{peer}.txt")]
        subprocess.run([python, *install, *requirements], check=True)
        made.write_text(wanted, encoding="utf-8")
    return python


def _run(command: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(
        command,
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=LASTS,
    )
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _compared(peer: str, ours: dict[str, Any], theirs: dict[str, Any]) -> list[Figure]:
    rows = (
        ("a call", "call", "µs"),
        ("four at once", "four", "ms"),
        ("limit of 500 ms", "limit", "ms"),
        ("turn of 500 ms", "turn", "ms"),
    )
    figures = [
        figure(f"{peer}: {name}", ours[key], unit=unit, bare=theirs[key])
        for name, key, unit in rows
    ]
    crash, their_crash = ours["after_crash"], theirs["after_crash"]
    counted = (
        ("kept of three", min(ours["kept"]), min(theirs["kept"])),
        ("server was told", ours["told"], theirs["told"]),
        ("calls failed in a crash", crash["failed"], their_crash["failed"]),
    )
    figures += [_one(f"{peer}: {name}", "", a, b) for name, a, b in counted]
    back, their_back = crash["seconds"] or NEVER, their_crash["seconds"] or NEVER
    return [*figures, _one(f"{peer}: back after a crash", "s", back, their_back)]


def _one(name: str, unit: str, ours: float, theirs: float) -> Figure:
    return Figure(
        name=name,
        unit=unit,
        n=1,
        p50=ours,
        p99=ours,
        bare_p50=theirs,
        bare_p99=theirs,
        ratio=ours / theirs if theirs else None,
    )


BENCHMARK = Benchmark(
    name="side_by_side",
    promise="what other clients do with the same server, beside ours",
    measure=measure,
    budgets=(),
)

if __name__ == "__main__":
    main(BENCHMARK)
