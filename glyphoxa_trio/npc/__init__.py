"""L3, the NPCs: one session actor each, its turns, and who decides their tier.

`selection` and `turn` are pure rules; `session` is the actor; `engines` hold the
round loop; `npc` is what an embedder holds.
"""

from .approval import ApprovalRequest, Approver
from .events import (
    ApprovalNeeded,
    ApprovalSettled,
    Decision,
    Fallback,
    FanOutDone,
    FellBack,
    LateResult,
    ModelFailed,
    Queued,
    Sentence,
    Shed,
    SpeculationDone,
    SpeculationEnd,
    TextDelta,
    TierSelected,
    Timings,
    ToolFinished,
    ToolsShown,
    ToolStarted,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from .npc import Npc, Turn, TurnNotOver
from .session import NpcSession, QueueFull
from .speculator import SpeculationStatistics

__all__ = [
    "ApprovalNeeded",
    "ApprovalRequest",
    "ApprovalSettled",
    "Approver",
    "Decision",
    "Fallback",
    "FanOutDone",
    "FellBack",
    "LateResult",
    "ModelFailed",
    "Npc",
    "NpcSession",
    "QueueFull",
    "Queued",
    "Sentence",
    "Shed",
    "SpeculationDone",
    "SpeculationEnd",
    "SpeculationStatistics",
    "TextDelta",
    "TierSelected",
    "Timings",
    "ToolFinished",
    "ToolStarted",
    "ToolsShown",
    "Turn",
    "TurnDone",
    "TurnEnd",
    "TurnEvent",
    "TurnNotOver",
]
