"""The judge of conformance lets nothing pass, and the page says what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from .judge import FILE, Expected, Plan, judge, read, unlisted

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
BOOK = read(FILE.read_text())

PASSES = Expected()
FAILS = Expected(fails={"a"}, why="so")


def checks(**by_status: str) -> list[dict[str, Any]]:
    """``checks(SUCCESS="a b")``."""
    return [
        {"id": name, "status": status}
        for status, names in by_status.items()
        for name in names.split()
    ]


@pytest.mark.parametrize(
    ("expected", "came", "ended"),
    [
        (PASSES, checks(SUCCESS="a b", INFO="c", SKIPPED="d"), "served"),
        (FAILS, checks(SUCCESS="b", FAILURE="a"), "served"),
        (FAILS, checks(FAILURE="a"), "served"),
        (FAILS, checks(SUCCESS="a b", FAILURE="a"), "served"),
        (Expected(may_warn={"a"}), checks(SUCCESS="b", WARNING="a"), "served"),
        (Expected(ends="not connected"), checks(SUCCESS="a"), "not connected"),
    ],
)
def test_what_is_expected_is_no_problem(
    expected: Expected, came: list[dict[str, Any]], ended: str
) -> None:
    assert judge(expected, came, ended) == []


@pytest.mark.parametrize(
    ("expected", "came", "ended", "problem"),
    [
        (PASSES, checks(SUCCESS="a", FAILURE="b"), "served", "b fails"),
        (PASSES, checks(SUCCESS="a", WARNING="b"), "served", "b fails"),
        (PASSES, checks(SKIPPED="a", INFO="b"), "served", "nothing was checked"),
        (PASSES, [], "served", "nothing was checked"),
        (
            PASSES,
            checks(SUCCESS="a"),
            "failed calls",
            "the client ended with 'failed calls', not 'served'",
        ),
        (PASSES, checks(SUCCESS="a"), "", "the client ended with '', not 'served'"),
        (FAILS, checks(FAILURE="a b"), "served", "b fails"),
        (
            FAILS,
            checks(SUCCESS="a"),
            "served",
            "a is expected to fail, and does not",
        ),
        (FAILS, [], "served", "a is expected to fail, and does not"),
        (Expected(may_warn={"a"}), checks(FAILURE="a"), "served", "a fails"),
        (
            Expected(says="no"),
            checks(SUCCESS="a"),
            "served",
            "the client does not say 'no'",
        ),
    ],
)
def test_what_is_not_expected_is_named(
    expected: Expected, came: list[dict[str, Any]], ended: str, problem: str
) -> None:
    assert problem in judge(expected, came, ended)


def test_what_the_client_has_to_say_is_looked_for() -> None:
    assert judge(Expected(says="no"), checks(SUCCESS="a"), "served", "no\n") == []


def test_a_suite_offers_what_the_plan_says() -> None:
    plan = Plan(
        package="suite",
        scenarios={"a": PASSES, "b": PASSES},
        left_out={"b": "so", "c": "so"},
    )
    assert unlisted(plan, ["a", "d"]) == [
        "d: offered, and not in the plan",
        "b: planned, and not offered",
        "c: planned, and not offered",
        "b: run and left out",
    ]


@pytest.mark.parametrize(
    "said",
    ['{ fails = ["a"] }', '{ fails = ["a"], why = "unknown" }', '{ why = "known" }'],
)
def test_whatever_is_out_of_the_ordinary_has_a_reason(said: str) -> None:
    text = f"""
        reasons = {{ known = "a reason" }}
        plans.one = {{ package = "suite", scenarios.a = {said} }}
    """
    with pytest.raises(ValueError, match="one a: "):
        read(text)


def test_the_page_lists_what_does_not_pass_and_nothing_that_does() -> None:
    _, lacks = PAGE.read_text().split("## What does not pass")
    listed = set(re.findall(r"^\| `(\S+)` \|", lacks, re.MULTILINE))
    lacking = {
        name
        for plan in BOOK.plans.values()
        for name, expected in plan.scenarios.items()
        if expected.fails
    }
    lacking |= {name for plan in BOOK.plans.values() for name in plan.left_out}
    assert listed == lacking
    released, following = (len(plan.scenarios) for plan in BOOK.plans.values())
    assert f"{released} and {following}" in PAGE.read_text()
