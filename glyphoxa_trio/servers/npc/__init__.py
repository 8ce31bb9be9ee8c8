"""The NPCs of a configuration as tools of an MCP server: `glyphoxa serve npc`.

`scope` says which NPCs and sessions clients reach. `players` and `game_masters` have
the tools for those, and `granted` the tools that an NPC itself may use.
"""
