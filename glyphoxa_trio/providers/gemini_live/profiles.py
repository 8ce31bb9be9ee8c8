"""The profile of each family of Gemini Live models: data, chosen by the model's name.

One unsupported field closes the socket with 1007, so an unknown name gets `CAUTIOUS`,
which every family accepts. Sources: the vendor's model pages, its guide for moving from
2.5 to 3.8, and reports of users whose socket was closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Calling, Capabilities, Schedule

INPUT_RATE: Final = 16_000
OUTPUT_RATE: Final = 24_000


class HistoryStyle(StrEnum):
    """The way in which a new socket is told what was said before."""

    CONFIG = "config"  # turns after the setup, which announces them
    TURNS = "turns"  # turns after the setup, of which the last is the user's
    INSTRUCTIONS = "instructions"  # as a part of the instructions


@attrs.frozen(kw_only=True)
class Profile:
    """The features of a family of models, beyond what all of them support.

    Args:
      calling: what a tool may be declared as; the first is the default. If there is
        only one, ``behavior`` is not sent at all.
      scheduling: True if a result of a non-blocking tool may say when to speak of it.
      updates: True if tools and instructions can be replaced by ``contextUpdate``.
      turns: True if ``clientContent`` is accepted at any time, and stops the model.
        Otherwise at most as the first history.
      text_as_turn: True if text is sent as such a turn, not as real-time input.
      cancels: True if an empty turn stops a response without other effects.
      history: how a new socket is told what was said before.
      ends_with_status: True if the end of a turn is the interaction's only with the
        ``interactionStatus`` IDLE. Otherwise it is unless a status says otherwise.
      refuses: the options that are refused, with the reason, in words that continue
        after the model's name.
    """

    calling: tuple[Calling, ...]
    scheduling: bool = False
    updates: bool = False
    turns: bool = False
    text_as_turn: bool = False
    cancels: bool = False
    history: HistoryStyle = HistoryStyle.CONFIG
    ends_with_status: bool = False
    refuses: Mapping[str, str] = attrs.field(factory=dict, hash=False)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            live_tools=self.updates,
            acknowledges_tools=False,
            asks_for_responses=False,
            takes_text=True,
            silent_text=self.turns,
            forgets_text=False,
            cancels=self.cancels,
            truncates=False,
            forbids_tools=False,
            calling=self.calling,
            stays_owed=frozenset(self.calling) & {Calling.NON_BLOCKING},
            scheduling=frozenset(Schedule) if self.scheduling else frozenset(),
            resumes=True,
            lifetime=600.0,  # approximately; `GoingAway` comes a minute before
            input_rate=INPUT_RATE,
            output_rate=OUTPUT_RATE,
            max_tools=128,
            max_result=4096,  # larger results are suspected to cause error 1011
        )


_LEVEL: Final = "accepts no budget; set thinking: low, or another level"
_BY_ITSELF: Final = "decides by itself how much it thinks; leave it out"
_ALWAYS: Final = "is always so, and accepts no setting; leave it out"
_NOT_THERE: Final = "does not have it; leave it out"
_NOT_KNOWN: Final = "is not known to have it; leave it out, or pass a profile"

CAUTIOUS: Final = Profile(
    calling=(Calling.BLOCKING,),
    history=HistoryStyle.INSTRUCTIONS,
    refuses={"proactive": _NOT_KNOWN, "affective": _NOT_KNOWN},
)

NATIVE_AUDIO_2_5: Final = Profile(
    calling=(Calling.BLOCKING, Calling.NON_BLOCKING),
    scheduling=True,
    turns=True,
    text_as_turn=True,
    history=HistoryStyle.TURNS,
    refuses={"thinking": "accepts no level; set thinking_budget, in tokens"},
)

FLASH_LIVE_3_1: Final = Profile(
    calling=(Calling.BLOCKING,),
    refuses={
        "thinking_budget": _LEVEL,
        "proactive": _NOT_THERE,
        "affective": _NOT_THERE,
    },
)

LIVE_3_8: Final = Profile(
    calling=(Calling.NON_BLOCKING, Calling.BLOCKING),
    scheduling=True,
    updates=True,
    turns=True,
    cancels=True,
    refuses={
        "thinking": _BY_ITSELF,
        "thinking_budget": _BY_ITSELF,
        "proactive": _ALWAYS,
        "affective": _ALWAYS,
    },
)

EXTENDED_THINKING_3_8: Final = Profile(
    calling=(Calling.NON_BLOCKING,),
    turns=True,
    cancels=True,
    ends_with_status=True,
    refuses={
        "thinking_budget": _LEVEL,
        "proactive": _ALWAYS,
        "affective": _ALWAYS,
    },
)

_FAMILIES: Final = (
    (r"gemini-3\.8-.*extended-thinking", EXTENDED_THINKING_3_8),
    (r"gemini-3\.8-live", LIVE_3_8),
    (r"gemini-3\.1-.*live", FLASH_LIVE_3_1),
    (r"gemini-(live-)?2\.5-.*native-audio", NATIVE_AUDIO_2_5),
)


def profile_of(model: str) -> Profile:
    """Return the profile of a model, by its name with or without a path before it."""
    name = model.rpartition("/")[2]
    for pattern, profile in _FAMILIES:
        if re.match(pattern, name):
            return profile
    return CAUTIOUS


def on_vertex(profile: Profile) -> Profile:
    """Return the profile of the same model on Vertex, which lacks ``scheduling``."""
    return attrs.evolve(profile, scheduling=False)
