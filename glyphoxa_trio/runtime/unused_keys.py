"""Keys of a configuration that have no effect: no errors, but likely mistakes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from glyphoxa_trio.config import Config, NpcConfig
from glyphoxa_trio.config.s2s import S2SProvider
from glyphoxa_trio.config.voices import CascadeMode, Engine
from glyphoxa_trio.npc.templates import CALL_ID, DEFAULTS, names_in
from glyphoxa_trio.tools.naming import nearest


def idle_keys(config: Config) -> Iterator[str]:
    """Yield a line for each key without effect: why, the remedy, and the place."""
    known = sorted({*DEFAULTS, CALL_ID, *config.template_defaults})
    yield from _of_other_models(config)
    for npc in config.npcs:
        place = f"@ npcs[{npc.name}]"
        yield from (f"{what} {place}.{key}" for key, what in _unused(npc))
        for key, texts in _texts(npc):
            for name in dict.fromkeys(x for text in texts for x in names_in(text)):
                if name not in known:
                    yield f"{_stays(name, known)} {place}.{key}"


def _of_other_models(config: Config) -> Iterator[str]:
    """Yield a line for each section of a vendor whose models no NPC uses."""
    s2s = config.s2s
    used = {s2s.at(npc.s2s_model).provider for npc in config.npcs} | {s2s.provider}
    if used == {None}:
        return
    for provider in S2SProvider:
        section = getattr(s2s, provider)
        if provider not in used and section != type(section)():
            yield (
                f"{provider} is for models of that provider, and no NPC uses one: name"
                f" it in s2s.provider or an NPC's s2s_model @ s2s.{provider}"
            )


def _unused(npc: NpcConfig) -> Iterator[tuple[str, str]]:
    """Yield the keys that are set for another engine than the NPC has."""
    if npc.s2s_model is not None and npc.engine is not Engine.S2S:
        why = f"is for engine: {Engine.S2S}, and does nothing for {npc.engine}"
        yield "s2s_model", f"s2s_model {why}"
    if npc.engine is Engine.SENTENCE_CASCADE:
        return
    why = f"is for engine: {Engine.SENTENCE_CASCADE}, and does nothing for {npc.engine}"
    if npc.fast_model is not None:
        yield "fast_model", f"fast_model {why}"
    if npc.cascade_mode is not CascadeMode.AUTO:
        yield "cascade_mode", f"cascade_mode {why}"


def _texts(npc: NpcConfig) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the texts, by key, into which template variables are put."""
    yield "personality", (npc.personality,)
    yield "identity", npc.identity
    yield "knowledge_scope", npc.knowledge_scope
    yield "secret_knowledge", npc.secret_knowledge
    yield "behaviour_rules", npc.behaviour_rules
    yield "greeting", (npc.greeting,)


def _stays(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known, n=1)
    remedy = f"did you mean {{{near[0]}}}? Else put it into" if near else "put it into"
    return (
        f"nothing gives {{{name}}} a value unless Npc.set_variables does, so it stays"
        f" as it is written: {remedy} template_defaults"
    )
