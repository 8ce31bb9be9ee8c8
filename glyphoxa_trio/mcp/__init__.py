"""Other people's servers: connect, list, call, and begin again when they are lost.

Knows nothing of the host that serves the tools: `open_fleet` hands each server's
tools to a callable. Importing this does not import the MCP SDK (D27).
"""

from .approved import Approved
from .connection import spawn_connection
from .fleet import Fleet, FleetError, open_fleet
from .known import Known
from .member import Member
from .messages import CallTool
from .opening import open_session
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .transport import ConnectionFailed, Loss, OpenSession, Session

__all__ = [
    "Approved",
    "CallTool",
    "ConnectionFailed",
    "Fleet",
    "FleetError",
    "Known",
    "Loss",
    "Member",
    "OpenSession",
    "Publish",
    "ServerState",
    "ServerStatus",
    "ServerWarning",
    "Session",
    "open_fleet",
    "open_session",
    "spawn_connection",
]
