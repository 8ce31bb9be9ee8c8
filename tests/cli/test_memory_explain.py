"""``glyphoxa memory explain``, and the page that shows what it says."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from .support import run

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "what-an-npc-knows.md").read_text()
QUESTION = "What do you know of the Captain? And where did I lose my flute?"


@pytest.fixture
def inn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example of the page, as its commands leave it."""
    (tmp_path / ".git").mkdir()
    place = Path(shutil.copytree(DOCS / "examples" / "evenings", tmp_path / "inn"))
    monkeypatch.chdir(place)
    for file in ("saltmarsh.yaml", "nights.json"):
        assert run("memory", "import", "npcs.yaml", file).returncode == 0
    return place


def test_the_page_shows_what_the_command_says(inn: Path) -> None:
    _, _, after = PAGE.partition("```sh\n")
    commands, _, after = after.partition("```")
    *_, asked = commands.replace("\\\n", "").splitlines()
    shown = after.partition("```text\n")[2].partition("```")[0]

    said = run(*shlex.split(asked)[1:])

    assert said.returncode == 0, said.stderr
    lines = [line.rstrip() for line in said.stdout.splitlines()]
    assert "\n".join(lines).strip() == shown.strip()


def explained(*arguments: str) -> dict[str, object]:
    said = run("memory", "explain", "npcs.yaml", *arguments, "--json")
    assert said.returncode == 0, said.stderr
    found: dict[str, object] = json.loads(said.stdout)
    return found


def test_each_line_has_its_reason_and_secrets_are_in_none(inn: Path) -> None:
    told = explained("mirela", QUESTION, "--player", "Aria")

    assert told["npc"] == "Mirela"
    assert "The cellar leads" in str(told["system"])
    rows = told["told"]
    assert isinstance(rows, list)
    assert all(row["why"] for row in rows)
    why = {row["text"]: row["why"] for row in rows}
    flute = next(x for x in why if x.startswith("You know: “Aria lost a silver"))
    assert "has words of" in why[flute]
    assert "paid by the smugglers" not in str(told)
    assert "drinks alone" in str(rows)


def test_what_the_budgets_have_no_room_for_is_named(inn: Path) -> None:
    config = inn / "npcs.yaml"
    config.write_text(
        config.read_text().replace(
            "campaign: saltmarsh", "campaign: saltmarsh, recall: {total: 150}"
        )
    )

    told = explained("Mirela", QUESTION, "--player", "Aria")

    assert isinstance(told["tokens"], int)
    assert 0 < told["tokens"] <= 150
    assert "drinks alone" in str(told["left_out"])
    assert "drinks alone" not in str(told["told"])


def test_an_npc_that_is_not_there_is_refused_with_the_nearest_name(inn: Path) -> None:
    said = run("memory", "explain", "npcs.yaml", "Mirella", "Hello")

    assert said.returncode == 2
    assert "did you mean Mirela?" in said.stderr
