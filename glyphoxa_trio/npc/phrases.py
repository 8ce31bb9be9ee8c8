"""The notation of the built-in patterns, and the words that make a question. Data.

`pattern` says how they are read. They describe how people ask in English, so they name
no character and no place: those come from the configuration (`topics`). The patterns
that ask for DEEP are in `phrases_deep`, those that ask for STANDARD in
`phrases_standard` and `phrases_questions`.
"""

from __future__ import annotations

import re
from typing import Final


def lines_of(text: str, **classes: str) -> tuple[str, ...]:
    """Return the patterns of a text, one per line.

    A word in capitals stands for the words of its class.
    """
    given = {name: "|".join(words.split()) for name, words in classes.items()}
    return tuple(
        " ".join(
            "|".join(given.get(x, x) for x in part.split("|")) for part in line.split()
        )
        for line in text.strip().splitlines()
        if line and not line.startswith("#")
    )


# Words that count in a question: far places, and the game's rules.
FAR: Final = tuple(
    re.findall(
        r"\w+",
        """
north south east west northern southern eastern western capital mountains coast border
kingdom empire realm underworld underdark shadowfell feywild overseas abroad
""",
    )
)
RULE_TERMS: Final = tuple(
    term.strip()
    for term in """
grappling, grappled, concentration, advantage, disadvantage, opportunity attack, bonus
action, reaction, saving throw, save dc, spell slot, flanking, blinded, charmed,
deafened, frightened, incapacitated, invisible, invisibility, paralyzed, petrified,
poisoned, prone, restrained, stunned, unconscious, exhaustion, short rest, long rest,
death save, armour class, hit points, hit dice, proficiency, cantrip, ritual,
counterspell, fireball, eldritch blast, misty step, hold person, revivify, healing
word, cure wounds, magic missile, mage armour, sneak attack, action surge, wild shape,
smite, rage damage, falling damage, poison damage, fire damage, cold damage, half
cover, full cover, cover bonus, difficult terrain, initiative order, initiative bonus,
ability score, modifier, casting time, components, spell, two spells, critical hit,
natural twenty, nat twenty, nat 20, natural 20, natural one, two weapon fighting,
readied action, dodge action, dash action, dash, disengage, multiattack, attunement,
resistance, vulnerability, temporary hit points, level up, next level, xp, experience
points, an action, one action, action or, per round, per turn, in one turn, movement
speed, jump, swim speed, climb speed, darkvision, passive perception, challenge rating
""".replace("\n", " ").split(",")
)

# Words that make a question. A name or a rule is a reason for a tier only beside them.
ASKING: Final = lines_of(
    """
who|whom|whose|what|where|when|why|how|which|whats|wheres
know|hear|explain|describe|mention|recall|remember|clarify
tell|remind me
find out
talk|say|ask|story|question .. about
do|have|can|could|would|will|should|may|must|be|might you|i|we|they|he|she|there|\
anyone|anybody|someone|somebody|any|one|the
is|does|are|was it|this|that
^ be|do|can|could|would|will|should|may|must|have
"""
)
