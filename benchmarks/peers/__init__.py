"""Other clients of MCP servers, each in an environment of its own, and ours."""
