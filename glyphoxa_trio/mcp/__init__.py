"""Connections to MCP servers: connect, list tools, call them, and restart lost servers.

This package does not import the host that serves the tools: `open_server_pool` hands
each server's tools to a callable. Importing it does not import the MCP SDK, which takes
over a second to load; the SDK is loaded when the first session is opened.
"""

from .approval_store import ToolApprovals
from .connection import spawn_connection
from .messages import CallTool
from .opening import open_session
from .prompts import FilledPrompt, PromptArgument, PromptMessage, ServerPrompt
from .server import Server
from .server_pool import ServerPool, ServerPoolError, open_server_pool
from .status import Publish, ServerState, ServerStatus, ServerWarning
from .tool_cache import ToolCache
from .transport import ConnectionFailed, OpenSession, ServerSession, SessionLost

__all__ = [
    "CallTool",
    "ConnectionFailed",
    "FilledPrompt",
    "OpenSession",
    "PromptArgument",
    "PromptMessage",
    "Publish",
    "Server",
    "ServerPool",
    "ServerPoolError",
    "ServerPrompt",
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
