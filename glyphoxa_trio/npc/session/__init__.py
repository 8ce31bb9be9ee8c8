"""One NPC in one conversation.

`npc` is what an embedder holds, `messages` what the session can be asked, `actor` the
session itself, `model_ear` a microphone at a model that hears for itself.
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
