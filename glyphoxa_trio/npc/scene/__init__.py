"""A scene: several NPCs and players in one place.

The scene decides which NPC is addressed, which one speaks, and tells the others.

    scene = runtime.scene()
    async with scene.say("Bartok, how much is an ale?", speaker="Aria") as turn:
        async for event in turn:
            ...

One NPC speaks at a time: the next one begins when the listener has heard the previous
answer, or has left. All other NPCs have heard what was said, and what was delivered of
the answer.

`scene` is what an embedder holds, `actor` its owner, `queued_utterance` a queued
utterance, `ear` a microphone, and `members` the scene's members. `addressing` and
`addressing_state` are pure: the rules by which an NPC is addressed, and the state that
they need.
"""

from .actor import SceneActor
from .addressing import Addressed, NobodyAddressed, NpcMuted, Why
from .addressing_state import AddressingState
from .ear import SceneEar
from .members import SceneMembers
from .messages import (
    NotHere,
    SceneFull,
    SceneMessages,
    SceneSettings,
    SceneStatistics,
)
from .queued_utterance import SceneTurn
from .scene import Scene

__all__ = [
    "Addressed",
    "AddressingState",
    "NobodyAddressed",
    "NotHere",
    "NpcMuted",
    "Scene",
    "SceneActor",
    "SceneEar",
    "SceneFull",
    "SceneMembers",
    "SceneMessages",
    "SceneSettings",
    "SceneStatistics",
    "SceneTurn",
    "Why",
]
