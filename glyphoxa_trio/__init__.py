"""NPCs with tools that never make the players wait longer than their tier allows.

This module has the dozen names an embedder needs. Importing it imports neither the MCP
SDK, nor an HTTP client, nor a YAML reader: those are imported when they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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

_HOME: Final = {
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
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use, so that unused rooms are not imported."""
    if name == "__version__":
        from importlib.metadata import version

        return version("glyphoxa-trio")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME, "__version__"})


__version__: str
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
