"""L4: a configuration, running.

async with open_runtime("config/tavern.yaml") as runtime:
    async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
        async for event in turn:
            ...

`opening` wires the rooms, `runtime` is what an embedder holds, `cast` owns the NPCs'
sessions, `publisher` hands servers' tools to the host, `generations` goes over to
another configuration while all of it runs, `world` is what a rehearsal replaces.
"""

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

from .collector import Collector
from .config_reload import Reloaded
from .environment import Environment
from .given import NotOnTrio
from .idle_sessions import MemoryStore, SessionStore, StoreFull
from .loop_lag import OverloadBegan, OverloadEnded, OverloadEvent
from .opening import open_runtime
from .overload import Overload, OverloadStatistics
from .runtime import Runtime, RuntimeClosed
from .session import Session
from .session_registry import UnknownNpc, find_npc
from .session_state import SessionEnded, TooManySessions
from .snapshot import SessionSnapshot, SnapshotRefused

__all__ = [
    "Collector",
    "Environment",
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
    "find_npc",
    "open_runtime",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, World="Environment")
