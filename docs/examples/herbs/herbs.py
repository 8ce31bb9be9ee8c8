"""Herbs by the place where they grow: one tool, and its mistakes as answers."""

from typing import Annotated

from glyphoxa_trio import ToolError, tool

GROWS = {"marsh": ["willow bark", "sundew"], "forest": ["valerian", "sorrel"]}


@tool(
    estimated_duration_ms=5,  # what a call usually takes: it decides the tier
    max_duration_ms=200,  # the limit of one call
    read_only=True,  # it may be measured before the first turn
    examples=({"place": "the marsh"},),  # with these arguments
    speech_template="In the {place} grow {herbs}.",
)
async def find_herbs(
    place: Annotated[str, "Where to look: marsh or forest."],
) -> dict[str, str]:
    """Find the herbs that grow in a place."""
    known = [name for name in GROWS if name in place.lower()]
    if not known:
        raise ToolError(f"nothing grows there; try {' or '.join(GROWS)}")
    return {"place": known[0], "herbs": " and ".join(GROWS[known[0]])}
