"""``contexts``: NPCs as seed 003 writes them, a map by name (A30).

What such an entry says has a place in `NpcConfig`, so there is no second kind of
NPC; whoever needs more than these four keys writes an entry of ``npcs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from .fields import Text
from .model import NpcConfig
from .problems import Problems, shown


@attrs.frozen(kw_only=True)
class Context:
    """One entry: ``prompt`` is who they are, ``tools`` what they may use.

    ``provider`` is read, so that such a file loads, and does nothing.
    """

    provider: str | None = None
    greeting: str = ""
    prompt: str = ""
    tools: tuple[Text, ...] = ()


def npcs_of(
    contexts: Mapping[str, Context], beside: Sequence[NpcConfig], warnings: Problems
) -> tuple[NpcConfig, ...]:
    """The NPCs of ``contexts``; those ``beside`` them have their names already.

    Raises:
      ValueError: a `Misfit` with each entry that does not fit.
    """
    problems = Problems()
    taken = {_folded(npc.name) for npc in beside}
    made: list[NpcConfig] = []
    for name, context in contexts.items():
        with problems.under(name):
            if _folded(name) in taken:
                raise ValueError(f"the name {shown(name)} is taken")
            taken.add(_folded(name))
            npc = NpcConfig(
                name=name,
                personality=context.prompt,
                greeting=context.greeting,
                tools=context.tools,
            )
            made.append(npc)
        if context.provider is not None:
            what = "provider is ignored: who speaks is the model of llm"
            warnings.add(what, "contexts", name)
    problems.end()
    return tuple(made)


def _folded(name: str) -> str:
    return name.strip().casefold()
