"""L4: a configuration, running.

async with open_runtime("config/tavern.yaml") as runtime:
    async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
        async for event in turn:
            ...

`opening` wires the rooms, `runtime` is what an embedder holds, `cast` owns the NPCs'
sessions, `publisher` hands servers' tools to the host, `generations` goes over to
another configuration while all of it runs, `world` is what a rehearsal replaces.
"""

from .cast import UnknownNpc, find_npc
from .collector import Collector
from .generations import Reloaded
from .given import NotOnTrio
from .lateness import OverloadBegan, OverloadEnded, OverloadEvent
from .opening import open_runtime
from .overload import Overload, OverloadStatistics
from .resting import MemoryStore, SessionStore, StoreFull
from .runtime import Runtime, RuntimeClosed
from .session import Session
from .snapshot import SessionSnapshot, SnapshotRefused
from .tables import SessionEnded, TooManySessions
from .world import World

__all__ = [
    "Collector",
    "MemoryStore",
    "NotOnTrio",
    "Overload",
    "OverloadBegan",
    "OverloadEnded",
    "OverloadEvent",
    "OverloadStatistics",
    "Reloaded",
    "Runtime",
    "RuntimeClosed",
    "Session",
    "SessionEnded",
    "SessionSnapshot",
    "SessionStore",
    "SnapshotRefused",
    "StoreFull",
    "TooManySessions",
    "UnknownNpc",
    "World",
    "find_npc",
    "open_runtime",
]
