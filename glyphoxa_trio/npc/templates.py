"""Template variables of prompts and greetings: pure.

Each placeholder is replaced once, and `str.format` is not used: a value that looks like
a placeholder stays as it is, and so does everything that is not the plain name of a
variable in braces. So no text can make this fail.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# The variables of call-centre prompts: here a call is a session, and the caller a
# player.
DEFAULTS: Final[Mapping[str, str]] = {
    "caller_name": "there",
    "caller_number": "unknown",
    "context_name": "",
    "call_direction": "inbound",
    "campaign_id": "",
    "lead_id": "",
}
CALL_ID: Final = "call_id"

# Doubled braces belong to another template language.
_PLACEHOLDER: Final = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")


def variables(
    given: Mapping[str, object], defaults: Mapping[str, str], *, call_id: str
) -> dict[str, str]:
    """Return the value of each variable: the given one, else the default, else ours.

    None and blank texts count as not given. The call id is always set.
    """
    there = {name: str(value) for name, value in given.items() if value is not None}
    said = {name: value for name, value in there.items() if value.strip()}
    return {**DEFAULTS, **defaults, CALL_ID: call_id, **said}


def names_in(text: str) -> list[str]:
    """Return the names of the variables in a text."""
    return _PLACEHOLDER.findall(text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with values for its placeholders; unknown ones stay."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
