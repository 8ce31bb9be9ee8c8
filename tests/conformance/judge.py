"""What is expected of each scenario, and whether it came so. Pure.

The suite itself can only be told that a whole scenario fails. Here the checks
that fail are named, so that the others of that scenario are held to it, and an
end that the client must reach: a client that does nothing passes scenarios, too.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

FILE: Final = Path(__file__).with_name("expected.toml")
SERVERS: Final = Path(__file__).with_name("servers.toml")
# What a server answers that knows nothing of what a scenario is about.
UNKNOWN: Final = ("Unknown tool", "Unknown prompt")
SERVED: Final = "served"


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@attrs.frozen(kw_only=True)
class Expected:
    """One scenario.

    Args:
      ends: the last line of the client.
      fails: the checks that fail, all of them.
      may_warn: checks whose warning says nothing of the client.
      says: what the client has to say, for a scenario that any failure passes.
      why: the reason for each of the above, by its name.
    """

    ends: str = SERVED
    fails: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    may_warn: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    says: str = ""
    why: str = ""

    @property
    def ordinary(self) -> bool:
        return self.ends == SERVED and not (self.fails or self.may_warn or self.says)


@attrs.frozen(kw_only=True)
class Plan:
    """One version of the suite: what is run with it, and what is left out and why.

    ``package`` is its folder among the installed packages, ``revision`` the
    revision of the protocol to which its scenarios are held, if to one only.
    ``serves`` is the server under test; with none it is our client. ``extensions``
    has a server's plan account for scenarios that are for no revision, too.
    """

    package: str
    revision: str | None = None
    serves: str = ""
    extensions: bool = False
    scenarios: Mapping[str, Expected]
    left_out: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Book:
    """Everything that ``expected.toml`` says; reasons and plans by their names."""

    reasons: Mapping[str, str]
    plans: Mapping[str, Plan]


def read(text: str) -> Book:
    """What a file like ``expected.toml`` says.

    Raises:
      TypeError, ValueError: for what it may not say.
    """
    tables = tomllib.loads(text)
    book = Book(
        reasons=tables["reasons"],
        plans={name: _plan(**table) for name, table in tables["plans"].items()},
    )
    for name, plan in book.plans.items():
        for scenario, expected in plan.scenarios.items():
            if expected.ordinary != (not expected.why):
                raise ValueError(f"{name} {scenario}: has no why, or needs none")
            if expected.why and expected.why not in book.reasons:
                raise ValueError(f"{name} {scenario}: no reason {expected.why!r}")
    return book


def _plan(*, scenarios: Mapping[str, Mapping[str, Any]], **rest: Any) -> Plan:
    return Plan(
        scenarios={name: Expected(**said) for name, said in scenarios.items()}, **rest
    )


def unlisted(plan: Plan, offered: Iterable[str]) -> list[str]:
    """What is wrong with a plan, given what its suite offers."""
    known = {*plan.scenarios, *plan.left_out}
    offer = set(offered)
    both = plan.scenarios.keys() & plan.left_out.keys()
    return [
        *(f"{name}: offered, and not in the plan" for name in sorted(offer - known)),
        *(f"{name}: planned, and not offered" for name in sorted(known - offer)),
        *(f"{name}: run and left out" for name in sorted(both)),
    ]


def judge(
    expected: Expected,
    checks: Iterable[Mapping[str, Any]],
    ended: str,
    said: str = "",
) -> list[str]:
    """What did not come as expected; nothing is well.

    Args:
      checks: the suite's list of them, as it wrote it down.
      ended: the last line of the client, empty if there was none.
      said: its warnings.
    """
    by_status: dict[str, set[str]] = {}
    for check in checks:
        status = check["status"]
        if status == "SUCCESS" and any(word in json.dumps(check) for word in UNKNOWN):
            status = "FAILURE"  # it asked for what is not there, and took that for well
        by_status.setdefault(status, set()).add(check["id"])
    good = by_status.get("SUCCESS", set())
    bad = by_status.get("FAILURE", set())
    bad = bad | (by_status.get("WARNING", set()) - expected.may_warn)
    problems = []
    if ended != expected.ends:
        problems.append(f"the client ended with {ended!r}, not {expected.ends!r}")
    if not good and not expected.fails:
        problems.append("nothing was checked")
    problems += [f"{name} fails" for name in sorted(bad - expected.fails)]
    problems += [
        f"{name} is expected to fail, and does not"
        for name in sorted(expected.fails - bad)
    ]
    if expected.says not in said:
        problems.append(f"the client does not say {expected.says!r}")
    return problems
