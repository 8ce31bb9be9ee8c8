"""A question of a server in `play`, on a terminal: asked, answered and declined."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..mcp.support import SERVERS
from .support import PATIENT, terminal, written

PROMPT = "you to Bo> "


@pytest.mark.border
def test_a_question_of_a_server_is_asked_and_answered_at_the_terminal(
    tmp_path: Path,
) -> None:
    story = f"python {SERVERS / 'storyteller.py'}"
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["story.buy"], "budget_tier": "deep"}],
        mcp={"servers": [{"name": "story", "command": story}]},
        tiers=PATIENT,
        calibration={"at_start": False},
    )
    with terminal("play", path) as table:
        table.expect(PROMPT)
        table.type("buy hats\n")
        table.expect("the server story asks: Which colour of ")
        table.expect("Colour")
        table.type("green\n")
        table.expect("Amount")
        table.type("many\n")
        table.expect("it must be a number")
        table.type("3\n")
        table.expect("3 green ")
        table.expect(PROMPT)
        table.type("buy hats\n")
        table.expect("the server story asks: Which colour of ")
        table.expect("Colour")
        table.type("/no\n")
        table.expect("No colour: decline")
        table.expect(PROMPT)
        table.type("\x04")
        assert table.ends() == 0
