"""What an NPC is told of itself (G30). No word about budgets: G17."""

from __future__ import annotations

from collections.abc import Iterable

from glyphoxa_trio.config.model import NpcConfig


def system_prompt(npc: NpcConfig) -> str:
    """Identity, personality, knowledge, secrets and rules, in this order."""
    parts = [
        (
            f"You are {npc.name}, a character in a tabletop role-playing game."
            " Speak as this character, in a few short spoken sentences, without"
            " markup. Use a tool when it knows better than you, and say what it says."
        ),
        _section("Who you are", npc.identity),
        f"Personality: {npc.personality.strip()}" if npc.personality.strip() else "",
        _section("What you know about", npc.knowledge_scope),
        _section(
            "What you know and reveal only when the story has earned it",
            npc.secret_knowledge,
        ),
        _section("How you behave", npc.behaviour_rules),
    ]
    return "\n\n".join(part for part in parts if part)


def _section(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(f"- {line}" for line in lines)
    return f"{title}:\n{text}" if text else ""
