"""For those who write MCP servers: what a runtime tells them, put to use."""

from .budget import budget, remaining_seconds

__all__ = ["budget", "remaining_seconds"]
