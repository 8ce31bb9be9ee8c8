"""Run a ring of the tests: ``python -m tests.rings quick | border | long | steady``.

* *quick* depends on nothing but the code: a failure is a fault.
* *border* needs processes, sockets, servers and real time, which a busy machine may
  disturb. A test that fails is run once more with nothing beside it. Those that pass
  then are listed as unsteady, each with its first failure; three of them fail the run.
* *long* looks for what is rare: more random examples, and the tests that take long.
* *steady* runs quick and border three times beside two busy processes, each time in
  another order and with other random examples, and names each test that did not come to
  the same each time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

RINGS = {
    "quick": ["not border and not long"],
    # Those that a busy machine can break come last, one after the other.
    "border": ["border and not alone and not long", "border and alone and not long"],
    "long": ["long or hypothesis"],
}
UNSTEADY = 3  # so many fail the run
MOST_AGAIN = 10  # more failures than that are no accident
PASSES = 3
NOTHING_TO_DO = 5  # what pytest exits with if it selected no test


def pytest(*arguments: str, alone: bool = False, profile: str, outcomes: Path) -> int:
    """Run pytest in a process of its own and return its exit status."""
    parallel = ["-n", "0"] if alone else ["-n", "logical", "--dist", "loadfile"]
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--durations=10"),
            *("--no-loadscope-reorder", *parallel),
            f"--outcomes={outcomes}",
            *arguments,
        ],
        env=os.environ | {"HYPOTHESIS_PROFILE": profile},
        check=False,
    ).returncode


def outcomes_in(file: Path) -> dict[str, tuple[str, str]]:
    """Return each test's outcome and the text of its failure."""
    found: dict[str, tuple[str, str]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        end = json.loads(line)
        if found.get(end["test"], ("", ""))[0] != "failed":  # by its call or its end
            found[end["test"]] = (end["outcome"], end["text"])
    return found


def failures(ends: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    return {test: text for test, (outcome, text) in ends.items() if outcome == "failed"}


def run(ring: str, options: Sequence[str], profile: str, outcomes: Path) -> int:
    """Run one ring, and return the worst exit status of its parts."""
    status = 0
    for selected in RINGS[ring]:
        alone = " and alone" in selected
        ended = pytest(
            "-m", selected, *options, alone=alone, profile=profile, outcomes=outcomes
        )
        status = max(status, 0 if ended == NOTHING_TO_DO else ended)
    return status


def run_border(options: Sequence[str], folder: Path) -> int:
    """Run the border ring, and each test that fails once more, alone."""
    status = run("border", options, "border", folder / "first")
    first = failures(outcomes_in(folder / "first"))
    if status != 1 or len(first) > MOST_AGAIN:
        return status  # nothing failed, or pytest itself did, or too much
    print(f"\nOnce more, alone: {len(first)}", flush=True)
    again = [
        pytest(test, alone=True, profile="border", outcomes=folder / "again")
        for test in first
    ]
    ends = outcomes_in(folder / "again")
    unsteady = [test for test in first if ends.get(test, ("", ""))[0] == "passed"]
    for test in unsteady:
        print(f"\nunsteady: {test}, which passed alone. At first it said:")
        print(first[test], flush=True)
    for test in first.keys() - set(unsteady):
        print(f"FAILED {test}, and alone as well")
    print(f"{len(unsteady)} unsteady, {UNSTEADY} fail the run", flush=True)
    return int(len(unsteady) < len(first) or len(unsteady) >= UNSTEADY or any(again))


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes busy meanwhile."""
    beside = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in beside:
            process.kill()
            process.wait()


def run_steady(options: Sequence[str], folder: Path) -> int:
    """Run quick and border again and again, and name what was not the same."""
    seen: dict[str, list[str]] = defaultdict(list)
    said: dict[str, str] = {}
    for number in range(PASSES):
        outcomes = folder / str(number)
        seeds = [f"--shuffle={number}", f"--hypothesis-seed={number}"]
        with busy(2):
            for ring in ("quick", "border"):
                print(f"\n{ring}, pass {number + 1} of {PASSES}", flush=True)
                run(ring, [*seeds, *options], "seeded", outcomes)
        ends = outcomes_in(outcomes)
        said |= failures(ends)
        for test, (outcome, _) in ends.items():
            seen[test].append(outcome)
    # What failed each time is as bad, and a test that was lost once is not the same.
    bad = {
        test: found
        for test, found in seen.items()
        if len(set(found)) > 1 or len(found) < PASSES or "failed" in found
    }
    for test, found in bad.items():
        print(f"\nnot steady: {test}: {', '.join(found)}\n{said.get(test, '')}")
    print(f"\n{len(seen)} tests, {len(bad)} not steady", flush=True)
    return int(bool(bad) or not seen)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rings")
    parser.add_argument("ring", choices=[*RINGS, "steady"])
    chosen, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        match chosen.ring:
            case "border":
                return run_border(options, folder)
            case "steady":
                return run_steady(options, folder)
            case ring:
                return run(ring, options, ring, folder / "outcomes")


if __name__ == "__main__":
    sys.exit(main())
