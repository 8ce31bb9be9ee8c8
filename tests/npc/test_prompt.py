"""What an NPC is told of itself, and what it is never told."""

from __future__ import annotations

import re

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.npc.prompt import system_prompt
from glyphoxa_trio.tools.tier import Tier

# G17: no word about what the gate enforces by itself.
BUDGET = re.compile(
    r"\b(budget|tier|latency|deadline|milliseconds?|ms|seconds?|fast|standard|deep"
    r"|timeout|quick(ly)?)\b",
    re.IGNORECASE,
)

FULL = NpcConfig(
    name="Greymantle",
    personality="  Gruff, but fair.\n",
    identity=("The smith of Ashford", "Born under a comet"),
    knowledge_scope=("iron", "the old war"),
    secret_knowledge=("The duke is a doppelganger",),
    behaviour_rules=("Never lies",),
    budget_tier=Tier.DEEP,
    tools=("*",),
)


def test_everything_known_of_an_npc_is_told_in_order() -> None:
    # G30
    prompt = system_prompt(FULL)
    places = [
        prompt.index(text)
        for text in (
            "You are Greymantle",
            "Who you are:\n- The smith of Ashford\n- Born under a comet",
            "Personality: Gruff, but fair.\n\n",
            "What you know about:\n- iron\n- the old war",
            "only when the story has earned it:\n- The duke is a doppelganger",
            "How you behave:\n- Never lies",
        )
    ]
    assert places == sorted(places)
    assert prompt == prompt.strip()


def test_what_is_not_given_leaves_no_heading() -> None:
    prompt = system_prompt(NpcConfig(name="Bob"))
    assert prompt.startswith("You are Bob")
    assert "\n" not in prompt
    assert ":" not in prompt


def test_no_word_about_budgets() -> None:
    # G17
    for tier in Tier:
        npc = NpcConfig(name="Bob", personality="Warm.", budget_tier=tier)
        assert BUDGET.findall(system_prompt(npc)) == []
    assert BUDGET.findall(system_prompt(FULL)) == []
