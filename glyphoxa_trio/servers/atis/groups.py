"""The groups of a report, each parsed by the library `metar`. No I/O.

The library gets one group at a time, since a group that it cannot read would otherwise
change how it reads the rest: it skips groups, it guesses (a visibility that was not
measured becomes ten kilometres, a wind without a unit metres per second), and raises
exceptions of any kind. A group that it does not understand, or reads as something
impossible, counts as unreadable and is kept as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from .values import TAKERS, take_wind
from .weather import Conditions, Reading, Trend

_LONGEST_GROUP: Final = 24  # characters; the longest real one has 20
_MOST_GROUPS: Final = 60

# The text that the library must see before a group. Without a wind it would read 0800
# as one.
_HEAD: Final = "XXXX 010000Z"
_HEAD_WITH_WIND: Final = f"{_HEAD} 00000KT"
_LIKE_WIND: Final = re.compile(r"\S+(?:KTS?|MPS|KMH|LT)(?: \d{3}V\d{3})?")
_REMARKS: Final = re.compile(r"RMKS?|\$")
_TREND: Final = re.compile(r"NOSIG|BECMG|TEMPO|INTER|FCST")
_TIME: Final = re.compile(r"(?:FM|TL|AT)(?:[01]\d|2[0-4])[0-5]\d")
_MISSING: Final = re.compile(  # not measured: unknown, but not an error
    r"/+(?:KTS?|MPS|KMH|SM|NDV)?|[QA]/{4}|R\d\d[LCR]{0,2}/[/NDU]*/|RVRNO"
    r"|(?:MM|XX|//)/(?:MM|XX|//)|MMMMM(?:KT)?"
)
_PASSED: Final = re.compile(  # the state of runways, and military colour codes
    r"R\d\d[LCR]{0,2}/(?:[\d/]{6}|CLRD[\d/]{2}|SNOCLO|D)|\d{2}[\d/]{6}|R?/?SNOCLO"
    r"|(?:BLACK)?(?:BLU|WHT|GRN|YLO[12]?|AMB|RED)\+?(?:/?(?:BLU|WHT|GRN|YLO[12]?|AMB|RED))*"
    r"|NOSPECI|W[/\dM]+/(?:S\d|H\d+)"
)
_PAIRS: Final = (
    (_LIKE_WIND, re.compile(r"\d{3}V\d{3}")),
    (re.compile(r"[MP]?\d{1,2}"), re.compile(r"\d/\d{1,2}SM")),
    (re.compile("WS"), re.compile(r"R(?:WY)?\d\d[LCR]*")),
)


def installed() -> bool:
    """Return whether the library is installed (by the extra ``tools``)."""
    return find_spec("metar") is not None


def read_groups(body: str) -> Reading:
    """Parse every group of a report without its aerodrome and time. Never fails."""
    reading = Reading()
    conditions, trend = reading.now, None
    for at, group in enumerate(_joined(body.split()[: _MOST_GROUPS + 1])):
        if _REMARKS.fullmatch(group):
            break
        if at >= _MOST_GROUPS:
            reading.unreadable.append("…")
            break
        if _TREND.fullmatch(group):
            trend = Trend(kind=group)
            reading.trends.append(trend)
            conditions = trend.conditions
        elif trend is not None and _TIME.fullmatch(group):
            trend.times.append(group)
        elif trend is None and group == "AUTO":
            reading.automatic = True
        elif trend is None and re.fullmatch(r"CORR?|CC[A-G]", group):
            reading.corrected = True
        elif _MISSING.fullmatch(group):
            continue
        elif _PASSED.fullmatch(group):
            reading.passed_over.append(group)
        else:
            reading.unreadable.extend(_taken(group, conditions))
    return reading


def _joined(words: list[str]) -> Iterator[str]:
    """Join the groups that are written as several words."""
    at = 0
    while at < len(words):
        first, *rest = words[at : at + 3]
        count = 1
        if first == "WS" and rest == ["ALL", "RWY"]:
            count = 3
        elif rest and any(
            one.fullmatch(first) and other.fullmatch(rest[0]) for one, other in _PAIRS
        ):
            count = 2
        yield " ".join(words[at : at + count])
        at += count


def _taken(group: str, conditions: Conditions) -> list[str]:
    """Parse a group into ``conditions``, and return the part that could not be read."""
    if _is_read(group, conditions):
        return []
    first, _, rest = group.partition(" ")
    if rest and first != "WS" and _is_read(first, conditions):
        return [rest]  # such as a wind with impossible directions
    return [group]


def _is_read(group: str, conditions: Conditions) -> bool:
    if len(group) > _LONGEST_GROUP:
        return False
    if group == "CAVOK":
        conditions.cavok = True
        return True
    if group == "NSW":
        conditions.nothing_significant = True
        return True
    try:
        from metar import Metar

        windy = _LIKE_WIND.fullmatch(group) is not None
        head = _HEAD if windy else _HEAD_WITH_WIND
        seen = Metar.Metar(f"{head} {group}", month=1, year=2000)
        takers = (take_wind,) if windy else TAKERS
        return any(take(group, seen, conditions) for take in takers)
    except ModuleNotFoundError:  # the library itself is missing
        raise
    except Exception:  # foreign code: after any exception the group is unreadable
        return False
