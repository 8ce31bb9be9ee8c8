"""When a second server is asked as well: the rules and the budget of hedging. Pure.

Most of what makes a turn late is not a slow tool but a slow call: one in fifty that
waits for a lock, a collector of garbage, a cold cache. If another server has the same
to say, it is cheaper to ask it as well than to wait: once a call has taken longer than
95 of 100 before it, a second attempt starts there, and the first answer counts. That
is at most one call in twenty more, and `HedgeBudget` sees to it on days when everything
is slow.

Only what changes nothing is asked twice (D12). An idempotent write is not enough: it
may be repeated where it was made, but at another server it is another write, and the
one that loses is cut with its effect unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import attrs

from .arguments import canonical
from .definition import Tool

_WINDOW: Final = 100  # D7: a window has no more samples than that


def _a_share(_: Any, __: attrs.Attribute[float], value: float) -> None:
    if not 0 < value <= 1:
        raise ValueError("must be more than 0 and at most 1")


def _samples(_: Any, __: attrs.Attribute[int], value: int) -> None:
    if not 1 <= value <= _WINDOW:
        raise ValueError(f"must be 1 to {_WINDOW}, so many are kept")


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
    """Who may be asked as well, after what is known, and how often.

    Args:
      replicas: groups of servers that answer for each other, because they read the
        same. That has to be said: one program that was started twice, with two
        sets of data, looks just like it.
      extra_calls: second attempts, as a share of a tool's calls.
      min_samples: a tool that was measured less often has no p95 worth the name.

    Raises:
      ValueError: saying what does not fit.
    """

    enabled: bool = False
    replicas: tuple[tuple[str, ...], ...] = attrs.field(default=(), validator=_groups)
    extra_calls: float = attrs.field(default=0.05, validator=_a_share)
    min_samples: int = attrs.field(default=20, validator=_samples)

    def __attrs_post_init__(self) -> None:
        if self.enabled and not self.replicas:
            raise ValueError("enabled, but replicas names no servers")

    def partners(self, group: str) -> Iterator[str]:
        """The servers that may answer for ``group``, if hedging is on."""
        if self.enabled:
            for names in self.replicas:
                if group in names:
                    yield from (name for name in names if name != group)


NO_HEDGING: Final = HedgingRules()


def hedgeable(tool: Tool) -> bool:
    """Whether a call of it may be one of two: it changes nothing, and stops when it
    is cancelled, which a thread does not.
    """
    return not tool.definition.side_effects and not tool.blocking


def may_stand_in(other: Tool, tool: Tool) -> bool:
    """Whether ``other`` takes the same call: the same own name and input schema."""
    mine, its = tool.definition, other.definition
    if mine.name != its.name or not hedgeable(other):
        return False
    try:
        return canonical(dict(mine.parameters)) == canonical(dict(its.parameters))
    except (TypeError, ValueError, RecursionError):  # it is no JSON, so who knows
        return False


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class HedgeBudget:
    """So many second attempts, at most, as a share of one tool's calls.

    A call earns ``extra_calls`` of a second attempt, and there is nothing on credit:
    of the first n calls at most that share is made twice. Earnings of ``span`` calls
    (and at least one attempt) can be saved, so that however many calls went well
    before, n bad ones on end cost at most ``extra_calls * (n + span)`` more.

    Counted in integers, exactly.
    """

    extra_calls: float = attrs.field(default=0.05, validator=_a_share)
    span: int = attrs.field(default=_WINDOW, validator=attrs.validators.ge(0))
    _earned: int = attrs.field(init=False, repr=False)  # by one call
    _price: int = attrs.field(init=False, repr=False)  # of one attempt
    _saved: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._earned, self._price = self.extra_calls.as_integer_ratio()

    def called(self) -> None:
        """A first attempt of the tool began."""
        most = max(self._price, self.span * self._earned)
        self._saved = min(most, self._saved + self._earned)

    def take(self) -> bool:
        """Pay for a second attempt; False if there is not enough for one."""
        if self._saved < self._price:
            return False
        self._saved -= self._price
        return True
