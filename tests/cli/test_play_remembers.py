"""``glyphoxa play`` twice: the NPCs of the second evening remember the first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from .support import run, terminal

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
        "Ysolde, do you remember three copper?\n",
    )
    assert second.returncode == 0
    # Within half an hour it is the same evening, until it is ended.
    assert run("sessions", "end", file, "default").returncode == 0
    third = run("play", file, lines="Good evening.\nWhat happened last time?\n")
    bartok = [
        line.partition(": ")[2]
        for line in (second.stdout + third.stdout).splitlines()
        if line.startswith("Bartok the Barkeep: ")
    ]
    assert bartok[0] == (
        "Player said today: Good evening, the red dragon burned my village."
    )
    assert "I owe you three copper." in bartok[1]
    assert bartok[-1].startswith("Today: ")


def test_the_conversation_goes_on_until_it_is_ended_and_is_replayed(
    tmp_path: Path,
) -> None:
    """With the defaults: the memory is in the state folder."""
    file = tmp_path / "inn.yaml"
    text = CONFIG.replace("memory: {store: inn.db}", "mcp: {state_dir: state}")
    file.write_text(text, encoding="utf-8")
    said = "The crown is under the old oak.\n"
    first = run("play", file, lines=said)
    assert (first.returncode, "goes on" in first.stdout + first.stderr) == (0, False)
    assert len(list((tmp_path / "state" / "memory").glob("inn-*.db"))) == 1
    second = run(
        "play", file, "--record", tmp_path / "rec", lines="Do you remember the crown?\n"
    )
    assert second.returncode == 0
    assert "goes on; to begin another one: glyphoxa sessions end" in second.stdout
    assert "Player said today: The crown is under the old oak." in second.stdout
    replayed = run("replay", tmp_path / "rec")
    assert (replayed.returncode, "same, " in replayed.stdout) == (0, True)
    ended = run("sessions", "end", file, "default")
    assert (ended.returncode, "kept of it: 4 lines" in ended.stdout) == (0, True)
    third = run("play", file, lines="Do you remember the crown?\n")
    assert "goes on" not in third.stdout
    assert "The crown is under the old oak." in third.stdout


@pytest.mark.long
def test_the_table_goes_on_when_a_player_is_forgotten_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "inn.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    prompt = "you to Bartok the Barkeep> "
    with terminal("play", file) as table:
        table.expect(prompt)
        table.type("I buried the crown under the oak.\n")
        table.expect("Bartok the Barkeep: ")
        table.expect(prompt)
        forgotten = run("memory", "forget", file, "player", "--yes")
        assert (forgotten.returncode, forgotten.stderr) == (0, "")
        for _ in range(60):  # it is noticed within five seconds
            time.sleep(0.2)
            table.type("/who\n")
            table.expect(prompt)
            if "another one begins" in table.screen:
                break
        table.type("Do you remember the crown?\n")
        table.expect("Bartok the Barkeep: ")
        table.expect(prompt)
        table.type("\x04")
        assert table.ends() == 0
    assert "the conversation was ended; another one begins" in table.screen
    assert table.screen.count("under the oak") == 1
