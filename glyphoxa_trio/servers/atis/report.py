"""Finding the latest report of an aerodrome in the text of a feed. No I/O.

A feed sends one report after the other. Each begins with the aerodrome and the time,
ends with ``=`` or where the next one begins, and may take several lines. Anything else
is skipped: other aerodromes, forecasts, markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

LONGEST: Final = 600  # characters of a report that are read
# a station's clock may be fast, and ours may be slow
_AHEAD: Final = timedelta(hours=1)

_HEAD: Final = re.compile(
    r"(?:(?:METAR|SPECI)\s+)?(?:(?P<before>COR|AMD)\s+)?(?P<icao>[A-Z][A-Z0-9]{3})\s+"
    r"(?P<day>\d\d)(?P<hour>\d\d)(?P<minute>\d\d)Z(?:\s+|=|$)(?!\d{4}/\d{4}\b)",
    re.ASCII,
)
_OTHER: Final = re.compile(r"TAF\b|[A-Z][A-Z0-9]{3}\s+\d{6}Z", re.ASCII)


@attrs.frozen(kw_only=True)
class WeatherReport:
    """One report: the time of observation (UTC), and the text after station and time.

    ``raw`` is the whole report, in one line of printable ASCII.
    """

    icao: str
    observed: datetime
    raw: str
    body: str
    corrected: bool = False


def latest(text: str, icao: str, now: datetime) -> WeatherReport | None:
    """Return the last report of ``icao`` that is not empty; None if there is none.

    Args:
      now: the time, in UTC; a report has the day of the month, but no month.
    """
    best: WeatherReport | None = None
    for raw in _reports(text):
        report = read(raw, now)
        if report is None or report.icao != icao or _says_nothing(report.body):
            continue
        if not is_older(report, best):
            best = report
    return best


def read(raw: str, now: datetime) -> WeatherReport | None:
    """Parse the report in one line; None if it does not begin like one."""
    head = _HEAD.match(raw)
    if head is None:
        return None
    observed = _moment(int(head["day"]), int(head["hour"]), int(head["minute"]), now)
    if observed is None:
        return None
    body = raw[head.end() :].rstrip("= ")
    return WeatherReport(
        icao=head["icao"],
        observed=observed,
        raw=raw.rstrip("= "),
        body=body,
        corrected=head["before"] == "COR" or body.startswith(("COR ", "CCA ", "CCB ")),
    )


def is_older(report: WeatherReport | None, other: WeatherReport | None) -> bool:
    """Return whether ``other`` is the later of two reports; False if equal."""
    if report is None or other is None:
        return False
    mine, theirs = (
        (report.observed, report.corrected),
        (other.observed, other.corrected),
    )
    return mine < theirs


def _says_nothing(body: str) -> bool:
    return not body or body.split()[-1] == "NIL"


def _reports(text: str) -> Iterator[str]:
    """Yield each report as one line, cut at `LONGEST` characters."""
    gathered = ""
    for line in text.splitlines():
        plain = "".join(
            c if " " <= c <= "~" else " " if c == "\t" else "?" for c in line
        )
        for piece, ended in _pieces(" ".join(plain.split())):
            if _HEAD.match(piece) or _OTHER.match(piece):
                if gathered:
                    yield gathered[:LONGEST]
                gathered = piece
            elif gathered and len(gathered) < LONGEST:
                gathered += f" {piece}"
            if ended and gathered:
                yield gathered[:LONGEST]
                gathered = ""
    if gathered:
        yield gathered[:LONGEST]


def _pieces(line: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a line between ``=``, and whether ``=`` follows each."""
    *ended, rest = line.split("=")
    for piece in ended:
        yield piece.strip(), True
    if rest.strip():
        yield rest.strip(), False


def _moment(day: int, hour: int, minute: int, now: datetime) -> datetime | None:
    """Return the last such day, hour and minute; None if there is none."""
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    month = (first + timedelta(days=32)).replace(day=1)
    # the next month, this one, and two before: for the 31st of January
    for _ in range(4):
        try:
            found = month.replace(day=day, hour=hour, minute=minute)
        except ValueError:
            pass
        else:
            if found <= now + _AHEAD:
                return found
        month = (month - timedelta(days=1)).replace(day=1)
    return None
