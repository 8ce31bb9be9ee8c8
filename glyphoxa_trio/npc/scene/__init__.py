"""Several NPCs and players in one place: who is meant, who speaks, and who hears it.

    scene = runtime.scene()
    async with scene.say("Bartok, how much is an ale?", speaker="Aria") as turn:
        async for event in turn:
            ...

One NPC speaks at a time: the next one begins when the listener has heard the one
before, or has left. What was said, and what was delivered of an answer, everybody else
has heard.

`scene` is what an embedder holds, `actor` its owner, `place` an utterance on its way,
`ear` a microphone, `company` the NPCs; `addressing` and `attention` are pure:
who is meant, what that needs to know, and what is told of it.
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
