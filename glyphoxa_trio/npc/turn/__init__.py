"""One turn, from the moment it begins until its last event.

`runner` lives through a turn; `state` is what an engine works with; `output` is where
its events go; `tool_round` runs the calls of one response. Engines are in `engines`.
"""
