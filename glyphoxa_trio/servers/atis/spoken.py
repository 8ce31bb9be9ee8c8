"""A report and its aerodrome's settings as the text to speak.

The same report with the same settings gives the same text, except for the age of a
stale one. The text is never longer than the part of a tool's answer that is spoken.
"""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.tools.speech import MESSAGE_LIMIT

from .phrases import Phraseology
from .report import WeatherReport
from .settings import AUTO, NONE, Aerodrome, Defaults, Letters
from .weather import Reading
from .words import Manner, ago

_MORE: Final = "More was left out."


@attrs.frozen(kw_only=True)
class Script:
    """The spoken text of a report; ``letter`` is its information letter, or empty."""

    text: str
    letter: str


def script(
    report: WeatherReport,
    reading: Reading,
    aerodrome: Aerodrome,
    defaults: Defaults,
    *,
    stale_for: float | None = None,
) -> Script:
    """Return the text of one report.

    Args:
      aerodrome: as `AtisConfig.aerodrome` returns it.
      stale_for: the age of the observation in seconds, if it has to be said.
    """
    manner = Manner(niner=defaults.niner, phonetic=defaults.letters is Letters.PHONETIC)
    letter = letter_of(report, aerodrome.information or NONE)
    voice = Phraseology(manner, defaults.pressure)
    missing = bool(aerodrome.explicit_not_available)
    called = aerodrome.name.strip() or manner.letters(report.icao)
    lines = [
        f"{called} information {manner.letters(letter)}" if letter else called,
        f"Observed at {manner.digits(report.observed.strftime('%H%M'))} Zulu",
    ]
    if stale_for is not None:
        lines.append(f"This report is old: it was observed {ago(stale_for)}")
    lines += voice.runways(aerodrome, missing)
    lines += voice.conditions(reading.now, missing)
    trends = list(filter(None, map(voice.trend, reading.trends)))
    rest = list(voice.operator(aerodrome, missing))
    if count := len(reading.unreadable):
        groups = "one group" if count == 1 else "some groups"
        rest.insert(0, f"{groups} of the report {_is(count)} not readable")
    return Script(text=_fitting(lines, trends, rest), letter=letter)


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def letter_of(report: WeatherReport, policy: str) -> str:
    """Return the information letter; ``auto`` takes the next one each half hour."""
    if policy == NONE:
        return ""
    if policy != AUTO:
        return policy
    at = report.observed
    return chr(ord("A") + (at.hour * 2 + at.minute // 30) % 26)


def _sentence(line: str) -> str:
    line = " ".join(line.split())
    line = line[:1].upper() + line[1:]
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _fitting(lines: list[str], trends: list[str], rest: list[str]) -> str:
    """Join as many whole sentences as fit: trends are dropped first, then the end."""
    for kept in range(len(trends), -1, -1):
        sentences = [_sentence(line) for line in (*lines, *trends[:kept], *rest)]
        if kept < len(trends):
            sentences.append(_MORE)
        if len(text := " ".join(sentences)) <= MESSAGE_LIMIT:
            return text
    said = ""
    for sentence in sentences:
        if len(said) + len(sentence) + len(_MORE) + 1 > MESSAGE_LIMIT:
            break
        said += f"{sentence} "
    return said + _MORE
