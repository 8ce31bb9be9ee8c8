"""Converting a group that the library has read into our own values. No I/O.

Each function stores its kind of group in the conditions. It returns False for a group
of any other kind, and for impossible values: a wind of 400 knots, a second temperature.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .weather import (
    Bound,
    Clouds,
    Conditions,
    Pressure,
    RunwayRange,
    SpeedUnit,
    Visibility,
    Weather,
    Wind,
)

if TYPE_CHECKING:
    from metar import Metar

_SPEED_UNIT: Final = (
    ("KMH", SpeedUnit.KILOMETRES_PER_HOUR),
    ("MPS", SpeedUnit.METRES_PER_SECOND),
    ("KTS", SpeedUnit.KNOTS),
    ("KT", SpeedUnit.KNOTS),
    ("LT", SpeedUnit.KNOTS),  # a typing error that stations make
)
_FASTEST: Final = 250  # knots or kilometres an hour: more was never measured
_FARTHEST: Final = 161_000  # metres: a hundred miles
_PRESSURES: Final = range(850, 1101)  # possible values at sea level, in hectopascals
_HIGHEST: Final = 60_000  # feet
_HOTTEST: Final = 90  # degrees, also below zero
_VISIBLE_SIDES: Final = re.compile(r"(?:N|NE|E|SE|S|SW|W|NW)\Z")


def take_wind(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    if seen.wind_speed is None:
        return False
    written = group.partition(" ")[0]
    unit = next((unit for end, unit in _SPEED_UNIT if written.endswith(end)), None)
    # without a unit, the library guesses one
    if unit is None or conditions.wind is not None:
        return False
    speed = round(seen.wind_speed.value())
    gust = None if seen.wind_gust is None else round(seen.wind_gust.value())
    direction = None if seen.wind_dir is None else round(seen.wind_dir.value())
    if max(speed, gust or 0) > _FASTEST or not 0 <= (direction or 0) <= 360:
        return False
    between = None
    if seen.wind_dir_from is not None and seen.wind_dir_to is not None:
        between = (round(seen.wind_dir_from.value()), round(seen.wind_dir_to.value()))
        if max(between) > 360:
            return False
    wind = Wind(
        speed=speed,
        unit=unit,
        direction=direction,
        variable=written.startswith("VRB"),
        bound=_bound(seen.wind_speed.string()),
        gust=gust,
        gust_bound=_bound("" if gust is None else seen.wind_gust.string()),  # type: ignore[union-attr]
        between=between,
    )
    conditions.wind = wind
    return True


def _visibility(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    if seen.vis is None or len(conditions.visibility) > 3:
        return False
    towards = re.search(r"(?<=\d)[NSEW]{1,2}\Z", group)
    if towards is not None and not _VISIBLE_SIDES.match(towards[0]):
        return False
    miles = seen.vis.value("SM") if group.endswith("SM") else None
    if group.endswith(("U", "KM")) and not re.fullmatch(r"\d{1,2}KM", group):
        return False
    metres = round(seen.vis.value("M"))
    bound = _bound(seen.vis.string())
    if group.startswith("9999"):
        metres, bound = 10_000, Bound.MORE
    if metres > _FARTHEST:
        return False
    # Visibility comes in steps of at least 50 m: 2992 is a pressure without its letter.
    if re.fullmatch(r"\d{4}[A-Z]*", group) and metres % 50:
        return False
    conditions.visibility.append(
        Visibility(
            metres=metres,
            miles=miles,
            bound=bound,
            towards=towards[0] if towards else "",
        )
    )
    return True


def _range(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    if not seen.runway or len(conditions.ranges) > 7:
        return False
    name, low, high, unit = seen.runway[0]
    if not 1 <= int(name[:2]) <= 36 or len(name) > 3:
        return False
    unit = "FT" if unit == "FT" else "M"
    conditions.ranges.append(
        RunwayRange(
            runway=name,
            low=round(low.value(unit)),
            low_bound=_bound(low.string()),
            high=round(high.value(unit)),
            high_bound=_bound(high.string()),
            unit="feet" if unit == "FT" else "metres",
            tendency=seen.runway_tendencies[0] or "",
        )
    )
    return True


def _present(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    return bool(seen.weather) and _weather(seen.weather[0], conditions.weather)


def _recent(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    if not seen.recent:
        return False
    return _weather(("", *seen.recent[0][1:]), conditions.recent)


def _weather(codes: tuple[str, ...], into: list[Weather]) -> bool:
    intensity, kinds, falling, obscuring, other = (code or "" for code in codes)
    found = Weather(
        intensity=intensity,
        kinds=_pairs(kinds),
        falling=_pairs(falling),
        other=tuple(filter(None, (obscuring, other))),
    )
    said = (*found.kinds, *found.falling, *found.other)
    if not said or len(said) > 5 or "/" in "".join(said) or len(into) > 5:
        return False
    if intensity not in ("", "-", "+", "VC"):
        return False
    into.append(found)
    return True


def _clouds(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    if not seen.sky or len(conditions.clouds) > 7:
        return False
    cover, height, kind = seen.sky[0]
    feet = None if height is None else round(height.value("FT"))
    if (feet or 0) > _HIGHEST or (kind or "") not in ("", "CB", "TCU"):
        return False
    if cover == "///" and feet is None and not kind:
        return True  # not measured
    conditions.clouds.append(Clouds(cover=cover, feet=feet, kind=kind or ""))
    return True


def _temperature(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    if seen.temp is None and seen.dewpt is None:
        return False
    if conditions.temperature is not None or conditions.dew_point is not None:
        return False
    temperature = None if seen.temp is None else round(seen.temp.value("C"))
    dew_point = None if seen.dewpt is None else round(seen.dewpt.value("C"))
    if temperature is not None:
        if abs(temperature) > _HOTTEST:
            return False
        # the library reads 1/2, part of a mile, so
        if dew_point is not None and dew_point > temperature:
            return False
    conditions.temperature, conditions.dew_point = temperature, dew_point
    return True


def _pressure(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    if seen.press is None:
        return False
    hectopascals = seen.press.value("HPA")
    if int(hectopascals) not in _PRESSURES:
        return False
    found = Pressure(
        # Rounded down: with a pressure that is too low, an altimeter does not show too
        # much.
        hectopascals=int(hectopascals + 1e-6),
        hundredths=int(seen.press.value("IN") * 100 + 1e-4),
        inches=group.startswith("A") or group.endswith("INS"),
    )
    before = conditions.pressure
    if before is None:
        conditions.pressure = found
        return True
    # Some stations report it twice, in both units.
    near = abs(before.hectopascals - found.hectopascals) < 3
    return near and before.inches != found.inches


def _shear(group: str, seen: Metar.Metar, conditions: Conditions) -> bool:
    if not group.startswith("WS ") or len(conditions.shear) > 7:
        return False
    named = re.fullmatch(r"WS (?:ALL RWY|R(?:WY)?(\d\d[LCR]?))", group)
    if named is None or not seen.windshear:
        return False
    if named[1] and not 1 <= int(named[1][:2]) <= 36:
        return False
    conditions.shear.append(named[1] or "ALL")
    return True


Take = Callable[[str, "Metar.Metar", Conditions], bool]
TAKERS: Final[tuple[Take, ...]] = (
    _visibility,
    _range,
    _present,
    _clouds,
    _temperature,
    _pressure,
    _recent,
    _shear,
)


def _bound(words: str) -> Bound:
    """Return the bound that the library expresses in words only."""
    if words.startswith("greater"):
        return Bound.MORE
    return Bound.LESS if words.startswith("less") else Bound.EXACT


def _pairs(codes: str) -> tuple[str, ...]:
    return tuple(codes[at : at + 2] for at in range(0, len(codes), 2))
