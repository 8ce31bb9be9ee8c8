"""Two tables: the same innkeeper sits at both, and tells neither of the other.

python docs/examples/tables.py
"""

from pathlib import Path

import trio

from glyphoxa_trio import Session, open_runtime

TAVERN = Path(__file__).parents[2] / "config" / "tavern.yaml"


async def play(session: Session, *lines: str) -> None:
    """An evening at one table. Leaving the block ends the session."""
    async with session:
        for line in lines:
            async with session.npc("Bartok").say(line, speaker="Aria") as turn:
                done = await turn.finish()
            print(f"{session.id}, turn {done.turn}: {done.text}")


async def main() -> None:
    async with open_runtime(TAVERN) as runtime, trio.open_nursery() as tables:
        green = runtime.session("green", variables={"caller_name": "Aria"})
        black = runtime.session("black", tenant="guild")
        tables.start_soon(play, green, "Roll 2d6 for me.", "And 1d20.")
        tables.start_soon(play, black, "Roll 1d4 for me.")


if __name__ == "__main__":
    trio.run(main)
