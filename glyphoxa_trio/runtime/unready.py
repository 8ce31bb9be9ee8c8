"""Defects that make a configuration unfit for production, though it can serve.

They are words that no player would hear, and an offline stand-in that would answer in
place of a model. While developing, that is worth a warning; in production it is an
error: programs that start a service call `check_production`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from glyphoxa_trio.config import Config, ConfigError, NpcConfig
from glyphoxa_trio.config.voices import Engine

from .voices import Voices


@attrs.frozen
class Unready:
    """One such defect, and its place in the configuration.

    ``always``: it deserves a warning outside of production, too.
    """

    text: str
    place: str
    always: bool = True

    def __str__(self) -> str:
        return f"{self.text} @ {self.place}"


def unready(
    config: Config, voices: Voices, stands_in: Callable[[NpcConfig], bool]
) -> tuple[Unready, ...]:
    """Return all such defects of a configuration.

    Args:
      stands_in: returns True if the text model of that NPC is the offline stand-in.
    """
    return tuple(_unready(config, voices, stands_in))


def _unready(
    config: Config, voices: Voices, stands_in: Callable[[NpcConfig], bool]
) -> Iterator[Unready]:
    for at, npc in enumerate(config.npcs):
        place = f"npcs[{at}]"
        live = voices.live(npc, config.s2s)
        mute = live is not None and not live.capabilities.recites
        if live is not None and mute and voices.synthesizer is None:
            yield from _unheard(config, npc, place, live.provider.label)
        if not stands_in(npc):
            continue
        if npc.engine is not Engine.S2S:
            text = f"{npc.name} is answered for by the offline stand-in: configure llm"
            yield Unready(text, place, always=False)
        elif config.s2s.route:
            yield Unready(
                f"turns of {npc.name} that need slow tools are answered by the offline"
                " stand-in: configure llm, or set s2s.route: false",
                place,
            )


def _unheard(
    config: Config, npc: NpcConfig, place: str, model: str
) -> Iterator[Unready]:
    why = (
        f"cannot be heard: {model} cannot be asked to say words as they stand;"
        " configure speech.synthesis"
    )
    lines = npc.fallback or config.turn.fallback
    where = f"{place}.fallback" if npc.fallback else "turn.fallback"
    yield Unready(f"the fallback lines of {npc.name} ({_quoted(*lines)}) {why}", where)
    if npc.greeting:
        greeting = f"the greeting of {npc.name} ({_quoted(npc.greeting)})"
        yield Unready(f"{greeting} {why}", f"{place}.greeting")
    beside = "what goes through the text model, and " if config.s2s.route else ""
    yield Unready(f"{beside}what the DM says as {npc.name} {why}", place)


def _quoted(*lines: str) -> str:
    return ", ".join(f'"{line}"' for line in lines)


def check_production(found: tuple[Unready, ...]) -> None:
    """Refuse a configuration that is not fit for production.

    Raises:
      ConfigError: with each of the defects.
    """
    if found:
        raise ConfigError(*map(str, found))
