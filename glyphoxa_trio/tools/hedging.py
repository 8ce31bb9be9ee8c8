"""The rules and the budget of hedging: when a second server is asked as well. Pure.

Most turns are late because of a slow call, not of a slow tool: one call in fifty waits
for a lock, a garbage collector, a cold cache. If another server can give the same
answer, asking it as well is cheaper than waiting: once a call has taken longer than 95
of 100 before it, a second attempt starts there, and the first answer counts. That is at
most one more call in twenty; `HedgeBudget` enforces it when everything is slow.

Only tools that change nothing are called twice. An idempotent write is not enough: it
may be repeated where it was made, but at another server it is another write, and the
slower of the two is cancelled with its effect unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import attrs

from .arguments import canonical
from .definition import Tool

_WINDOW: Final = 100  # samples in a window


def a_share(_: Any, __: attrs.Attribute[float], value: float) -> None:
    """Check a number above 0 and up to 1."""
    if not 0 < value <= 1:
        raise ValueError("must be more than 0 and at most 1")


def _samples(_: Any, __: attrs.Attribute[int], value: int) -> None:
    if not 1 <= value <= _WINDOW:
        raise ValueError(f"must be 1 to {_WINDOW}, the number of samples kept")


def _groups(
    _: Any, __: attrs.Attribute[Any], value: tuple[tuple[str, ...], ...]
) -> None:
    for names in value:
        if len(set(names)) < 2 or len(set(names)) < len(names):
            raise ValueError(
                "each list must name two or more different servers, got"
                f" [{', '.join(names)}]"
            )
    counts = Counter(name for names in value for name in names)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise ValueError(f"{twice[0]!r} is in two lists")


@attrs.frozen(kw_only=True)
class HedgingRules:
    """The servers that may be asked as well, the samples needed, and the budget.

    Args:
      replicas: groups of servers that answer for each other, because they read the same
        data. The operator has to say so: one program that was started twice, with two
        sets of data, looks the same.
      extra_calls: second attempts, as a share of a tool's calls.
      min_samples: the samples that a tool must have for a reliable p95.

    Raises:
      ValueError: the message says which value is wrong.
    """

    enabled: bool = False
    replicas: tuple[tuple[str, ...], ...] = attrs.field(default=(), validator=_groups)
    extra_calls: float = attrs.field(default=0.05, validator=a_share)
    min_samples: int = attrs.field(default=20, validator=_samples)

    def __attrs_post_init__(self) -> None:
        if self.enabled and not self.replicas:
            raise ValueError("enabled, but replicas names no servers")

    def partners(self, group: str) -> Iterator[str]:
        """Yield the servers that may answer for ``group``, if hedging is on."""
        if self.enabled:
            for names in self.replicas:
                if group in names:
                    yield from (name for name in names if name != group)


NO_HEDGING: Final = HedgingRules()


def hedgeable(tool: Tool) -> bool:
    """Return True if a call of it may be one of two: it changes nothing, and stops
    when it is cancelled, which a thread does not.
    """
    return not tool.definition.side_effects and not tool.blocking


def may_stand_in(other: Tool, tool: Tool) -> bool:
    """Return True if ``other`` takes the same call: same own name and schema."""
    mine, its = tool.definition, other.definition
    if mine.name != its.name or not hedgeable(other):
        return False
    try:
        return canonical(dict(mine.parameters)) == canonical(dict(its.parameters))
    except (TypeError, ValueError, RecursionError):  # not JSON, so not comparable
        return False


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class HedgeBudget:
    """A budget of second attempts, as a share of one tool's calls.

    A call earns ``extra_calls`` of a second attempt, and there is no credit: of the
    first n calls at most that share is made twice. Earnings of ``span`` calls (and at
    least one attempt) can be saved, so that n bad calls in a row cost at most
    ``extra_calls * (n + span)`` more, however many calls went well before.

    Counted in integers, exactly.
    """

    extra_calls: float = attrs.field(default=0.05, validator=a_share)
    span: int = attrs.field(default=_WINDOW, validator=attrs.validators.ge(0))
    _earned: int = attrs.field(init=False, repr=False)  # by one call
    _price: int = attrs.field(init=False, repr=False)  # of one attempt
    _saved: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._earned, self._price = self.extra_calls.as_integer_ratio()

    def called(self) -> None:
        """Count a first attempt of the tool."""
        most = max(self._price, self.span * self._earned)
        self._saved = min(most, self._saved + self._earned)

    def take(self) -> bool:
        """Pay for a second attempt; False if there is not enough for one."""
        if self._saved < self._price:
            return False
        self._saved -= self._price
        return True
