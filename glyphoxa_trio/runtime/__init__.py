"""The runtime: NPCs, tools and servers as one configuration describes them, running.

    async with open_runtime("config/tavern.yaml") as runtime:
        async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
            async for event in turn:
                ...

This is layer L4: it wires the rooms below it and is what an embedder imports. `opening`
has `open_runtime`, which imports `wiring` when it is called; `runtime` and `session`
are what an embedder holds. `session_registry` owns the sessions and the actors of their
NPCs, `idle_sessions` sets sessions aside and brings them back, `publisher` hands the
servers' tools to the host, and `config_reload` switches to another configuration while
NPCs talk. `overload` and `loop_lag` refuse turns that the machine has no time for.
`hooks` and `environment` are where recordings, replays and simulations plug in. A name
is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .collector import Collector
    from .config_reload import Reloaded
    from .environment import Environment
    from .idle_sessions import MemoryStore, SessionStore, StoreFull
    from .loop_lag import OverloadBegan, OverloadEnded, OverloadEvent
    from .opening import NotOnTrio, open_runtime
    from .overload import Overload, OverloadStatistics
    from .prompts import PromptRefused
    from .runtime import Runtime, RuntimeClosed
    from .session import Session
    from .session_registry import (
        NotClaimed,
        SessionHold,
        UnknownNpc,
        WordsKeeper,
        find_npc,
    )
    from .session_snapshot import SessionSnapshot, SnapshotRefused
    from .session_state import SessionEnded, TooManySessions
    from .session_status import SessionOverview
else:
    from glyphoxa_trio.lazy import lazy_names
    from glyphoxa_trio.renamed import renamed

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Collector": "collector",
            "Environment": "environment",
            "MemoryStore": "idle_sessions",
            "NotClaimed": "session_registry",
            "NotOnTrio": "opening",
            "Overload": "overload",
            "OverloadBegan": "loop_lag",
            "OverloadEnded": "loop_lag",
            "OverloadEvent": "loop_lag",
            "OverloadStatistics": "overload",
            "PromptRefused": "prompts",
            "Reloaded": "config_reload",
            "Runtime": "runtime",
            "RuntimeClosed": "runtime",
            "Session": "session",
            "SessionEnded": "session_state",
            "SessionHold": "session_registry",
            "SessionSnapshot": "session_snapshot",
            "SessionOverview": "session_status",
            "SessionStore": "idle_sessions",
            "SnapshotRefused": "session_snapshot",
            "StoreFull": "idle_sessions",
            "TooManySessions": "session_state",
            "UnknownNpc": "session_registry",
            "WordsKeeper": "session_registry",
            "find_npc": "session_registry",
            "open_runtime": "opening",
        },
        otherwise=renamed(__name__, 4, World="Environment"),
    )

__all__ = [
    "Collector",
    "Environment",
    "MemoryStore",
    "NotClaimed",
    "NotOnTrio",
    "Overload",
    "OverloadBegan",
    "OverloadEnded",
    "OverloadEvent",
    "OverloadStatistics",
    "PromptRefused",
    "Reloaded",
    "Runtime",
    "RuntimeClosed",
    "Session",
    "SessionEnded",
    "SessionHold",
    "SessionOverview",
    "SessionSnapshot",
    "SessionStore",
    "SnapshotRefused",
    "StoreFull",
    "TooManySessions",
    "UnknownNpc",
    "WordsKeeper",
    "find_npc",
    "open_runtime",
]
