"""The servers of ``glyphoxa serve``, and help for writing others.

`serve` makes an MCP server from a list of tools. `budget` lets the handler of any
MCP server use the time limit that a runtime sends along with each call, and
`session_claim` lets it refuse the calls of a process that has lost their session.
"""

from .budget import budget, remaining_seconds, session_claim
from .program.own import serve

__all__ = ["budget", "remaining_seconds", "serve", "session_claim"]
