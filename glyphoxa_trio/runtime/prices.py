"""Checks of prices that cannot be right, which make cost limits act too late. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.voices import Engine


def wrong_prices(config: Config) -> Iterator[str]:
    """Yield a line for each speech-to-speech model whose price covers text alone."""
    s2s = config.s2s
    spoken = [
        s2s.at(npc.s2s_model).model for npc in config.npcs if npc.engine is Engine.S2S
    ]
    for name in dict.fromkeys(filter(None, spoken)):
        price = config.cost.prices.get(name)
        if price is not None and price.of_text_alone:
            yield (
                f"{name} hears and speaks, and has prices of text alone: audio costs"
                " several times that, so ceilings come too late; add audio_input and"
                f" audio_output @ cost.prices[{name}]"
            )
