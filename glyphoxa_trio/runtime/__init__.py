"""The runtime: NPCs, tools and servers as one configuration describes them, running.

    async with open_runtime("config/tavern.yaml") as runtime:
        async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
            async for event in turn:
                ...

This is layer L4: it wires the rooms below it and is what an embedder imports. `opening`
does the wiring; `runtime` and `session` are what an embedder holds. `session_registry`
owns the sessions and the actors of their NPCs, `idle_sessions` sets sessions aside and
brings them back, `publisher` hands the servers' tools to the host, and `config_reload`
switches to another configuration while NPCs talk. `overload` and `loop_lag` refuse
turns that the machine has no time for. `hooks` and `environment` are where recordings,
replays and simulations plug in.
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
