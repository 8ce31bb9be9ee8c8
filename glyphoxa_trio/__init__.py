"""NPCs with tools that never make the players wait longer than their tier allows.

The names an embedder needs. Each is imported when it is first used, so that
``from glyphoxa_trio import open_runtime`` takes little longer than ``import trio``.
Calling it imports the rest, and the MCP SDK, the HTTP client and the YAML reader as far
as the configuration needs them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Config, ConfigError, load_config
    from .errors import GlyphoxaError
    from .host import open_host
    from .npc import Npc, Turn, TurnDone
    from .runtime import Runtime, Session, open_runtime
    from .tools.decorate import tool
    from .tools.definition import CallContext, Tool, ToolError
    from .tools.outcome import Outcome
    from .tools.tier import Tier

else:
    from .lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "CallContext": "tools.definition",
            "Config": "config",
            "ConfigError": "config",
            "GlyphoxaError": "errors",
            "Npc": "npc",
            "Outcome": "tools.outcome",
            "Runtime": "runtime",
            "Session": "runtime",
            "Tier": "tools.tier",
            "Tool": "tools.definition",
            "ToolError": "tools.definition",
            "Turn": "npc",
            "TurnDone": "npc",
            "load_config": "config",
            "open_host": "host",
            "open_runtime": "runtime",
            "tool": "tools.decorate",
        },
    )

__version__ = "0.1.0"
__all__ = [
    "CallContext",
    "Config",
    "ConfigError",
    "GlyphoxaError",
    "Npc",
    "Outcome",
    "Runtime",
    "Session",
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
