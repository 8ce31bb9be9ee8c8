"""A table: several NPCs, two players, and a DM who directs the scene.

python docs/examples/scene.py
"""

from pathlib import Path

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.npc import Sentence, Turn

TAVERN = Path(__file__).parents[2] / "config" / "tavern.yaml"


async def hear(turn: Turn) -> None:
    async with turn:
        async for event in turn:
            if isinstance(event, Sentence):
                print(f"{event.npc}: {event.text}")


async def main() -> None:
    async with open_runtime(TAVERN) as runtime:
        scene = runtime.scene()
        await scene.tell("It is late, and it rains.")
        # Two players at once: one NPC speaks after the other.
        async with trio.open_nursery() as players:
            aria = scene.say("Bartok, roll 2d6 for me.", speaker="Aria")
            cole = scene.say("What does blinded mean, sage?", speaker="Cole")
            players.start_soon(hear, aria)
            players.start_soon(hear, cole)
        # What Cole says next is for the one he talks to.
        await hear(scene.say("And what does prone mean?", speaker="Cole"))
        # The DM's own words; everybody has heard them.
        await hear(scene.speak_as("Ysolde", "The bell tolls. Run!"))


if __name__ == "__main__":
    trio.run(main)
