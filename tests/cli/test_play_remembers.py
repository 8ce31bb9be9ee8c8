"""``glyphoxa play`` twice: the NPCs of the second evening remember the first."""

from __future__ import annotations

from pathlib import Path

from .support import run

CONFIG = """\
llm: {provider: offline}
memory: {store: inn.db}
calibration: {at_start: false}
builtin: {rules: {enabled: false}}
npcs:
  - name: Bartok the Barkeep
    tools: [memory, sessions]
  - name: Ysolde the Seer
    tools: [memory, sessions]
"""


def test_npcs_remember_between_two_runs_and_say_from_when(tmp_path: Path) -> None:
    # G5, G11, G38
    file = tmp_path / "inn.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    first = run(
        "play",
        file,
        lines="Good evening, the red dragon burned my village.\n"
        "Remember that I owe you three copper.\n",
    )
    assert (first.returncode, first.stderr) == (0, "")
    assert "Bartok the Barkeep: I will remember that." in first.stdout
    second = run(
        "play",
        file,
        lines="Do you remember the red dragon?\n"
        "What do you remember about copper?\n"
        "What happened last time?\n"
        "Ysolde, do you remember three copper?\n",
    )
    assert second.returncode == 0
    bartok = [
        line.partition(": ")[2]
        for line in second.stdout.splitlines()
        if line.startswith("Bartok the Barkeep: ")
    ]
    assert bartok[0] == (
        "Player said today: Good evening, the red dragon burned my village."
    )
    assert "I owe you three copper." in bartok[1]
    assert bartok[2].startswith("Today: ")
