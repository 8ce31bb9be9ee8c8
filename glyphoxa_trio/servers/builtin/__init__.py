"""The servers of ``glyphoxa serve``, one a module, imported when one is asked for.

A module has ``add_options(parser)`` and ``open_offer(options)``, an async context
manager that yields the `ServerDefinition`. For bad options it raises a `ValueError`
that names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Each name with its description, in the order of the help.
SHELF: Final[Mapping[str, str]] = {
    "dice": "roll dice, and on random tables",
    "rules": "look up the rules, ours and your own",
    "files": "read and write text files in one folder",
    "memory": "what was said and is known in a campaign, for the master or an NPC",
    "images": "draw images with an image model, or as parchment cards",
    "music": "play background music for a mood, from a folder of files",
    "duality": "the Duality dice of Daggerheart: rolls, outcomes, odds",
    "web": "search the web, and read its pages",
    "atis": "the weather of an aerodrome, as a tower says it",
    "campaign": "a game over many evenings: participants, actors, sessions",
    "npc": "the NPCs of a configuration, to speak with",
}
