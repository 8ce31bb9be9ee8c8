"""The judge of conformance lets nothing pass, and the page says what it says."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from .judge import FILE, SERVERS, Expected, Plan, judge, read, unlisted

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
BOOK = read(FILE.read_text())
OF_SERVERS = read(SERVERS.read_text()).plans

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


def listed_under(heading: str) -> set[str]:
    """The scenarios in the tables of one part of the page."""
    _, part = PAGE.read_text().split(f"\n## {heading}\n")
    part, _, _ = part.partition("\n## ")
    return set(re.findall(r"^\| `(\S+)` \|", part, re.MULTILINE))


def lacking(plans: Collection[Plan]) -> set[str]:
    """What does not pass, or is not run."""
    failing = {
        name
        for plan in plans
        for name, expected in plan.scenarios.items()
        if expected.fails
    }
    return failing.union(*(plan.left_out for plan in plans))


def test_the_page_lists_what_does_not_pass_and_nothing_that_does() -> None:
    assert listed_under("What does not pass") == lacking(BOOK.plans.values())
    released, following = (len(plan.scenarios) for plan in BOOK.plans.values())
    assert f"{released} and {following}" in PAGE.read_text()


def test_the_page_says_of_servers_what_is_so() -> None:
    assert listed_under("Our servers") == OF_SERVERS.keys()
    for name, plan in OF_SERVERS.items():
        assert f"| `{name}` | {len(plan.scenarios)}" in PAGE.read_text()
    fixture = [plan for plan in OF_SERVERS.values() if plan.serves == "fixture"]
    others = [plan for plan in OF_SERVERS.values() if plan.serves != "fixture"]
    failing = {n for plan in others for n, x in plan.scenarios.items() if x.fails}
    assert listed_under("What our servers are not held to") == (
        lacking(fixture) | failing
    )


@pytest.mark.parametrize("name", OF_SERVERS)
def test_what_another_server_is_not_asked_the_fixture_is(name: str) -> None:
    plan = OF_SERVERS[name]
    on_the_fixture = {
        scenario
        for other in OF_SERVERS.values()
        if other.serves == "fixture" and other.revision == plan.revision
        for scenario, expected in other.scenarios.items()
        if not expected.fails
    }
    not_asked = {x for x, expected in plan.scenarios.items() if expected.fails}
    if plan.serves != "fixture":
        not_asked |= plan.left_out.keys()
    assert not_asked <= on_the_fixture


def test_a_scenario_that_asked_for_what_is_not_there_has_not_passed() -> None:
    content = {"result": {"content": [{"text": "Unknown tool: dance"}]}}
    came = [{"id": "a", "status": "SUCCESS", "details": content}]
    assert judge(PASSES, came, "served") == ["nothing was checked", "a fails"]
