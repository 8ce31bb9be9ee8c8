"""The whole of embedding: a configuration, an NPC, a turn, its events.

python docs/examples/embed.py
"""

from pathlib import Path

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.npc import FanOutDone, Sentence

TAVERN = Path(__file__).parents[2] / "config" / "tavern.yaml"


async def main() -> None:
    async with open_runtime(TAVERN) as runtime:
        async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
            async for event in turn:
                match event:
                    case Sentence(text=text):
                        print(text)
                    case FanOutDone(elapsed=elapsed, budget=budget):
                        print(f"[tools: {elapsed:.3f} s of {budget} s]")


if __name__ == "__main__":
    trio.run(main)
