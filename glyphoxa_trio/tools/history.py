"""What was measured of a tool, as it outlives a process. Pure (D7, D10, G25).

Inside a run a sample has the run's clock, which means nothing to the next one. So
what is kept has the time of day; back in a run, its age counts from now.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import attrs

from .window import Sample, SampleKind

# What is from the future by less than this was measured just now, by a clock that
# was put right since, seconds. Beyond that nobody knows how old it is.
ASKEW: Final = 300.0


class ToolPlace(NamedTuple):
    """Which tool, and where it runs: what has one history of measurements.

    A tuple, since windows are looked up by it on every call.

    Args:
      environment: configured, or derived from where it runs.
      origin: which of the servers that have that name; empty for tools in this
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
    """A sample for later runs. ``now`` and ``today`` are one moment on two clocks."""
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
    """What an earlier run measured, for this one; None if that is too long ago.

    A clock that was put back makes nothing immortal: what seems to be from the
    future by more than `ASKEW` is not believed.
    """
    age = today - measured.when
    if math.isnan(age) or not -ASKEW <= age < expiry:
        return None
    return Sample(
        measured.kind, measured.seconds, at=now - max(age, 0.0), probe=measured.probe
    )
