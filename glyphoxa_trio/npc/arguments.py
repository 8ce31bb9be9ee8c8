"""Check what callers pass, before it is put into a mailbox.

A mistake is reported to the caller at once, instead of crashing an NPC's actor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from glyphoxa_trio.tools.tier import Tier

_LONGEST: Final = 200


def check_text(**given: object) -> None:
    """Raise TypeError if a value is not text; the message contains its name."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be text (str), not {_shown(value)}")


def check_tier(tier: object, *, optional: bool = True) -> None:
    """Raise TypeError unless it is a `Tier`, or None where it may be omitted."""
    if not (isinstance(tier, Tier) or (tier is None and optional)):
        names = ", ".join(f"Tier.{tier.name}" for tier in Tier)
        raise TypeError(f"tier must be one of {names}, not {_shown(tier)}")


def check_seconds(seconds: object) -> None:
    """Raise TypeError unless it is a number, and ValueError unless it is a duration."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"seconds must be a number, not {_shown(seconds)}")
    if not 0 <= seconds < math.inf:
        raise ValueError(f"seconds must be 0 or more, and finite, not {seconds}")


def check_values(values: object) -> None:
    """Raise TypeError unless it is a mapping whose keys are text."""
    if not isinstance(values, Mapping):
        raise TypeError(f"values must be a mapping, not {_shown(values)}")
    for name in values:
        if not isinstance(name, str):
            raise TypeError(f"the name of a value must be text, not {_shown(name)}")


def check_session(id_: object, tenant: object) -> None:
    """Raise TypeError unless both are text, and ValueError if one is no valid name."""
    check_text(id=id_, tenant=tenant or "")
    for name, value in (("id", str(id_)), ("tenant", str(tenant or "-"))):
        _check_name(f"the {name} of a session", value)


def check_names(*, campaign: object, players: object) -> None:
    """Raise TypeError or ValueError unless a campaign is a name, and players are a
    mapping of names to ids; both may be None."""
    if campaign is not None:
        check_text(campaign=campaign)
        _check_name("the name of a campaign", str(campaign))
    if players is not None:
        check_values(players)
        assert isinstance(players, Mapping)
        for name, value in players.items():
            check_text(**{f"the id of {name}": value})
            _check_name(f"the id of {name}", str(value))


def _check_name(what: str, name: str) -> None:
    if not name.strip() or len(name) > _LONGEST or not name.isprintable():
        raise ValueError(
            f"{what} must be 1 to {_LONGEST} characters that can be shown, not"
            f" {_shown(name)}"
        )


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"
