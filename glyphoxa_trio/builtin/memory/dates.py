"""The date of something, as people say it and as programs write it. Pure."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any, Final

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
_ISO: Final = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_SPOKEN: Final = re.compile(r"\b(\d{1,2})\.? ([a-z]{3,9})\.?(?:,? (\d{4}))?\b")
_MONTH_FIRST: Final = re.compile(r"\b([a-z]{3,9}) (\d{1,2})\b(?:,? (\d{4}))?")


def day_of(at: float) -> date:
    """Return the day of a Unix time, where this process is."""
    return datetime.fromtimestamp(at).date()


def day_in_words(at: float, now: float) -> str:
    """Return "today", "yesterday", or such as "on 12 November 2025".

    The year is left out if it is that of ``now``.
    """
    day, today = day_of(at), day_of(now)
    match (today - day).days:
        case 0:
            return "today"
        case 1:
            return "yesterday"
    said = f"on {day.day} {_MONTHS[day.month - 1]}"
    return said if day.year == today.year else f"{said} {day.year}"


def times(at: float, now: float) -> dict[str, Any]:
    """Return the fields of an answer that say when: in ISO 8601, and in words.

    There are none for a time that is not known, which is 0.
    """
    if at <= 0:
        return {}
    local = datetime.fromtimestamp(at).astimezone()
    return {
        "at": local.isoformat(timespec="seconds"),
        "when": day_in_words(at, now),
    }


def is_day(text: str, at: float) -> bool:
    """Return True if ``text`` names the day of that time: 2026-11-12, 12 November."""
    day, plain = day_of(at), text.casefold()
    if found := _ISO.search(plain):
        return tuple(map(int, found.groups())) == (day.year, day.month, day.day)
    if found := _SPOKEN.search(plain):
        number, month, year = found.groups()
    elif found := _MONTH_FIRST.search(plain):
        month, number, year = found.groups()
    else:
        return False
    named = _MONTHS[day.month - 1].casefold().startswith(month)
    return named and int(number) == day.day and int(year or day.year) == day.year
