"""The family of servers: every behaviour by its name, and starting one.

A behaviour is a function with keyword options that have defaults. ``python run.py NAME
[OPTION=VALUE ...]`` runs one. All of them understand ``journal=FILE``, where the tool
``write`` notes its calls, and ``writes=1``, which lists ``bad`` as a tool with side
effects. With ``http=PACKING`` it is the same server on HTTP (see `web`).
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
        """Its description, in one line."""
        return (self.run.__doc__ or "").partition("\n")[0]

    @property
    def options(self) -> Mapping[str, Option]:
        """Its options with their defaults."""
        return self.run.__kwdefaults__ or {}

    def read(self, option: str, value: str) -> Option:
        """Convert the value of an option from text.

        Raises:
          ValueError: for an unknown option or value; the message lists the known ones.
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
    """Add a function to the family, under its own name."""
    BEHAVIOURS[run.__name__] = Behaviour(run.__name__, run)
    return run


def words(name: str, options: Mapping[str, object]) -> tuple[str, ...]:
    """Return the command line words for a behaviour, with its options checked.

    Raises:
      ValueError: for an unknown name or option; the message lists the known ones.
    """
    found = _find(name)
    for option, value in options.items():
        found.read(option, str(value))
    return name, *(f"{option}={value}" for option, value in options.items())


def main(arguments: Sequence[str]) -> None:
    """Be the server that the command line names, until the client disconnects.

    Exits with status 2 and a line on stderr for a name or option that is unknown.
    """
    try:
        name, *rest = arguments or [""]
        found, options = _find(name), {}
        for word in rest:
            option, _, value = word.partition("=")
            options[option] = found.read(option, value)
    except ValueError as error:
        sys.exit(_refuse(str(error)))
    with suppress(BrokenPipeError):  # the client is gone
        journal = options.pop("journal", "")
        wire.keep_journal(str(journal))
        if options.pop("writes", False):
            wire.bad_writes()
        packing = str(options.pop("http", ""))
        if packing:
            web.serve(packing, partial(found.run, **options))
        else:
            found.run(**options)
    os._exit(0)  # a thread that floods must not delay the end


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
    """Set the possible values of a textual option; used below `behaviour`."""

    def noted(run: F) -> F:
        _CHOICES[run.__name__, option] = values
        return run

    return noted
