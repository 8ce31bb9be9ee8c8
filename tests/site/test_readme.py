"""The README's first screen works as it stands, and its comparison is what was
measured, with the versions that it names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from glyphoxa_trio import load_config

from ..newcomer.support import environment
from .walking import ROOT

README: Final = (ROOT / "README.md").read_text()
QUICKSTART: Final = ROOT / "docs" / "examples" / "quickstart"


@pytest.mark.border
def test_three_lines_and_ten_are_an_npc_that_answers(tmp_path: Path) -> None:
    (yaml,) = re.findall(r"(?m)^```yaml\n(.*?)^```", README, re.DOTALL)
    assert yaml == (QUICKSTART / "npcs.yaml").read_text()
    assert len(yaml.splitlines()) == 3
    (tmp_path / "npcs.yaml").write_text(yaml)
    assert [npc.name for npc in load_config(tmp_path / "npcs.yaml").npcs] == ["Mirela"]
    ran = subprocess.run(
        [sys.executable, QUICKSTART / "ask.py"],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert re.fullmatch(r"2d6\+3 comes to \d+\.\n", ran.stdout), ran


def test_the_comparison_has_the_versions_and_figures_that_were_measured() -> None:
    about = README.partition("## What other libraries do")[2].partition("\n## ")[0]
    rows = [row for row in about.splitlines() if row.startswith("| ")]
    for peer, name in (("pydantic_ai", "pydantic-ai"), ("fastmcp", "FastMCP")):
        pinned = (ROOT / "benchmarks" / "peers" / f"{peer}.txt").read_text()
        version = pinned.partition("==")[2].split()[0]
        assert f"{name} {version}" in about.replace("\n", " ")

    figures = "".join(x.read_text() for x in (ROOT / "docs").glob("performance*.md"))
    (turn,) = (row for row in rows if row.startswith("| two rounds of 400 ms"))
    (crash,) = (row for row in rows if row.startswith("| an MCP server that crashed"))
    for peer, column in (("pydantic-ai", 5), ("fastmcp", 6)):
        measured = _figure(figures, f"{peer}: turn of 500 ms")
        # The slower of ours, since it says when a turn is over at the latest.
        assert f"after {measured[4]} ms" in turn.split("|")[2]
        assert f"{measured[6]} ms" in turn.split("|")[column]
        back = _figure(figures, f"{peer}: back after a crash")
        assert float(back[3]) < 1 < 10 <= float(back[6])
        assert "after 1 s" in crash.split("|")[2]
        assert "not within 10 s" in crash.split("|")[column]
        failed = _figure(figures, f"{peer}: calls failed in a crash")
        assert failed[3] == "0"


def _figure(text: str, name: str) -> list[str]:
    """The cells of a row of figures: name, unit, n, p50, p99, …"""
    (row,) = re.findall(rf"(?m)^\| {re.escape(name)} \|.*$", text)
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_every_cell_of_the_comparison_can_be_looked_up() -> None:
    about = README.partition("## What other libraries do")[2].partition("\n## ")[0]
    targets = set(re.findall(r"(?m)^\[([\w-]+)\]: https://\S+$", about))
    used = set(re.findall(r"\]\[([\w-]+)\]", about))
    assert used == targets
    plain = {"\u2013", "no", "not measured", "asyncio", "you choose the tools", "few"}
    for row in (x for x in about.splitlines() if re.match(r"\| [a-zA-Z]", x)):
        for cell in row.strip("| ").split(" | ")[1:]:
            shown = "](" in cell or "][" in cell
            assert shown or "measured" in cell or "source" in cell or cell in plain
