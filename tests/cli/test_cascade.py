"""``config/cascade.yaml``: an opener, a filler and an answer, with one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import run

CASCADE = Path(__file__).parents[2] / "config" / "cascade.yaml"
# A vision takes three times as long: longer than a filler waits, and far less than the
# four seconds of a deep turn.
SLOW = {"ORACLE_DELAY": "0.5"}
QUESTION = "Think carefully: what is your vision of the keep?"


@pytest.mark.border
@pytest.mark.alone
def test_a_seer_opens_waits_aloud_and_answers() -> None:
    # G34, A18: quietly distinct from what she says
    played = run("play", CASCADE, lines=f"{QUESTION}\n", env=SLOW)
    assert (played.returncode, played.stderr) == (0, "")
    *_, opener, filler, fan_out, answer = played.stdout.strip().splitlines()
    assert opener == "Ysolde the Seer: One moment."
    assert filler.startswith("… Hush. I look at ")
    assert fan_out.startswith("· deep · 3 tools shown · oracle.vision ")
    assert answer.startswith("Ysolde the Seer: At ")


@pytest.mark.long
@pytest.mark.alone
def test_a_single_question_has_its_filler_beside_the_answer() -> None:
    asked = run("ask", CASCADE, "Ysolde", QUESTION, env=SLOW)
    assert asked.returncode == 0
    assert asked.stdout.startswith("One moment.\nAt ")
    assert asked.stderr.startswith("… Hush. I look at ")
