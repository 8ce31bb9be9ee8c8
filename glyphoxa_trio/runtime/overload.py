"""Overload: when the machine has more turns than it can serve, and how many it can
serve.

More turns than a machine has time for make all turns late, not only those too many. So
some are refused at once, and the others stay as fast as they were. This module is pure:
it is told how late the loop is and how many turns run, and it says if one more may
begin.

The loop is *late* if it delays a timer by more than ``max_lag``. A few late samples may
be garbage collections, or another program. A loop that is late for half of a second or
two has too much to do, if this process also used most of a processor in that time. Then
the turns that run now are too many, and the limit becomes seven tenths of their number.
If the process hardly used the processor, something blocks the loop or takes the machine
away; then turns are refused only if that lasts for three seconds.

While more turns than the limit still run, the limit stays; if the loop is late again
with no more than that, the limit is cut again. While the loop is not late and turns are
refused, the limit grows by a tenth a second. That finds the largest number of turns
that does not make the loop late, and finds it again when it changes. The limit is
lifted when the processor is idle again, or when no turn had to be refused for five
seconds.

The number of running turns is limited, not the rate at which they begin: each running
turn has work at any time, and turns that wait longer for their model have less. An
answer that a speech-to-speech model gives without being asked is not counted, because
refusing it saves nothing.
"""

from __future__ import annotations

from math import exp
from typing import Final

import attrs

from glyphoxa_trio.config import OverloadConfig
from glyphoxa_trio.units import in_ms, many

MEMORY: Final = 1.0  # seconds after which a sample's weight has fallen to a third
# Seconds that one sample counts at most, however long it took: a pause is no load.
_LONGEST: Final = 0.15
_TOO_MUCH: Final = 0.5  # late for this share of the time
_BUSY: Final = 0.6  # of a processor; a process that uses less has no overload
_IDLE: Final = 0.5
BLOCKED: Final = 3.0  # seconds that an idle process may be late
_WELL: Final = 0.5  # seconds without a late sample, after which an idle one is well
_CUT: Final = 0.7
_AFTER_A_CUT: Final = 0.25  # of the share: another cut takes new evidence
_GROWTH: Final = 0.1  # a second
# So few turns do not keep a machine busy: if it is late, refusing them would not help.
FLOOR: Final = 8
CALM: Final = 5.0  # seconds


@attrs.frozen(kw_only=True)
class OverloadStatistics:
    """The load as it is now, and counts since the runtime was opened.

    Args:
      shedding: True while turns are refused.
      lag: of the loop at the last sample, in seconds.
      late: the share of the recent time in which the lag was too long.
      used: the share of one processor that this process has used recently.
      limit: how many turns may run; None without a limit that was found by measuring.
      shed: the turns that were refused.
      episodes: how often refusing turns began.
    """

    shedding: bool
    lag: float
    late: float
    used: float
    limit: int | None
    shed: int
    episodes: int


@attrs.define(eq=False)
class Overload:
    """The load that was measured, and the decision which turns may begin.

    ``shedding`` is True from the first refused turn until none had to be refused for
    `CALM` seconds.
    """

    config: OverloadConfig
    shedding: bool = attrs.field(default=False, init=False)
    lag: float = attrs.field(default=0.0, init=False)
    late: float = attrs.field(default=0.0, init=False)
    used: float = attrs.field(default=0.0, init=False)
    shed: int = attrs.field(default=0, init=False)
    episodes: int = attrs.field(default=0, init=False)
    _limit: float | None = attrs.field(default=None, init=False)
    _blocked: float = attrs.field(default=0.0, init=False)  # seconds, while idle
    _well: float = attrs.field(default=0.0, init=False)
    _calm: float = attrs.field(default=0.0, init=False)
    _pressed: bool = attrs.field(default=False, init=False)  # since the last sample
    _shed_before: int = attrs.field(default=0, init=False)

    @property
    def limit(self) -> int | None:
        """The number of turns that may run; None if no limit was found by measuring."""
        return None if self._limit is None else int(self._limit)

    @property
    def shed_lately(self) -> int:
        """The number of turns refused in this episode, or in the last one."""
        return self.shed - self._shed_before

    @property
    def busy(self) -> bool:
        """True if work that no player waits for should be put off."""
        return self.shedding or self.lag > self.config.max_lag

    def sample(self, lag: float, *, elapsed: float, running: int, spent: float) -> None:
        """Take one sample.

        Args:
          lag: how late the loop is, in seconds.
          elapsed: seconds since the last sample.
          running: how many turns run.
          spent: seconds of processor time that this process used since the last sample.
        """
        self.lag = lag
        if not self.config.enabled:
            return
        is_late = lag > self.config.max_lag
        weight = 1 - exp(-min(elapsed, _LONGEST) / MEMORY)
        self.late += (is_late - self.late) * weight
        if elapsed > 0:
            self.used += (min(spent / elapsed, 1.0) - self.used) * weight
        self._well = 0.0 if is_late else self._well + elapsed
        too_much = self.late > _TOO_MUCH
        self._blocked = self._blocked + min(elapsed, _LONGEST) if too_much else 0.0
        if self._limit is not None and running > self._limit:
            # More run than the limit allows, so their lag says nothing about the limit.
            self.late = min(self.late, _AFTER_A_CUT)
        elif is_late and too_much and running > FLOOR and self._has_cause:
            self._limit, self.late = max(float(FLOOR), _CUT * running), _AFTER_A_CUT
            self._begin()
        elif not is_late and self._pressed and self._limit is not None:
            self._limit += max(1.0, self._limit * _GROWTH) * min(elapsed, 1.0)
        self._calm = 0.0 if is_late or self._pressed else self._calm + elapsed
        self._pressed = False
        idle = self._limit is not None and self._well >= _WELL and self.used < _IDLE
        if idle or self._calm >= CALM:
            self._limit, self.shedding = None, False

    @property
    def _has_cause(self) -> bool:
        """True if this process itself makes the loop late, as far as is known."""
        return self.used > _BUSY or self._blocked >= BLOCKED

    def refusal(self, running: int) -> str:
        """Return why no turn may begin beside ``running`` others; empty if one may.

        A refusal is counted.
        """
        reason = self._why(running)
        if reason:
            self._begin()
            self.shed += 1
            self._pressed = True
        return reason

    def _why(self, running: int) -> str:
        most, limit = self.config.max_turns, self.limit
        if not self.config.enabled:
            return ""
        if most is not None and running >= most:
            return (
                f"{many(running, 'turn runs', 'turns run')}, and"
                f" overload.max_turns allows {most}"
            )
        if limit is not None and running >= limit:
            return (
                f"this machine is late by up to {in_ms(self.lag)} with"
                f" {many(running, 'turn')},"
                f" and takes no more than {limit} now"
            )
        return ""

    def _begin(self) -> None:
        self._calm = 0.0
        if not self.shedding:
            self.shedding = True
            self.episodes += 1
            self._shed_before = self.shed

    def adopt(self, config: OverloadConfig) -> None:
        """Use another configuration; measurements under the old one are dropped."""
        if config != self.config:
            self.config = config
            self.shedding, self._limit = False, None
            self.lag = self.late = self._calm = self._blocked = 0.0
            self._pressed = False

    def statistics(self) -> OverloadStatistics:
        """Return the load as it is now, and the counts."""
        return OverloadStatistics(
            shedding=self.shedding,
            lag=self.lag,
            late=self.late,
            used=self.used,
            limit=self.limit,
            shed=self.shed,
            episodes=self.episodes,
        )
