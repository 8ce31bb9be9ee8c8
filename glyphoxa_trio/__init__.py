"""NPCs with tools that never hold the table longer than their latency tier allows.

The dozen names an embedder needs. Importing this imports neither the MCP SDK,
nor an HTTP client, nor a YAML reader: those come when they are used.
"""

from .config import Config, ConfigError, load_config
from .errors import GlyphoxaError
from .host import open_host
from .npc import Npc, Turn, TurnDone
from .runtime import Runtime, open_runtime
from .tools.decorate import tool
from .tools.definition import CallContext, Tool, ToolError
from .tools.outcome import Outcome
from .tools.tier import Tier

__all__ = [
    "CallContext",
    "Config",
    "ConfigError",
    "GlyphoxaError",
    "Npc",
    "Outcome",
    "Runtime",
    "Tier",
    "Tool",
    "ToolError",
    "Turn",
    "TurnDone",
    "load_config",
    "open_host",
    "open_runtime",
    "tool",
]
