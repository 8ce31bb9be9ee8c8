"""``contexts``: the agents of a voice application, in the format of such applications.

A map by name. Everything that an entry says has a place in `NpcConfig`, so there is no
second kind of NPC. The defaults are those of an agent on a telephone, not of a
character in a game: the prompt is taken as it is, and each turn has time for tools that
take seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.tier import Tier

from .fields import Text
from .llm import LlmConfig
from .model import NpcConfig, TrustConfig
from .problems import Problems, shown
from .voices import Engine, S2SConfig, S2SProvider, VoiceConfig

# How such applications name tools, and so what the lists of a context mean.
NAMING: Final = NamingStyle.SINGLE

# What such files call the models that speak by themselves.
_SPEAKS: Final = {
    **{str(provider): provider for provider in S2SProvider},
    "google_live": S2SProvider.GEMINI_LIVE,
}


@attrs.frozen(kw_only=True)
class Context:
    """One agent. ``prompt``, or ``system_prompt``, is all that the model is told of
    itself; ``tools`` are those that it may use.

    ``provider`` names the model that speaks, and ``model`` another one of it. If it is
    the model of ``s2s``, ``engine`` is ``s2s`` unless it is stated. Otherwise the model
    of ``llm`` speaks.
    """

    provider: str | None = None
    greeting: str = ""
    prompt: str = ""
    system_prompt: str = ""
    tools: tuple[Text, ...] = ()
    engine: Engine | None = None
    model: str | None = None
    budget_tier: Tier = Tier.DEEP
    select_tier: bool = False
    trust: TrustConfig | None = None
    fallback: tuple[Text, ...] = ()
    voice: VoiceConfig = attrs.field(factory=VoiceConfig)


def npcs_of(
    contexts: Mapping[str, Context], beside: Mapping[str, Any], warnings: Problems
) -> tuple[NpcConfig, ...]:
    """The NPCs of a configuration, with those of its contexts.

    Args:
      beside: the other fields of the configuration, as far as they are sound. The names
        of ``npcs`` are taken, and ``llm`` and ``s2s`` say which models there are.

    Raises:
      ValueError: a `ConfigMisfit` with each entry that does not fit.
    """
    problems = Problems()
    llm: LlmConfig = beside.get("llm", LlmConfig())
    s2s: S2SConfig = beside.get("s2s", S2SConfig())
    made: list[NpcConfig] = [*beside.get("npcs", ())]
    taken = {_folded(npc.name) for npc in made}
    for name, context in contexts.items():
        with problems.under(name):
            if not name.strip():
                raise ValueError("must not be empty")
            if _folded(name) in taken:
                raise ValueError(f"the name {shown(name)} is taken")
            if context.prompt and context.system_prompt:
                raise ValueError("prompt and system_prompt are the same: give one")
            taken.add(_folded(name))
            speaks = _SPEAKS.get(context.provider or "")
            by_itself = speaks is not None and speaks is s2s.provider
            npc = NpcConfig(
                name=name,
                context_name=name,
                system_prompt=context.prompt or context.system_prompt or _plain(name),
                greeting=context.greeting,
                tools=context.tools,
                engine=context.engine or (Engine.S2S if by_itself else Engine.CASCADED),
                model=None if by_itself else context.model,
                s2s_model=context.model if by_itself else None,
                budget_tier=context.budget_tier,
                select_tier=context.select_tier,
                trust=context.trust,
                fallback=context.fallback,
                voice=context.voice,
            )
            made.append(npc)
            if not by_itself and context.provider not in (None, llm.provider):
                what = "provider is ignored: the model of llm speaks"
                if speaks is not None:
                    what += f"; s2s.provider: {speaks} would make it speak by itself"
                warnings.add(what, "contexts", name)
    problems.end()
    return tuple(made)


def _plain(name: str) -> str:
    """Return the prompt of an agent that has none of its own."""
    return (
        f"You are the assistant {name}. Answer in a few short spoken sentences,"
        " without markup. Use a tool when it knows better than you, and say what it"
        " says."
    )


def _folded(name: str) -> str:
    return name.strip().casefold()
