"""Samples of a tool, converted to be kept between processes and back. Pure.

In a run, a sample has a time on the run's clock, which is of no use to the next run. So
a kept sample has the time of day; loaded again, its age counts from now.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import attrs

from .window import Sample, SampleKind

# A sample from the future by less than this counts as taken now, by a clock that has
# been corrected since. The age of one beyond that is not known. Seconds.
ASKEW: Final = 300.0


class ToolPlace(NamedTuple):
    """A tool and the place where it runs, which together have one history.

    A tuple, since windows are looked up by it on every call.

    Args:
      environment: configured, or derived from where it runs.
      origin: identifies the server among those of that name; empty for tools in this
        process.
      key: the canonical key, with the server's or group's name.
    """

    environment: str
    origin: str
    key: str


@attrs.frozen
class Measured:
    """A `Sample` of a place. ``when`` is in seconds of Unix time."""

    place: ToolPlace
    kind: SampleKind
    seconds: float
    when: float
    probe: bool = False


def kept(place: ToolPlace, sample: Sample, *, now: float, today: float) -> Measured:
    """Convert a sample for later runs. ``now`` and ``today`` are one moment."""
    return Measured(
        place,
        sample.kind,
        sample.seconds,
        when=today - (now - sample.at),
        probe=sample.probe,
    )


def recalled(
    measured: Measured, *, now: float, today: float, expiry: float
) -> Sample | None:
    """Convert a sample of an earlier run for this one; None if it is too old.

    A clock that was set back does not keep samples for ever: one from the future by
    more than `ASKEW` is dropped.
    """
    age = today - measured.when
    if math.isnan(age) or not -ASKEW <= age < expiry:
        return None
    return Sample(
        measured.kind, measured.seconds, at=now - max(age, 0.0), probe=measured.probe
    )
