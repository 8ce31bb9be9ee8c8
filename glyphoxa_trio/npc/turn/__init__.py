"""One turn of an NPC, from its beginning to its last event.

`runner` runs a turn; `state` is what an engine works with; `output` delivers the turn's
events; `tool_round` runs the calls of one response. Engines are in `engines`.
"""
