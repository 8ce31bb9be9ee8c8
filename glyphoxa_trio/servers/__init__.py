"""The servers of ``glyphoxa serve``, and help for writing others.

`serve` makes an MCP server from a list of tools. `budget` lets the handler of any
MCP server use the time limit that a runtime sends along with each call.
"""

from .budget import budget, remaining_seconds
from .program.own import serve

__all__ = ["budget", "remaining_seconds", "serve"]
