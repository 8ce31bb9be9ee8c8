"""What an NPC is told of itself, and what it is never told."""

from __future__ import annotations

import re

import attrs

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.voices import VoiceConfig
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


def test_a_system_prompt_of_its_own_makes_no_character_of_it() -> None:
    # A30
    npc = NpcConfig(name="support", system_prompt=" You are an agent.\n")
    assert system_prompt(npc) == "You are an agent."
    rest = system_prompt(attrs.evolve(FULL, system_prompt="You are an agent."))
    assert rest.startswith("You are an agent.\n\nWho you are:\n- The smith of Ashford")
    assert "character" not in rest


def test_no_word_about_budgets() -> None:
    # G17
    for tier in Tier:
        npc = NpcConfig(name="Bob", personality="Warm.", budget_tier=tier)
        assert BUDGET.findall(system_prompt(npc)) == []
    assert BUDGET.findall(system_prompt(FULL)) == []


def test_how_it_speaks_is_told_whichever_engine_speaks() -> None:
    # G30
    voice = VoiceConfig(language="de-AT", pronunciation={"Ysolde": "ee-ZOLD"})
    prompt = system_prompt(NpcConfig(name="Bob", voice=voice))
    assert "Speak in the language de-AT." in prompt
    assert prompt.endswith("in writing they stay as they are:\n- Ysolde: ee-ZOLD")
    assert BUDGET.findall(prompt) == []


def test_variables_are_filled_and_the_scene_comes_last() -> None:
    # A33
    npc = NpcConfig(name="Bob", personality="Fond of {caller_name}. {huh}")
    prompt = system_prompt(
        npc, values={"caller_name": "{huh}"}, scene=["It\nrains.", "{caller_name}"]
    )
    assert "Personality: Fond of {huh}. {huh}\n\n" in prompt
    assert prompt.endswith("The scene:\n- It rains.\n- {caller_name}")
