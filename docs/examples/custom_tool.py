"""A tool of your own: one decorated function, registered in one line.

    python docs/examples/custom_tool.py

Its test is a plain call: ``await get_weather("Neverwinter")``.
"""

from typing import Annotated, Literal

import trio

from glyphoxa_trio import Config, ToolError, open_runtime, tool
from glyphoxa_trio.config import NpcConfig

Season = Literal["spring", "summer", "autumn", "winter"]


@tool(
    estimated_duration_ms=10,  # the median you promise: it decides the tier …
    max_duration_ms=50,  # … and the hard limit of one call
    read_only=True,
    idempotent=True,
    cacheable_seconds=60,
    speech_template="In {location} it is {temperature}, {conditions}.",
)
async def get_weather(
    location: Annotated[str, "The in-world name of the place."],
    season: Season = "summer",
) -> dict[str, str]:
    """Get the current in-world weather for a place."""
    if not location.strip():
        raise ToolError("the location is empty: name a place")
    return {
        "location": location,
        "conditions": "overcast with arcane lightning",
        "temperature": "freezing" if season == "winter" else "cool",
    }


async def main() -> None:
    watch = NpcConfig(name="Watchman", tools=("get_weather",))
    async with open_runtime(Config(npcs=(watch,)), tools=[get_weather]) as runtime:
        async with runtime.npc("Watchman").say("How is the weather in Luskan?") as turn:
            done = await turn.finish()
        print(done.text)


if __name__ == "__main__":
    trio.run(main)
