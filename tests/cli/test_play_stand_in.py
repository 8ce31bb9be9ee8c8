"""``glyphoxa play --stand-in``: an NPC that speaks by itself, without a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import run

CONFIG = Path(__file__).parents[2] / "config"


@pytest.mark.parametrize("name", ["realtime", "gemini"])
def test_each_vendors_protocol_can_be_tried_on_this_machine(name: str) -> None:
    # G33, G36: the commands of docs/voices.md
    played = run(
        "play",
        CONFIG / f"{name}.yaml",
        "--stand-in",
        lines="roll 1d1+6 for me\nWhat does prone mean?\nthanks\nwho are you?\n",
    )
    assert (played.returncode, played.stderr) == (0, "")
    out = played.stdout
    assert out.startswith("model that speaks: ")
    assert " at http://127.0.0.1:" in out.splitlines()[0]
    assert "4 tools shown · dice.roll " in out
    assert "Bartok the Barkeep: 1d1+6 comes to 7." in out
    assert "Bartok the Barkeep: Prone: " in out
    assert out.count("I am the offline stand-in for Bartok, ") == 1


def test_without_a_model_to_stand_in_for_it_says_so() -> None:
    played = run("play", CONFIG / "tavern.yaml", "--stand-in", lines="hello\n")
    assert played.returncode == 2
    assert "no model to stand in for @ s2s.provider" in played.stderr
