"""The operator's file: runways, frequencies and advisories by aerodrome.

It is read by the rules of the configuration: unknown keys, wrong types and repeated
keys are errors that name their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import attrs

from glyphoxa_trio.config.fields import InMinutes, NotEmpty, above_zero, if_given

ICAO: Final = re.compile(r"[A-Z][A-Z0-9]{3}", re.ASCII)
MOST_AERODROMES: Final = 1000
_LONGEST: Final = 300  # characters of an advisory
_RUNWAY: Final = re.compile(r"(?:0[1-9]|[12]\d|3[0-6])[LRC]?", re.ASCII)
_FREQUENCY: Final = re.compile(r"1[123]\d\.\d{1,3}", re.ASCII)
_INFORMATION: Final = re.compile(r"auto|none|[A-Z]", re.ASCII)
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*", re.ASCII)

AUTO: Final = "auto"
NONE: Final = "none"

Text = Annotated[str, NotEmpty()]


class Letters(StrEnum):
    """The way to say ``K``: as ``Kilo``, or as it is."""

    PHONETIC = "phonetic"
    PLAIN = "plain"


class PressureIn(StrEnum):
    """The unit in which pressure is said."""

    REPORTED = "reported"
    HECTOPASCALS = "hectopascals"
    INCHES = "inches"
    BOTH = "both"


def _spoken(_: Any, __: attrs.Attribute[Any], value: str | tuple[str, ...]) -> None:
    for text in (value,) if isinstance(value, str) else value:
        if not all(character.isprintable() for character in text):
            raise ValueError(
                "has a character that cannot be spoken, such as a line break"
            )
        if len(text) > _LONGEST:
            raise ValueError(f"is longer than {_LONGEST} characters")


def _fits(pattern: re.Pattern[str], what: str) -> Any:
    def check(_: Any, __: attrs.Attribute[Any], value: str | tuple[str, ...]) -> None:
        for text in (value,) if isinstance(value, str) else value:
            if not pattern.fullmatch(text):
                raise ValueError(f"{text!r} is not a {what}")

    return check


def _codes(_: Any, __: attrs.Attribute[Any], value: Mapping[str, Any]) -> None:
    wrong = [repr(code) for code in value if not ICAO.fullmatch(code)]
    if wrong:
        raise ValueError(
            f"{', '.join(wrong[:5])}: an aerodrome is named by the four capital letters"
            " of its ICAO code, such as ENGM"
        )
    if len(value) > MOST_AERODROMES:
        raise ValueError(f"more than {MOST_AERODROMES} aerodromes")


_information: Final = _fits(
    _INFORMATION, "letter; write auto, none, or one from A to Z"
)
_language: Final = _fits(_LANGUAGE, "language, such as en or en-GB")


@attrs.frozen(kw_only=True)
class Defaults:
    """The settings for aerodromes that do not set their own.

    Args:
      explicit_not_available: whether to say that missing data is not available.
      niner: whether to say 9 as in aviation.
      information: the letter: ``auto`` changes with each half hour of observations,
        ``none`` leaves it out.
      language: of the text, for clients that choose a voice by it. The text is English.
      stale_after: seconds after which the age of an observation is said.
      refuse_after: seconds after which an observation is no longer given out.
    """

    explicit_not_available: bool = False
    niner: bool = True
    letters: Letters = Letters.PHONETIC
    pressure: PressureIn = PressureIn.REPORTED
    information: str = attrs.field(default=AUTO, validator=_information)
    language: str = attrs.field(default="en", validator=_language)
    stale_after: InMinutes = attrs.field(default=75 * 60.0, validator=above_zero)
    refuse_after: InMinutes = attrs.field(default=180 * 60.0, validator=above_zero)

    def __attrs_post_init__(self) -> None:
        if self.refuse_after < self.stale_after:
            raise ValueError("refuse_after_minutes is less than stale_after_minutes")


@attrs.frozen(kw_only=True)
class Aerodrome:
    """One aerodrome. A value of None is taken from `Defaults`.

    Args:
      runways: the runways in use.
      frequency: in megahertz, as text, so that 118.300 keeps its zeros.
      advisories: whole sentences, spoken as they are.
    """

    name: str = attrs.field(default="", validator=_spoken)
    runways: tuple[str, ...] = attrs.field(
        default=(), validator=_fits(_RUNWAY, "runway, such as 01L")
    )
    frequency: str | None = attrs.field(
        default=None,
        validator=if_given(_fits(_FREQUENCY, "frequency, such as 118.300")),
    )
    advisories: tuple[Text, ...] = attrs.field(default=(), validator=_spoken)
    information: str | None = attrs.field(
        default=None, validator=if_given(_information)
    )
    language: str | None = attrs.field(default=None, validator=if_given(_language))
    explicit_not_available: bool | None = None


@attrs.frozen(kw_only=True)
class AtisConfig:
    """The content of the whole file."""

    defaults: Defaults = Defaults()
    aerodromes: Mapping[str, Aerodrome] = attrs.field(factory=dict, validator=_codes)

    def aerodrome(self, icao: str) -> Aerodrome:
        """Return the settings of an aerodrome, with the defaults filled in."""
        found = self.aerodromes.get(icao, Aerodrome())
        return attrs.evolve(
            found,
            information=found.information or self.defaults.information,
            language=found.language or self.defaults.language,
            explicit_not_available=(
                self.defaults.explicit_not_available
                if found.explicit_not_available is None
                else found.explicit_not_available
            ),
        )
