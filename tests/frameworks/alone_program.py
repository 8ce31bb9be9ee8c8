"""What is installed in a Python beside this project with one of its extras.

    python -m tests.frameworks.alone_program EXTRA

Imports the adapter that the extra is for, and prints as JSON: ``missing``, the
requirements of the project and of the extra that are not fulfilled, and of all that
they require; and ``beyond``, what none of them requires.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from pip._vendor.packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(extra: str) -> dict[str, Any]:
    import_module(f"glyphoxa_trio.{extra}")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (framework,) = project["optional-dependencies"][extra]
    waiting = [Requirement(x) for x in (*project["dependencies"], framework)]
    known: set[tuple[str, str]] = set()
    missing: list[str] = []
    while waiting:
        wanted = waiting.pop()
        name = plain(wanted.name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            missing.append(str(wanted))
            continue
        if not wanted.specifier.contains(found.version, prereleases=True):
            missing.append(f"{wanted}, not {found.version}")
        for option in {"", *wanted.extras}:
            if (name, option) not in known:
                known.add((name, option))
                asked = map(Requirement, found.requires or ())
                waiting += [
                    x
                    for x in asked
                    if x.marker is None or x.marker.evaluate({"extra": option})
                ]
    required = {name for name, _ in known}
    installed = {plain(x.metadata["Name"]) for x in metadata.distributions()}
    return {
        "missing": sorted(missing),
        "beyond": sorted(installed - required),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
