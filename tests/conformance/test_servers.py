"""What of a suite's run is held to a plan: what it is for, and what it wrote down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .judge import SERVED, Expected, Plan, judge
from .servers import applicable, read_results
from .suite import Offered

OFFER = [
    Offered("ping", ["2025-06-18", "2025-11-25"]),
    Offered("discover", ["2026-07-28"]),
    Offered("tasks", ["extension"]),
]


@pytest.mark.parametrize(
    ("revision", "extensions", "names"),
    [
        ("2025-11-25", False, ["ping"]),
        ("2026-07-28", False, ["discover"]),
        ("2026-07-28", True, ["discover", "tasks"]),
    ],
)
def test_a_plan_accounts_for_what_is_for_its_revision(
    revision: str, extensions: bool, names: list[str]
) -> None:
    plan = Plan(package="suite", revision=revision, extensions=extensions, scenarios={})
    assert applicable(plan, OFFER) == names


def written(folder: Path, scenario: str, **by_name: str) -> None:
    checks = [{"id": name, "status": status} for name, status in by_name.items()]
    place = folder / f"server-{scenario}-2026-11-22T05-51-34-485Z"
    place.mkdir()
    (place / "checks.json").write_text(json.dumps(checks))


def test_what_was_skipped_has_not_passed(tmp_path: Path) -> None:
    written(tmp_path, "server-stateless", a="SUCCESS", b="SKIPPED")
    written(tmp_path, "ping", c="SUCCESS")
    found: dict[str, list[dict[str, Any]]] = read_results(tmp_path)
    assert found.keys() == {"server-stateless", "ping"}
    assert judge(Expected(), found["ping"], SERVED) == []
    assert judge(Expected(), found["server-stateless"], SERVED) == ["b fails"]
    skips = Expected(may_warn=["b"], why="so")
    assert judge(skips, found["server-stateless"], SERVED) == []


def test_a_scenario_that_left_nothing_behind_has_not_passed(tmp_path: Path) -> None:
    found = read_results(tmp_path)
    assert judge(Expected(), found.get("ping", []), SERVED) == ["nothing was checked"]
