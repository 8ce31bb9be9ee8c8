"""The system prompt of an NPC.

It does not mention time budgets: they do not concern a character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glyphoxa_trio.config.model import NpcConfig

from .templates import filled


def system_prompt(
    npc: NpcConfig,
    *,
    values: Mapping[str, str] | None = None,
    scene: Iterable[str] = (),
) -> str:
    """Return identity, personality, knowledge, secrets, rules and voice, in this order.

    The prompt begins with the NPC's own system prompt, or with a default that
    introduces the character.

    Args:
      npc: the configuration.
      values: the template variables of the configuration's texts; None leaves the texts
        unchanged.
      scene: the facts of the scene, as the DM has set them.
    """
    voice = npc.voice
    parts = [
        npc.system_prompt.strip()
        or (
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
        f"Speak in the language {voice.language}." if voice.language else "",
        _section(
            "How these sound when said aloud; in writing they stay as they are",
            (f"{word}: {sound}" for word, sound in voice.pronunciation.items()),
        ),
    ]
    told = "\n\n".join(part for part in parts if part)
    told = told if values is None else filled(told, values)
    now = _section("The scene", (" ".join(line.split()) for line in scene))
    return f"{told}\n\n{now}" if now else told


def _section(title: str, lines: Iterable[str]) -> str:
    text = "\n".join(f"- {line}" for line in lines)
    return f"{title}:\n{text}" if text else ""
