"""An MCP server of one's own, with the official SDK. It says what its tool costs."""

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("moon")


@server.tool(
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    meta={"glyphoxa/estimated_duration_ms": 20, "glyphoxa/max_duration_ms": 500},
)
def moon_phase(day: int) -> str:
    """Look up the phase of the moon on a day of the year."""
    return ("new", "waxing", "full", "waning")[(day - 1) // 7 % 4]


if __name__ == "__main__":
    server.run()
