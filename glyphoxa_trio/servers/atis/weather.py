"""The content of a report: plain data, in the units of the report."""

from __future__ import annotations

from enum import StrEnum

import attrs


class SpeedUnit(StrEnum):
    KNOTS = "knots"
    METRES_PER_SECOND = "metres per second"
    KILOMETRES_PER_HOUR = "kilometres per hour"


class Bound(StrEnum):
    """The kind of a number: the measured value, or a limit beyond which it lies."""

    EXACT = ""
    MORE = "more than"
    LESS = "less than"


@attrs.frozen(kw_only=True)
class Wind:
    """Wind; ``direction`` is in degrees, None if it is variable or was not measured."""

    speed: int
    unit: SpeedUnit
    direction: int | None = None
    variable: bool = False
    bound: Bound = Bound.EXACT
    gust: int | None = None
    gust_bound: Bound = Bound.EXACT
    between: tuple[int, int] | None = None


@attrs.frozen(kw_only=True)
class Visibility:
    """Visibility in metres, and in statute miles if it was reported in them."""

    metres: int
    miles: float | None = None
    bound: Bound = Bound.EXACT
    towards: str = ""  # N, NE, …


@attrs.frozen(kw_only=True)
class RunwayRange:
    """The visual range along a runway, in ``unit``; from low to high if it varies."""

    runway: str
    low: int
    low_bound: Bound
    high: int
    high_bound: Bound
    unit: str  # metres, feet
    tendency: str = ""  # U, D, N


@attrs.frozen(kw_only=True)
class Weather:
    """One group of present or recent weather, in the codes of the report."""

    intensity: str = ""  # -, +, VC
    kinds: tuple[str, ...] = ()  # SH, TS, FZ, …
    falling: tuple[str, ...] = ()  # RA, SN, …
    other: tuple[str, ...] = ()  # FG, SQ, …


@attrs.frozen(kw_only=True)
class Clouds:
    """``cover`` as reported, ``///`` if unknown; ``feet`` None if not measured."""

    cover: str
    feet: int | None = None
    kind: str = ""  # CB, TCU


@attrs.frozen(kw_only=True)
class Pressure:
    """Pressure in both units; ``inches``: it was reported in inches.

    ``hundredths`` are hundredths of an inch of mercury.
    """

    hectopascals: int
    hundredths: int
    inches: bool


@attrs.define(kw_only=True)
class Conditions:
    """The conditions in a report or a trend. An empty value was not reported.

    They are filled in group by group, by `groups` and `values`.
    """

    wind: Wind | None = None
    cavok: bool = False
    visibility: list[Visibility] = attrs.field(factory=list)
    ranges: list[RunwayRange] = attrs.field(factory=list)
    weather: list[Weather] = attrs.field(factory=list)
    nothing_significant: bool = False
    clouds: list[Clouds] = attrs.field(factory=list)
    temperature: int | None = None
    dew_point: int | None = None
    pressure: Pressure | None = None
    recent: list[Weather] = attrs.field(factory=list)
    shear: list[str] = attrs.field(factory=list)  # runways, or ALL


@attrs.define(kw_only=True)
class Trend:
    """The change expected within two hours; ``times`` as in the report: ``FM1230``."""

    kind: str
    times: list[str] = attrs.field(factory=list)
    conditions: Conditions = attrs.field(factory=Conditions)


@attrs.define(kw_only=True)
class Reading:
    """A parsed report. Every group was read, passed over, or is unreadable.

    `groups` fills it in.
    """

    automatic: bool = False
    corrected: bool = False
    now: Conditions = attrs.field(factory=Conditions)
    trends: list[Trend] = attrs.field(factory=list)
    unreadable: list[str] = attrs.field(factory=list)
    passed_over: list[str] = attrs.field(factory=list)  # understood, but not spoken
