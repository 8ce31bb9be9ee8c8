"""``config/campaign.yaml``: dice in process, and the campaign as a server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .support import run

CONFIG = Path(__file__).parents[2] / "config" / "campaign.yaml"

EVENING = """\
Set the context to {campaign}
Create a player participant named 'Ann'
Create an actor named 'Thorin', a PC
Start a session named 'The Journey Begins'
Make a duality action roll against difficulty 12
What is the duality probability at difficulty 15?
End the session
Get the campaign
"""


@pytest.mark.border
def test_the_game_of_the_sample_is_played_and_kept(tmp_path: Path) -> None:
    # F36, F41; from another folder than the project's
    env = {"GLYPHOXA_CAMPAIGNS": str(tmp_path / "campaigns.db")}
    wish = "Create a campaign named 'The Sunken Bell' with a human game master"
    before = run("ask", CONFIG, "Mirela", wish, env=env, cwd=tmp_path)
    assert before.returncode == 0, before.stderr
    created = re.match(
        r"The Sunken Bell is in the book, as (camp_\w+)\.", before.stdout
    )
    assert created, before.stdout

    lines = EVENING.format(campaign=created[1])
    evening = run("play", CONFIG, lines=lines, env=env, cwd=tmp_path)
    assert (evening.returncode, evening.stderr) == (0, "")
    said = re.findall(r"(?m)^Mirela the Chronicler: (.*)$", evening.stdout)
    assert said[:4] == [
        "The book is open.",
        "Ann has a seat.",
        "Thorin is in the story now.",
        "The Journey Begins begins.",
    ]
    assert re.fullmatch(r"Hope \d+, Fear \d+: \d+\.", said[4])
    assert said[5] == "62 of 144 succeed."
    assert said[6] == "The Journey Begins ends."
    assert said[7].startswith("The Sunken Bell: 1 at the table, 1 in the story.")
    # The server said what its tools cost: they are called in FAST turns.
    assert evening.stdout.count("· fast · ") == 8
