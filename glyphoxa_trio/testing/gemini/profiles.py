"""The input that each family of Gemini Live models accepts.

Any other input closes the socket.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

Behavior = Literal["BLOCKING", "NON_BLOCKING"]


@attrs.frozen(kw_only=True)
class ModelFamily:
    """One family of models, as data.

    Args:
      behaviors: the behaviors of functions that it accepts; the first is the default.
      schedules: whether an answer may say when to speak of it.
      takes_content: ``clientContent`` at any time; else only as first history.
      seeds_end_with_user: history without ``historyConfig`` ends with the user.
      updates_context: whether it accepts ``contextUpdate``.
      thinking: the keys of ``thinkingConfig`` that it accepts.
      switches: whether it accepts ``proactivity`` and ``enableAffectiveDialog``.
      tells_status: whether it sends ``interactionStatus``.
      waits_for_user: an answer that interrupts does not talk over the user.
      interim_abandons: an answer with ``willContinue`` ends its call.
    """

    name: str
    behaviors: tuple[Behavior, ...]
    schedules: bool
    takes_content: bool
    seeds_end_with_user: bool = False
    updates_context: bool
    thinking: frozenset[str]
    tells_status: bool
    waits_for_user: bool
    switches: bool = False
    interim_abandons: bool = False


_LEVEL: Final = frozenset({"thinkingLevel", "includeThoughts"})

GEMINI_25: Final = ModelFamily(
    name="2.5 native audio",
    behaviors=("BLOCKING", "NON_BLOCKING"),
    schedules=True,
    takes_content=True,
    seeds_end_with_user=True,
    updates_context=False,
    thinking=frozenset({"thinkingBudget", "includeThoughts"}),
    tells_status=False,
    waits_for_user=False,
    switches=True,
)
GEMINI_31: Final = ModelFamily(
    name="3.1 flash live",
    behaviors=("BLOCKING",),
    schedules=False,
    takes_content=False,
    updates_context=False,
    thinking=_LEVEL,
    tells_status=False,
    waits_for_user=True,
)
GEMINI_38: Final = ModelFamily(
    name="3.8 live",
    behaviors=("NON_BLOCKING", "BLOCKING"),
    schedules=True,
    takes_content=True,
    updates_context=True,
    thinking=frozenset(),
    tells_status=True,
    waits_for_user=True,
)
GEMINI_38_EXTENDED: Final = ModelFamily(
    name="3.8 live extended thinking",
    behaviors=("NON_BLOCKING",),
    schedules=False,
    takes_content=True,
    updates_context=False,
    thinking=_LEVEL,
    tells_status=True,
    waits_for_user=True,
    interim_abandons=True,
)


def profile_of(model: str) -> ModelFamily | None:
    """Return the profile for the name of a model; None for one that is not live."""
    name = model.rsplit("/", 1)[-1]
    if "live" not in name and "native-audio" not in name:
        return None
    if "3.8" in name:
        return GEMINI_38_EXTENDED if "extended-thinking" in name else GEMINI_38
    if "3.1" in name:
        return GEMINI_31
    return GEMINI_25 if "2.5" in name else None
