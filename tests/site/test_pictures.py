"""The pictures of the README are what their scripts draw now."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from glyphoxa_trio.simulation import virtual

from .walking import ROOT

PICTURES = ROOT / "docs" / "pictures"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PICTURES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_turn_is_drawn_as_it_was_to_the_byte() -> None:
    turn: Any = script("turn")
    seen = virtual.run(turn.played)
    assert turn.facts(seen) == (
        "A FAST turn. 3 calls start together, with 500 ms for all: ledger.open_tab ok"
        " after 60 ms; cellar.count_casks ok after 290 ms; oracle.consult timeout after"
        " 500 ms. The fan-out took 500 ms."
    )
    now = turn.drawn(seen)
    assert now == (PICTURES / "turn.svg").read_text(), "make pictures"
    picture = ET.fromstring(now)
    assert turn.facts(seen) in "".join(picture.itertext())


@pytest.mark.long
def test_the_session_is_what_the_demo_says_but_for_times_and_dice(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, PICTURES / "session.py", tmp_path / "session.svg"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    read = script("session").read
    now = read((tmp_path / "session.svg").read_text())
    before = read((PICTURES / "session.svg").read_text())
    assert steady(now) == steady(before), "make pictures"


def test_the_session_shows_both_servers_and_nothing_of_this_machine() -> None:
    text = (PICTURES / "session.svg").read_text()
    lines = script("session").read(text)
    assert lines[0] == "$ glyphoxa demo"
    assert any("ledger.open_tab" in x and "ms of 500 ms" in x for x in lines)
    assert any("oracle.consult" in x and "ms of 1500 ms" in x for x in lines)
    assert not re.search(r"/(?:tmp|home|root|work)\b", text)


@pytest.mark.parametrize("name", ["turn", "session", "talk"])
def test_a_picture_stands_alone(name: str) -> None:
    """It is well formed, and asks for nothing from elsewhere."""
    text = (PICTURES / f"{name}.svg").read_text()
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert set(re.findall(r"https?://[^\"')\s]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",  # in a comment of rich's
    }
    assert "<script" not in text
    assert "url(http" not in text


def steady(lines: list[str]) -> list[str]:
    """What does not depend on the machine, or on chance."""
    return [
        re.sub(r"\d+(?:\.\d+)?", "…", line)
        for line in lines
        # Said only if they are not there by then.
        if not line.startswith("waiting for")
    ]
