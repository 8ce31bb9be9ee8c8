"""Numbers and letters as they are said over a radio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

# fmt: off
_DIGITS: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
)
_TEENS: Final = (
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen",
    "seventeen", "eighteen", "nineteen",
)
_TENS: Final = ("twenty", "thirty", "forty", "fifty")
_LETTERS: Final = (
    "Alfa", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot", "Golf", "Hotel", "India",
    "Juliett", "Kilo", "Lima", "Mike", "November", "Oscar", "Papa", "Quebec", "Romeo",
    "Sierra", "Tango", "Uniform", "Victor", "Whiskey", "X-ray", "Yankee", "Zulu",
)
# fmt: on
_SIDES: Final = {"L": "left", "R": "right", "C": "centre"}


@attrs.frozen(kw_only=True)
class Manner:
    """The manner of speaking: ``nine`` or ``niner``, ``K`` or ``Kilo``."""

    niner: bool = True
    phonetic: bool = True

    def digits(self, number: int | str, width: int = 1) -> str:
        """Say digits one after the other: 320 is ``three two zero``."""
        text = str(number).rjust(width, "0")
        return " ".join(self._digit(character) for character in text)

    def letters(self, text: str) -> str:
        """Say letters and digits one by one."""
        return " ".join(
            self._digit(character) if character.isdigit() else self._letter(character)
            for character in text
        )

    def number(self, whole: int) -> str:
        """Say a number by thousands and hundreds, others by their digits.

        10500 is ``one zero thousand five hundred``.
        """
        if whole < 100 or whole % 100:
            return self.digits(whole)
        thousands, hundreds = divmod(whole // 100, 10)
        parts = [f"{self.digits(thousands)} thousand"] if thousands else []
        parts += [f"{self.digits(hundreds)} hundred"] if hundreds else []
        return " ".join(parts)

    def signed(self, degrees: int) -> str:
        return f"minus {self.digits(-degrees)}" if degrees < 0 else self.digits(degrees)

    def runway(self, name: str) -> str:
        """Say a runway: ``01L`` is ``zero one left``."""
        side = _SIDES.get(name[-1:], "")
        number = self.digits(name.rstrip("LRC"))
        return f"{number} {side}" if side else number

    def decimal(self, text: str) -> str:
        """Say a decimal number: ``118.300`` is ``one one eight decimal three``."""
        whole, _, rest = text.partition(".")
        rest = rest.rstrip("0") or "0"
        return f"{self.digits(whole)} decimal {self.digits(rest)}"

    def _digit(self, digit: str) -> str:
        return "niner" if self.niner and digit == "9" else _DIGITS[int(digit)]

    def _letter(self, letter: str) -> str:
        return _LETTERS[ord(letter) - ord("A")] if self.phonetic else letter


def plain(whole: int) -> str:
    """Say a number from 0 to 59 as in a conversation: 40 is ``forty``."""
    if whole < 10:
        return _DIGITS[whole]
    if whole < 20:
        return _TEENS[whole - 10]
    tens, ones = divmod(whole, 10)
    return _TENS[tens - 2] + (f"-{_DIGITS[ones]}" if ones else "")


def ago(seconds: float) -> str:
    """Say how long ago that is, as ``two hours and five minutes ago``."""
    minutes = max(0, int(seconds // 60))
    hours, minutes = divmod(minutes, 60)
    if hours > 23:
        return "more than a day ago"
    parts = [_counted(hours, "hour")] if hours else []
    parts += [_counted(minutes, "minute")] if minutes else []
    return f"{listed(parts)} ago" if parts else "less than a minute ago"


def listed(parts: Sequence[str], joint: str = "and") -> str:
    """Join parts: ``a``, ``a and b``, ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {joint} {parts[-1]}"


def _counted(count: int, noun: str) -> str:
    return f"{plain(count)} {noun}{'' if count == 1 else 's'}"
