"""Lines of a recording as the messages that an NPC's session had got."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from glyphoxa_trio.npc.session.messages import (
    Approve,
    Elevate,
    Interrupt,
    Introduce,
    Overhear,
    PartialSpeech,
    Say,
    SessionRequest,
    Situate,
)
from glyphoxa_trio.observability.recording.format import Line
from glyphoxa_trio.tools.tier import Tier

MESSAGES: Final[Mapping[str, Callable[[Line], SessionRequest]]] = {
    "hearing": lambda x: PartialSpeech(x["text"], x.get("speaker") or "player"),
    "interrupt": lambda x: Interrupt(x.get("speaker"), bool(x.get("everybody"))),
    "overhear": lambda x: Overhear(x["speaker"], x["text"], x.get("to") or ""),
    "situate": lambda x: Situate(tuple(map(str, x["context"]))),
    "introduce": lambda x: Introduce(x["values"]),
    "approve": lambda x: Approve(x["question"], x["yes"]),
    "elevate": lambda x: Elevate(Tier.parse(x["tier"]), float(x["seconds"])),
}


def say_of(line: Line, listener: str) -> Say:
    """Return what was said, so that its turn can be replayed."""
    return Say(
        line["text"],
        line.get("speaker") or "player",
        Tier.parse(line["tier"]) if line.get("tier") else None,
        script=line.get("script"),
        greets=bool(line.get("greets")),
        waiting=line.get("waiting") or 0,
        listener=listener,
    )
