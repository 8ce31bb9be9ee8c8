"""Several NPCs and players in one place: who is meant, who speaks, and who hears it.

    scene = runtime.scene()
    async with scene.say("Bartok, how much is an ale?", speaker="Aria") as turn:
        async for event in turn:
            ...

One NPC speaks at a time: the next one begins when the listener has heard the one
before, or has left. What was said, and what was delivered of an answer, everybody else
has heard.

`scene` is what an embedder holds, `actor` its owner, `place` an utterance on its way;
`addressing` and `floor` are pure rules: who is meant, and who is next.
"""

from .actor import SceneActor
from .addressing import Addressed, NobodyAddressed, NpcMuted, Why
from .floor import SceneFull
from .messages import NotHere, SceneSettings, SceneStatistics
from .place import SceneTurn
from .scene import Scene

__all__ = [
    "Addressed",
    "NobodyAddressed",
    "NotHere",
    "NpcMuted",
    "Scene",
    "SceneActor",
    "SceneFull",
    "SceneSettings",
    "SceneStatistics",
    "SceneTurn",
    "Why",
]
