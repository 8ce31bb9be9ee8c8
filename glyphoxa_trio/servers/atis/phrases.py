"""The parts of a report in words: tables and small pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from .settings import Aerodrome, PressureIn
from .weather import (
    Bound,
    Clouds,
    Conditions,
    Pressure,
    RunwayRange,
    Trend,
    Visibility,
    Weather,
    Wind,
)
from .words import Manner, listed

_NAMES: Final = {
    "DZ": "drizzle",
    "RA": "rain",
    "SN": "snow",
    "SG": "snow grains",
    "IC": "ice crystals",
    "PL": "ice pellets",
    "GR": "hail",
    "GS": "small hail",
    "UP": "unidentified precipitation",
    "BR": "mist",
    "FG": "fog",
    "FU": "smoke",
    "VA": "volcanic ash",
    "DU": "dust",
    "SA": "sand",
    "HZ": "haze",
    "PY": "spray",
    "PO": "dust whirls",
    "SQ": "squalls",
    "FC": "funnel cloud",
    "SS": "sandstorm",
    "DS": "duststorm",
}
_KINDS: Final = {
    "MI": "shallow",
    "PR": "partial",
    "BC": "patches of",
    "DR": "low drifting",
    "BL": "blowing",
    "FZ": "freezing",
}
_INTENSITY: Final = {"-": "light", "+": "heavy"}
_COVERS: Final = {
    "FEW": "few clouds",
    "SCT": "scattered clouds",
    "BKN": "broken clouds",
    "OVC": "overcast",
    "///": "clouds",
}
_NO_CLOUDS: Final = {
    "CLR": "sky clear",
    "SKC": "sky clear",
    "NSC": "no significant clouds",
    "NCD": "no clouds detected",
}
_TYPES: Final = {"CB": "cumulonimbus", "TCU": "towering cumulus"}
_SIDES: Final = {"N": "north", "E": "east", "S": "south", "W": "west"}
_TENDENCY: Final = {"U": "increasing", "D": "decreasing", "N": "not changing"}
_TRENDS: Final = {
    "BECMG": "Becoming",
    "TEMPO": "Temporarily",
    "INTER": "Intermittently",
    "FCST": "Expected",
}
_TIMES: Final = {"FM": "from", "TL": "until", "AT": "at"}
_FRACTIONS: Final = {2: "half", 4: "quarter", 8: "eighth", 16: "sixteenth"}


@attrs.frozen
class Phraseology:
    """The parts of a report in words, each without its full stop."""

    say: Manner
    pressure_in: PressureIn

    def runways(self, aerodrome: Aerodrome, missing: bool) -> Iterator[str]:
        names = [self.say.runway(name) for name in aerodrome.runways]
        if names:
            yield f"runway{'s' if len(names) > 1 else ''} in use {listed(names)}"
        elif missing:
            yield "runway in use not available"

    def operator(self, aerodrome: Aerodrome, missing: bool) -> Iterator[str]:
        if aerodrome.frequency:
            yield f"frequency {self.say.decimal(aerodrome.frequency)}"
        elif missing:
            yield "frequency not available"
        yield from aerodrome.advisories
        if missing and not aerodrome.advisories:
            yield "advisories not available"

    def conditions(self, seen: Conditions, missing: bool = False) -> Iterator[str]:
        """Yield all parts of a report's or a trend's conditions, one line each."""
        if seen.wind:
            yield self.wind(seen.wind)
        elif missing:
            yield "wind not available"
        if seen.cavok:
            yield "ceiling and visibility okay"
        if seen.visibility:
            yield self.visibility(seen.visibility)
        elif missing and not seen.cavok:
            yield "visibility not available"
        yield from map(self.range, seen.ranges)
        if seen.weather:
            yield listed([_weather(group) for group in seen.weather])
        if seen.nothing_significant:
            yield "no significant weather"
        if seen.clouds:
            yield ", ".join(map(self.clouds, seen.clouds))
        degrees = {"temperature": seen.temperature, "dew point": seen.dew_point}
        parts = [
            f"{what} {self.say.signed(value)}"
            for what, value in degrees.items()
            if value is not None
        ]
        if parts:
            yield ", ".join(parts)
        elif missing:
            yield "temperature not available"
        if seen.pressure:
            yield self.pressure(seen.pressure)
        elif missing:
            yield "pressure not available"
        if seen.recent:
            yield f"recent {listed([_weather(group) for group in seen.recent])}"
        if seen.shear:
            yield self.shear(seen.shear)

    def wind(self, wind: Wind) -> str:
        if wind.speed == 0 and wind.gust is None and wind.bound is Bound.EXACT:
            return "wind calm"
        if wind.variable:
            said = "wind variable"
        elif wind.direction is None:
            said = "wind direction not measured,"
        else:
            said = f"wind {self.say.digits(wind.direction, 3)} degrees"
        said += f" {self.bounded(wind.bound, self.say.digits(wind.speed))} {wind.unit}"
        if wind.gust is not None:
            gust = self.bounded(wind.gust_bound, self.say.digits(wind.gust))
            said += f", gusting {gust}"
        if wind.between:
            low, high = (self.say.digits(end, 3) for end in wind.between)
            said += f", varying between {low} and {high} degrees"
        return said

    def visibility(self, seen: list[Visibility]) -> str:
        parts = []
        for one in seen:
            towards = "".join(_SIDES[side] for side in one.towards)
            parts.append(self.far(one) + (f" towards {towards}" if towards else ""))
        return f"visibility {listed(parts)}"

    def far(self, seen: Visibility) -> str:
        if seen.miles is not None:
            return self.bounded(seen.bound, self.miles(seen.miles))
        if seen.bound is Bound.MORE and seen.metres == 10_000:
            return f"{self.say.digits(10)} kilometres or more"
        if seen.metres == 0:
            return f"less than {self.say.digits(50)} metres"
        if seen.metres >= 5000 and seen.metres % 1000 == 0:
            far = f"{self.say.digits(seen.metres // 1000)} kilometres"
        else:
            far = f"{self.say.number(seen.metres)} metres"
        return self.bounded(seen.bound, far)

    def miles(self, miles: float) -> str:
        sixteenths = round(miles * 16)
        whole, rest = divmod(sixteenths, 16)
        if not rest:
            return f"{self.say.digits(whole)} mile{'' if whole == 1 else 's'}"
        below = 16
        while rest % 2 == 0:
            rest, below = rest // 2, below // 2
        part = _FRACTIONS[below]
        if whole:
            share = "a half" if below == 2 else f"{self.say.digits(rest)} {part}"
            return f"{self.say.digits(whole)} and {share} miles"
        if below == 2:
            return "half a mile"
        parts = part if rest == 1 else f"{part}s"
        return f"{self.say.digits(rest)} {parts} of a mile"

    def range(self, seen: RunwayRange) -> str:
        low = self.bounded(seen.low_bound, self.say.number(seen.low))
        said = f"runway {self.say.runway(seen.runway)} visual range "
        if (seen.low, seen.low_bound) == (seen.high, seen.high_bound):
            said += f"{low} {seen.unit}"
        else:
            high = self.bounded(seen.high_bound, self.say.number(seen.high))
            said += f"between {low} and {high} {seen.unit}"
        tendency = _TENDENCY.get(seen.tendency)
        return f"{said}, {tendency}" if tendency else said

    def clouds(self, seen: Clouds) -> str:
        if seen.cover in _NO_CLOUDS:
            return _NO_CLOUDS[seen.cover]
        feet = None if seen.feet is None else self.feet(seen.feet)
        if seen.cover == "VV":
            return f"vertical visibility {feet}" if feet else "sky obscured"
        said = _COVERS[seen.cover]
        if seen.kind:
            said = said.replace("clouds", _TYPES[seen.kind])
            if seen.cover == "OVC":
                said += f" {_TYPES[seen.kind]}"
        return f"{said} at {feet}" if feet else f"{said}, height not measured"

    def feet(self, feet: int) -> str:
        if feet < 100:
            return f"less than {self.say.number(100)} feet"
        return f"{self.say.number(feet)} feet"

    def pressure(self, seen: Pressure) -> str:
        inches = f"altimeter {self.say.digits(seen.hundredths, 4)}"
        metric = f"Q N H {self.say.digits(seen.hectopascals)} hectopascals"
        match self.pressure_in:
            case PressureIn.HECTOPASCALS:
                return metric
            case PressureIn.INCHES:
                return inches
            case PressureIn.BOTH:
                first, second = (inches, metric) if seen.inches else (metric, inches)
                return f"{first}, {second}"
        return inches if seen.inches else metric

    def shear(self, runways: list[str]) -> str:
        if "ALL" in runways:
            return "wind shear on all runways"
        names = listed([self.say.runway(name) for name in runways])
        return f"wind shear on runway{'s' if len(runways) > 1 else ''} {names}"

    def trend(self, trend: Trend) -> str:
        """Return a trend in words; empty if none of it could be read."""
        if trend.kind == "NOSIG":
            return "no significant change expected"
        if not (lines := list(self.conditions(trend.conditions))):
            return ""
        times = [
            f"{_TIMES[time[:2]]} {self.say.digits(time[2:])}" for time in trend.times
        ]
        head = " ".join([_TRENDS[trend.kind], *times])
        return ", ".join([head, *lines])

    @staticmethod
    def bounded(bound: Bound, said: str) -> str:
        return f"{bound} {said}" if bound else said


def _weather(seen: Weather) -> str:
    if seen.intensity == "+" and "FC" in seen.other:
        return "tornado or waterspout"
    falling = listed([_NAMES[code] for code in seen.falling])
    other = listed([_NAMES[code] for code in seen.other])
    kinds = " ".join(_KINDS[code] for code in seen.kinds if code in _KINDS)
    intensity = _INTENSITY.get(seen.intensity, "")
    what = falling or other
    if falling and other:
        what = f"{falling} and {other}"
    if "SH" in seen.kinds:
        what = f"{what} showers".strip()
    words = " ".join(filter(None, (intensity, kinds, what)))
    if "TS" in seen.kinds:
        words = f"thunderstorm with {words}" if what else f"{intensity} thunderstorm"
    if seen.kinds == ("PR",) and not falling:
        words = f"{other} over part of the aerodrome"
    near = " in the vicinity" if seen.intensity == "VC" else ""
    return f"{words.strip()}{near}"
