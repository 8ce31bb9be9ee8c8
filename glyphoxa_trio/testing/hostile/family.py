"""The family: every behaviour by its name, and how one is started.

A behaviour is a function with keyword options that have defaults. `python run.py
NAME [OPTION=VALUE ...]` runs one. All of them understand ``journal=FILE``, where
the tool ``write`` notes what it does, and ``writes=1``, which lists ``bad`` as a tool
with side effects. With ``http=PACKING`` it is the same server on HTTP (see `web`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from . import web, wire

Option = int | str
F = TypeVar("F", bound=Callable[..., None])


class Behaviour(NamedTuple):
    """One way of being a bad server."""

    name: str
    run: Callable[..., None]

    @property
    def says(self) -> str:
        """What it does, in one line."""
        return (self.run.__doc__ or "").partition("\n")[0]

    @property
    def options(self) -> Mapping[str, Option]:
        """Its options with their defaults."""
        return self.run.__kwdefaults__ or {}

    def read(self, option: str, value: str) -> Option:
        """The value of an option as it was written.

        Raises:
          ValueError: naming what is not known, and what is.
        """
        known = {**self.options, **COMMON}
        if option not in known:
            has = ", ".join(known)
            raise ValueError(f"{self.name} has no option {option!r}, but {has}")
        if isinstance(known[option], str):
            allowed = _CHOICES.get((self.name, option))
            if allowed is not None and value not in allowed:
                raise ValueError(
                    f"{self.name}: {option} is one of {', '.join(allowed)}"
                )
            if option == "http" and value not in web.PACKINGS:
                raise ValueError(f"http is one of {', '.join(web.PACKINGS)}")
            return value
        try:
            return int(value)
        except ValueError:
            raise ValueError(
                f"{self.name}: {option} is a whole number, got {value!r}"
            ) from None


COMMON: Mapping[str, Option] = {"journal": "", "writes": 0, "http": ""}

BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(run: F) -> F:
    """Make a function one of the family, under its own name."""
    BEHAVIOURS[run.__name__] = Behaviour(run.__name__, run)
    return run


def words(name: str, options: Mapping[str, object]) -> tuple[str, ...]:
    """The command line words for a behaviour, its options checked.

    Raises:
      ValueError: naming what is not known, and what is.
    """
    found = _find(name)
    for option, value in options.items():
        found.read(option, str(value))
    return name, *(f"{option}={value}" for option, value in options.items())


def main(arguments: Sequence[str]) -> None:
    """Be the server that the command line names, until the client leaves.

    Exits with status 2 and a line on stderr for a name or option it does not know.
    """
    try:
        name, *rest = arguments or [""]
        found, options = _find(name), {}
        for word in rest:
            option, _, value = word.partition("=")
            options[option] = found.read(option, value)
    except ValueError as error:
        sys.exit(_refuse(str(error)))
    with suppress(BrokenPipeError):  # the client is gone: so are we
        journal = options.pop("journal", "")
        wire.keep_journal(str(journal))
        if options.pop("writes", False):
            wire.bad_writes()
        packing = str(options.pop("http", ""))
        if packing:
            web.serve(packing, partial(found.run, **options))
        else:
            found.run(**options)
    os._exit(0)  # a thread that floods must not hold up the end


def _refuse(why: str) -> int:
    wire.say(why)
    return 2


def _find(name: str) -> Behaviour:
    try:
        return BEHAVIOURS[name]
    except KeyError:
        known = ", ".join(sorted(BEHAVIOURS))
        raise ValueError(f"no behaviour {name!r}, there is {known}") from None


_CHOICES: dict[tuple[str, str], tuple[str, ...]] = {}


def choices(option: str, *values: str) -> Callable[[F], F]:
    """Say which values a textual option has; goes below `behaviour`."""

    def noted(run: F) -> F:
        _CHOICES[run.__name__, option] = values
        return run

    return noted
