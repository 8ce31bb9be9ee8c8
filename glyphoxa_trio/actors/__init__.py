"""The actor kernel (L0), which is independent of NPCs, tools and servers.

`mailbox` and `supervision` make an actor; `shared_task` runs foreign code where it
cannot block a caller; `fanout`, `stream` and `topic` deliver results and events.
"""

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

from .call import Call, Request
from .fanout import LATE, FanOut, Late
from .handover import Handover
from .lag import STALL, LoopLag, OwnTime, loop_lag
from .lone import lone_errors
from .mailbox import Inbox, MailboxStatistics, Ref, spawn
from .open_time import OpenTime
from .shared_task import (
    SharedTask,
    SharedTaskCancelled,
    SharedTasks,
    SharedTaskStatistics,
    TaskResult,
)
from .signal import Signal
from .stable_ref import StableRef
from .stream import Stream, StreamStatistics
from .supervision import (
    Backoff,
    Failed,
    GaveUp,
    OnEvent,
    Restarting,
    Started,
    SupervisionEvent,
    crash_report,
    supervise,
)
from .told import careful, tell
from .topic import Lag, Lagged, Subscription, Topic
from .watchdog import HOLD, LoopHold, Watchdog, watchdog

__all__ = [
    "HOLD",
    "LATE",
    "STALL",
    "Backoff",
    "Call",
    "Failed",
    "FanOut",
    "GaveUp",
    "Handover",
    "Inbox",
    "Lag",
    "Lagged",
    "Late",
    "LoopHold",
    "LoopLag",
    "MailboxStatistics",
    "OnEvent",
    "OpenTime",
    "OwnTime",
    "Ref",
    "Request",
    "Restarting",
    "SharedTask",
    "SharedTaskCancelled",
    "SharedTaskStatistics",
    "SharedTasks",
    "Signal",
    "StableRef",
    "Started",
    "Stream",
    "StreamStatistics",
    "Subscription",
    "SupervisionEvent",
    "TaskResult",
    "Topic",
    "Watchdog",
    "careful",
    "crash_report",
    "lone_errors",
    "loop_lag",
    "spawn",
    "supervise",
    "tell",
    "watchdog",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__,
        Door="StableRef",
        Flight="SharedTask",
        FlightCancelled="SharedTaskCancelled",
        FlightStatistics="SharedTaskStatistics",
        Flights="SharedTasks",
        Landing="TaskResult",
    )
