"""MCP servers to measure against: plain Python, started in milliseconds."""
