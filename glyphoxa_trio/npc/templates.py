"""Template variables of prompts and greetings: pure (A32 to A36).

Text is gone through once and never formatted: a value that looks like a placeholder
stays what it is, and whatever is not the plain name of a variable in braces stays as it
was written. So there is nothing here that can fail.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# Seed 003's, where a call is a session and whoever calls is a player.
DEFAULTS: Final[Mapping[str, str]] = {
    "caller_name": "there",
    "caller_number": "unknown",
    "context_name": "",
    "call_direction": "inbound",
    "campaign_id": "",
    "lead_id": "",
}
CALL_ID: Final = "call_id"

# In doubled braces it is somebody else's template.
_PLACEHOLDER: Final = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")


def variables(
    given: Mapping[str, object], defaults: Mapping[str, str], *, call_id: str
) -> dict[str, str]:
    """What stands for what: what was given, else the defaults, else ours.

    Nothing and blanks count as not given. The call id is always set.
    """
    there = {name: str(value) for name, value in given.items() if value is not None}
    said = {name: value for name, value in there.items() if value.strip()}
    return {**DEFAULTS, **defaults, CALL_ID: call_id, **said}


def names_in(text: str) -> list[str]:
    """The names of the variables in a text."""
    return _PLACEHOLDER.findall(text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """``text`` with values for its placeholders; unknown ones stay."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
