"""When this machine is asked for more turns than it can serve, and how many it can.

More turns than a machine has time for make all of them late, not only the ones too
many. So some are turned away at once, and the others stay what they were. Pure: told
how late the loop is and how many turns run, it says whether one more may begin.

*Late* is a loop that keeps a timer waiting for more than ``max_lag``. A few late
samples are collections of garbage, or another program; a loop that is late for half of
a second or two has too much to do, if this process also has used most of a processor in
that time. Then as many turns as run are too many, and the limit becomes seven tenths of
them. If it hardly used the processor, something blocks the loop or takes the machine
away: turns are turned away only if that goes on for three seconds.

While more turns than the limit still run, that is all; if it is late again with no more
than that, it is cut once more. While it is not late and somebody is turned away, the
limit grows by a tenth a second: the largest number that does not make the loop late is
found that way, and found again when it changes. When the processor is idle again, or
nobody had to be turned away for five seconds, there is no limit any more.

How many turns may run is what is limited, and not how many may begin: of those that
run each has something to do at any time, and a turn that waits for its model for
longer has less. An answer that a speech-to-speech model gives without being asked is
not counted, because refusing it saves nothing.
"""

from __future__ import annotations

from math import exp
from typing import Final

import attrs

from glyphoxa_trio.config import OverloadConfig
from glyphoxa_trio.units import in_ms

MEMORY: Final = 1.0  # seconds after which a sample counts for a third
# One sample says no more than this, however long it took: a pause is no load. Seconds.
_LONGEST: Final = 0.15
_TOO_MUCH: Final = 0.5  # late for this share of the time
_BUSY: Final = 0.6  # of a processor: with less than that nobody has too much to do
_IDLE: Final = 0.5
BLOCKED: Final = 3.0  # seconds for which an idle process may be late
_WELL: Final = 0.5  # seconds without a late sample, after which it is over if idle
_CUT: Final = 0.7
_AFTER_A_CUT: Final = 0.25  # it takes new evidence for another one
_GROWTH: Final = 0.1  # a second
# So few turns do not keep a machine busy. What makes it late then is something else,
# and goes on without them.
FLOOR: Final = 8
CALM: Final = 5.0  # seconds


@attrs.frozen(kw_only=True)
class OverloadStatistics:
    """``lag`` in seconds, as it was last; ``late`` the share of the time in which it
    was too long; ``used`` how much of a processor this process has used lately;
    ``limit`` how many turns may run, where that is learnt.

    ``shed`` counts the turns that were turned away, ``episodes`` how often that began.
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
    """What is known of the load, and who has to wait for a better moment.

    ``shedding`` from when turns are turned away until that was not needed for `CALM`.
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
        """How many turns may run, as far as that was learnt."""
        return None if self._limit is None else int(self._limit)

    @property
    def shed_lately(self) -> int:
        """How many were turned away in this episode, or in the last one."""
        return self.shed - self._shed_before

    @property
    def busy(self) -> bool:
        """What nobody waits for had better wait itself."""
        return self.shedding or self.lag > self.config.max_lag

    def sample(self, lag: float, *, elapsed: float, running: int, spent: float) -> None:
        """The loop is ``lag`` seconds late, ``elapsed`` after the last sample, and this
        process has ``spent`` so many seconds of a processor since."""
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
            # Those that run already are too many: that says nothing of the limit.
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
        """Whether it is late because of what this process does, as far as that can be
        seen."""
        return self.used > _BUSY or self._blocked >= BLOCKED

    def refusal(self, running: int) -> str:
        """Why no turn may begin beside these; empty if it may. Counts what it says."""
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
            return f"{running} turns run, and no more than {most} may"
        if limit is not None and running >= limit:
            return (
                f"this machine is late by up to {in_ms(self.lag)} with {running} turns,"
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
        """Go by another configuration; what was learnt under the old is not kept."""
        if config != self.config:
            self.config = config
            self.shedding, self._limit = False, None
            self.lag = self.late = self._calm = self._blocked = 0.0
            self._pressed = False

    def statistics(self) -> OverloadStatistics:
        return OverloadStatistics(
            shedding=self.shedding,
            lag=self.lag,
            late=self.late,
            used=self.used,
            limit=self.limit,
            shed=self.shed,
            episodes=self.episodes,
        )
