"""Other people's servers: connect, list, call, and begin again when they are lost.

Knows nothing of the host that serves the tools: `open_server_pool` hands each server's
tools to a callable. Importing this does not import the MCP SDK (D27).
"""

from .approval_store import ToolApprovals
from .connection import spawn_connection
from .messages import CallTool
from .opening import open_session
from .server import Server
from .server_pool import ServerPool, ServerPoolError, open_server_pool
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .tool_cache import ToolCache
from .transport import ConnectionFailed, OpenSession, ServerSession, SessionLost

__all__ = [
    "CallTool",
    "ConnectionFailed",
    "OpenSession",
    "Publish",
    "Server",
    "ServerPool",
    "ServerPoolError",
    "ServerSession",
    "ServerState",
    "ServerStatus",
    "ServerWarning",
    "SessionLost",
    "ToolApprovals",
    "ToolCache",
    "open_server_pool",
    "open_session",
    "spawn_connection",
]
