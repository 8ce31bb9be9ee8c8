"""The session: one NPC in one conversation.

`npc` is what an embedder holds, `messages` what the session can be asked, `actor` the
session itself, and `model_ear` a microphone in front of a model that hears.
"""

from .actor import NpcSession, open_session, run_session
from .npc import CannotHear, Npc, OpenEar, Turn, TurnNotOver

__all__ = [
    "CannotHear",
    "Npc",
    "NpcSession",
    "OpenEar",
    "Turn",
    "TurnNotOver",
    "open_session",
    "run_session",
]
