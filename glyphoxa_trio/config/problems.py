"""The problems of a configuration, and the words for them.

No message shows the value of a secret, of an address or of a variable: a message
echoes only text of the file, and only where no secret belongs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError

_LONGEST: Final = 60  # characters of a value in a message


class ConfigError(GlyphoxaError):
    """The configuration does not describe a runtime: `problems`, one per line.

    From a file, each problem ends in its place: ``<what> @ <file>.<path>``.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)

    @property
    def problems(self) -> tuple[str, ...]:
        return self.args

    def __str__(self) -> str:
        return "\n".join(self.problems)


class ConfigMisfit(ValueError):
    """Values that do not fit: pairs of a place, relative, and the problem there."""

    def __init__(self, found: list[tuple[str, str]]) -> None:
        super().__init__()
        self.found = found


@attrs.define(eq=False)
class Problems:
    """Collects what does not fit at one place and below, so that the walk goes on."""

    found: list[tuple[str, str]] = attrs.field(factory=list)

    def add(self, what: str, *steps: object) -> None:
        self.found.append(("".join(map(place_of, steps)), what))

    @contextmanager
    def under(self, step: object) -> Iterator[None]:
        """Go one step down; what does not fit there is kept, and the walk goes on."""
        place = place_of(step)
        try:
            yield
        except ConfigMisfit as misfit:
            self.found += [(place + below, what) for below, what in misfit.found]
        except ConfigError as error:
            self.found += [(place, what) for what in error.problems]
        except ValueError as error:
            self.found.append((place, str(error)))

    def end(self) -> None:
        if self.found:
            raise ConfigMisfit(self.found)


def place_of(step: object) -> str:
    plain = isinstance(step, str) and re.fullmatch(r"[\w-]+", step)
    return f".{step}" if plain else f"[{shown(step)}]"


def shown(value: object) -> str:
    """A value as people wrote it, cut to a line."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > _LONGEST:  # Python refuses to print some
            return "a huge number"
        case str() | int() | float():
            text = repr(value)
            return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        case _:
            return sort_of(value)


def sort_of(value: object) -> str:
    """Return the sort of a value, without showing it."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case Mapping():
            return "a mapping"
        case _:
            return f"a {type(value).__name__}"
