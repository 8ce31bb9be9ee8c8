"""Tools for the NPCs of npcs.yaml. Each is a function; `glyphoxa serve` serves all.

Try one from a shell:  glyphoxa serve my_tools.py
"""

from __future__ import annotations

from typing import Annotated

from glyphoxa_trio import ToolError, tool

GATES = {"north": "shut since dusk", "river": "open, with a guard"}


@tool(
    estimated_duration_ms=5,  # what a call usually takes: it decides the tier
    max_duration_ms=200,  # the hard limit of one call
    read_only=True,
    speech_template="The {gate} gate is {state}.",
)
async def look_at_gate(
    gate: Annotated[str, "Which gate: north or river."],
) -> dict[str, str]:
    """Tell whether a gate of the town is open."""
    state = GATES.get(gate.strip().lower())
    if state is None:
        raise ToolError(f"there is no {gate} gate; there are {', '.join(GATES)}")
    return {"gate": gate.strip().lower(), "state": state}
