"""``make mutants``: is each deliberate fault caught by the tests of the promises?

Each fault of the table is made in a private copy of the package, and the tests
that should see it run there: two at a time, with a fixed seed, a bounded number of
examples and no shrinking. Exit status 1 if one survives. If one cannot be made, because
the line that it changes is another now, that is said at once and nothing runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import glyphoxa_trio

from .table import MUTANTS, Mutant

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = Path(glyphoxa_trio.__file__).parent
AT_ONCE: Final = 2
LIMIT: Final = 400.0  # seconds for one; a fault that hangs the tests is caught, too
SEED: Final = "20"


def fault_of(mutant: Mutant, package: Path = PACKAGE) -> str | None:
    """Why the fault cannot be made, if it cannot."""
    path = package / mutant.file
    if not path.exists():
        return f"there is no {mutant.file}"
    if mutant.old == mutant.new:
        return "it changes nothing"
    count = path.read_text().count(mutant.old)
    return None if count == 1 else f"its text is there {count} times"


def caught(mutant: Mutant | None, hunter: str, examples: int) -> bool:
    """Make the fault in a copy, if there is one, and look whether tests fail there."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        place = Path(folder)
        ignored = shutil.ignore_patterns("__pycache__", "node_modules", ".*")
        shutil.copytree(PACKAGE, place / PACKAGE.name, ignore=ignored)
        # Not a link: pytest would follow it, and import what is beside it.
        shutil.copytree(ROOT / "tests", place / "tests", ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", place)
        for name in ("docs", "config"):
            (place / name).symlink_to(ROOT / name)
        if mutant is not None:
            path = place / PACKAGE.name / mutant.file
            path.write_text(path.read_text().replace(mutant.old, mutant.new))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header"]
        command += ["-p", "no:cacheprovider", f"--hypothesis-seed={SEED}"]
        environment = {
            **os.environ,
            "PYTHONPATH": str(place),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_PROFILE": "hunt",
            "HUNT_EXAMPLES": str(examples),
        }
        try:
            done = subprocess.run(
                [*command, hunter],
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        if done.returncode not in (0, 1):  # nothing ran: that proves nothing
            raise RuntimeError(f"{hunter}: {done.stdout[-2000:]}{done.stderr}")
        return done.returncode == 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("words", nargs="*", help="only those with this in their name")
    chosen = parser.parse_args()
    mutants = [x for x in MUTANTS if all(word in x.name for word in chosen.words)]
    if faults := [(x, why) for x in mutants if (why := fault_of(x))]:
        for mutant, why in faults:
            print(f"{mutant.name} ({mutant.file}) cannot be made: {why}")  # noqa: T201
        return 1
    failures = 0

    def hunt(mutant: Mutant) -> tuple[Mutant, str, float]:
        began = time.perf_counter()
        found = caught(mutant, mutant.hunter, chosen.examples)
        return mutant, "caught" if found else "SURVIVED", time.perf_counter() - began

    hunters = sorted({mutant.hunter for mutant in mutants})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # Tests that fail anyway would catch everything.
        sick = pool.map(lambda x: caught(None, x, chosen.examples), hunters)
        if failing := [x for x, fails in zip(hunters, sick, strict=True) if fails]:
            print(f"without any fault these fail: {', '.join(failing)}")  # noqa: T201
            return 1
        for mutant, verdict, took in pool.map(hunt, mutants):
            failures += verdict != "caught"
            line = f"{verdict:8} {took:5.0f} s  {mutant.name} ({mutant.file})"
            print(line if verdict == "caught" else f"{line}: {mutant.breaks}")  # noqa: T201
            sys.stdout.flush()
    print(f"{len(mutants) - failures} of {len(mutants)} caught")  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
