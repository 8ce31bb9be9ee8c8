"""A shop in a game: an NPC who looks at the game's own state, and changes it.

python docs/examples/shop_game.py
"""

from typing import Literal

import attrs

import trio

from glyphoxa_trio import Config, Session, Tool, ToolError, open_runtime, tool
from glyphoxa_trio.config import BuiltinConfig, DiceConfig, NpcConfig, RulesConfig
from glyphoxa_trio.npc import FanOutDone, Sentence

Ware = Literal["rope", "lantern"]  # the model sees that there is nothing else


@attrs.define
class Shop:
    """The shop, as the game knows it."""

    stock: dict[Ware, int]


def tools_of(shop: Shop) -> list[Tool]:
    @tool(
        estimated_duration_ms=1,  # it decides the tier: this fits into every turn
        max_duration_ms=50,
        read_only=True,
        speech_template="Of {ware} I have {left}. Look around.",
    )
    async def count_stock(ware: Ware) -> dict[str, str | int]:
        """Count how many of a ware are left in stock."""
        return {"ware": ware, "left": shop.stock[ware]}

    @tool(
        estimated_duration_ms=1,
        max_duration_ms=50,
        speech_template="Here is your {ware}. Mind the step.",
    )
    async def sell(ware: Ware) -> dict[str, str | int]:
        """Sell one ware to the player."""
        if not shop.stock[ware]:
            raise ToolError(f"the last {ware} is sold")
        shop.stock[ware] -= 1
        return {"ware": ware, "left": shop.stock[ware]}

    return [count_stock, sell]


ODO = NpcConfig(
    name="Odo",
    personality="A shopkeeper who knows every nail in his shop.",
    tools=("count_stock", "sell"),
    fallback=("Hm? I was counting.",),
)
CONFIG = Config(
    npcs=(ODO,),
    builtin=BuiltinConfig(
        dice=DiceConfig(enabled=False), rules=RulesConfig(enabled=False)
    ),
)


async def ask(session: Session, text: str) -> None:
    print("player:", text)
    async with session.npc("Odo").say(text) as turn:
        async for event in turn:
            match event:
                case Sentence(text=sentence):
                    print("Odo:", sentence)
                case FanOutDone(elapsed=elapsed, budget=budget):
                    print(f"[{elapsed * 1000:.1f} ms of {budget * 1000:.0f} ms]")


async def walk_away(session: Session, text: str) -> None:
    print("player:", text)
    async with session.npc("Odo").say(text) as turn:
        async for event in turn:
            if isinstance(event, Sentence) and turn.delivered:
                break  # his second sentence: the player has left
    print("Odo, interrupted, has said:", turn.delivered)


async def main() -> None:
    saved = trio.Path("odo.save")
    shop = Shop({"rope": 2, "lantern": 1})
    async with open_runtime(CONFIG, tools=tools_of(shop)) as runtime:
        async with runtime.session("slot-1") as session:
            await ask(session, "How many of the rope are in stock?")
            await ask(session, "Sell me the rope.")
            await walk_away(session, "Count the stock of the lantern.")
            kept = await session.snapshot()
            await saved.write_bytes(kept.to_bytes())

        # Another evening.
        session = runtime.session("slot-1", restore=await saved.read_bytes())
        await ask(session, "Sell me the rope.")
        await ask(session, "Sell me the rope.")


if __name__ == "__main__":
    trio.run(main)
