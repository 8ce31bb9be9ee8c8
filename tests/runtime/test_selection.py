"""The vocabulary of the tier selector, from a configuration (G18, G19)."""

from __future__ import annotations

import pytest

from glyphoxa_trio.config import Config, NpcConfig
from glyphoxa_trio.config.model import SelectorConfig
from glyphoxa_trio.config.scene import SceneConfig
from glyphoxa_trio.npc.selection import Situation, select
from glyphoxa_trio.runtime.assembly import rules_of
from glyphoxa_trio.tools.tier import Tier

FAST, STANDARD, DEEP = Tier
NPCS = (
    NpcConfig(
        name="Greymantle the Sage",
        identity=("Keeper of the library at Hollow Hill.",),
        knowledge_scope=("The history of the northern kingdoms.",),
        secret_knowledge=("The ring of Vharzen is a forgery.",),
    ),
    NpcConfig(name="Bartok the Barkeep"),
)
# Lists of the operator's own, so that nothing but names is left to find.
BARE = SelectorConfig(deep_keywords=(), standard_keywords=("ledger",))


@pytest.mark.parametrize(
    ("npc", "text", "expected"),
    [
        ("Bartok the Barkeep", "where is greymantle's tower", STANDARD),
        ("Greymantle the Sage", "greymantle where are you", FAST),
        ("Bartok the Barkeep", "greymantle sends his regards", FAST),
        ("Bartok the Barkeep", "is there a hill called hollow hill", STANDARD),
        ("Bartok the Barkeep", "who rules the northern kingdoms", STANDARD),
        ("Bartok the Barkeep", "what do they drink in emberfall", STANDARD),
        ("Bartok the Barkeep", "show me the ledgers", STANDARD),
        ("Bartok the Barkeep", "who is vharzen", FAST),  # it would tell on a secret
        # The operator's list is in place of all that was built in.
        ("Bartok the Barkeep", "how does concentration work", FAST),
        ("Bartok the Barkeep", "tell me about the war, think carefully", FAST),
    ],
)
def test_names_of_the_configuration_ask_for_a_tier(
    npc: str, text: str, expected: Tier
) -> None:
    # G18, G19
    config = Config(
        npcs=NPCS, selector=BARE, scene=SceneConfig(context=("It rains in Emberfall.",))
    )
    assert select(rules_of(config), Situation(text=text, npc=npc)).tier is expected


def test_lists_that_are_left_out_are_the_built_in_ones() -> None:
    # G19
    rules = rules_of(Config(npcs=NPCS))
    assert select(rules, Situation(text="think it over carefully")).tier is DEEP
    assert select(rules, Situation(text="any quests for us?")).tier is STANDARD
    assert select(rules, Situation(text="another ale, please")).tier is FAST
