"""The least that embeds an NPC. Run it in its folder: python ask.py"""

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.npc import Sentence


async def main() -> None:
    async with open_runtime("npcs.yaml") as runtime:
        async with runtime.npc("Mirela").say("Roll 2d6+3 for me.") as turn:
            async for event in turn:
                if isinstance(event, Sentence):
                    print(event.text)


trio.run(main)
