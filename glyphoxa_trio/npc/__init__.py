"""L3, the NPCs: one session actor each, its turns, and who decides their tier.

`selection` and `turn` are pure rules; `session` is the actor; `engines` hold the
round loop; `npc` is what an embedder holds, and `scene` holds several of them.
"""

from .approval import ApprovalRequest, Approver
from .cost import Costs, CostStatistics, Spent
from .events import (
    ApprovalNeeded,
    ApprovalSettled,
    ContextAdded,
    Decision,
    EngineSwitched,
    Fallback,
    FanOutDone,
    FellBack,
    Filler,
    Flush,
    HearingFailed,
    LateResult,
    ModelFailed,
    ModelSwitched,
    Queued,
    Scripted,
    Sentence,
    Shed,
    SpeculationDone,
    SpeculationEnd,
    Speech,
    SpeechFailed,
    TextDelta,
    TierSelected,
    Timings,
    ToolFinished,
    ToolsShown,
    ToolStarted,
    Transcript,
    TurnDone,
    TurnEnd,
    TurnEvent,
    UsageReported,
)
from .hot_context import Moment, Provide
<<<<<<< HEAD
from .npc import Npc, Turn, TurnNotOver
from .scene import (
    Addressed,
    NobodyAddressed,
    NotHere,
    NpcMuted,
    Scene,
    SceneFull,
    SceneStatistics,
    SceneTurn,
    Why,
)
=======
from .npc import CannotHear, Npc, Turn, TurnNotOver
>>>>>>> 3451ea6 (Hearing and speaking: how it is used, what it costs, what fails; an example from one WAV file to another)
from .session import NpcSession, QueueFull
from .speculator import SpeculationStatistics
from .voice import Voice

__all__ = [
    "Addressed",
    "ApprovalNeeded",
    "ApprovalRequest",
    "ApprovalSettled",
    "Approver",
    "CannotHear",
    "ContextAdded",
    "CostStatistics",
    "Costs",
    "Decision",
    "EngineSwitched",
    "Fallback",
    "FanOutDone",
    "FellBack",
    "Filler",
    "Flush",
    "HearingFailed",
    "LateResult",
    "ModelFailed",
    "ModelSwitched",
    "Moment",
    "NobodyAddressed",
    "NotHere",
    "Npc",
    "NpcMuted",
    "NpcSession",
    "Provide",
    "QueueFull",
    "Queued",
    "Scene",
    "SceneFull",
    "SceneStatistics",
    "SceneTurn",
    "Scripted",
    "Sentence",
    "Shed",
    "SpeculationDone",
    "SpeculationEnd",
    "SpeculationStatistics",
    "Speech",
    "SpeechFailed",
    "Spent",
    "TextDelta",
    "TierSelected",
    "Timings",
    "ToolFinished",
    "ToolStarted",
    "ToolsShown",
    "Transcript",
    "Turn",
    "TurnDone",
    "TurnEnd",
    "TurnEvent",
    "TurnNotOver",
    "UsageReported",
<<<<<<< HEAD
    "Why",
=======
    "Voice",
>>>>>>> 3451ea6 (Hearing and speaking: how it is used, what it costs, what fails; an example from one WAV file to another)
]
