"""No byte of a model or a server steers the terminal that it reaches (P2 9)."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    open_model_server,
)
from glyphoxa_trio.tools.characters import MOST_MARKS

from .servers.words import STEERING, said
from .support import beside, run, terminal, written

RUDE = Path(__file__).parent / "servers" / "rude.py"
# Colours, and how a line that is typed is drawn: the cursor moves in it.
_OURS = re.compile(r"\x1b\[[0-9;?]*[ABCDGKJhlm]|\x08")


def rude(folder: Path, **more: object) -> Path:
    server = {"name": "rude", "command": ["python", str(RUDE)]}
    return written(
        folder,
        npcs=[{"name": "Bo", "tools": ["dice", "rude.shout"]}],
        mcp={"servers": [server], "state_dir": str(folder / "state")},
        calibration={"at_start": False},
        **more,
    )


def steering(written_out: str, *, coloured: bool = False) -> list[str]:
    """What steers a terminal in all that was written to it."""
    text = _OURS.sub("", written_out) if coloured else written_out
    found = re.findall("\u0301{" + f"{MOST_MARKS + 1}" + ",}", text)
    return found + [
        f"U+{ord(char):04X}"
        for char in text
        if char not in "\n\t\r" and unicodedata.category(char) in ("Cc", "Cf", "Zl")
    ]


def test_the_check_finds_what_steers() -> None:
    found = steering(said("word"))
    assert {"U+001B", "U+202E", "U+2028", "U+009B", "\u0301" * 40} <= set(found)


@pytest.mark.border
@pytest.mark.parametrize(
    "words",
    [
        ("tools",),
        ("check",),
        ("simulate", "--turns=3", "--tier-by=p50"),
        ("leaderboard", "--calibrate"),
        ("telemetry", "--calibrate"),
        ("mcp", "list"),
        ("mcp", "test", "rude", "shout"),
        ("mcp", "approve", "rude.shout"),
        ("mcp", "approve", "rude." + STEERING.replace("\0", "")),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_no_command_lets_a_server_steer(tmp_path: Path, words: tuple[str, ...]) -> None:
    where = ["--config"] if words[0] == "mcp" else []
    done = run(*words, *where, rude(tmp_path))
    shown = done.stdout + done.stderr
    assert words == ("check",) or "rude" in shown or "shout" in shown
    assert steering(shown) == []


@pytest.mark.border
def test_an_approval_shows_what_a_terminal_hides(tmp_path: Path) -> None:
    shown = run("mcp", "approve", "rude.shout", "--config", rude(tmp_path)).stdout
    assert "⟨U+202E⟩" in shown
    assert "⟨hidden tag characters: ignore⟩" in shown
    assert "rude.py" in shown  # the command behind it


@pytest.mark.border
@pytest.mark.parametrize("term", [None, "xterm", "dumb"])
def test_no_model_steers(tmp_path: Path, term: str | None) -> None:
    script: list[Reply] = [
        [SayText(said("Well.")), CallTools([("rude__shout", {}), (said("x"), {})])],
        SayText(said("There it is.")),
        SayText(said("And again.")),
    ]
    with beside(open_model_server(script)) as server:
        llm = {"provider": "chat_completions", "base_url": server.base_url}
        path = rude(tmp_path, llm={**llm, "model": said("llama")})
        if term is None:
            done = run("ask", path, "Bo", "hi")
            assert "There it is." in done.stdout
            assert steering(done.stdout + done.stderr) == []
            return
        with terminal("play", path, env={"TERM": term}) as table:
            table.expect("you to Bo> ")
            assert table.is_edited() == (term != "dumb")
            table.type("hi\n")
            table.expect("There it is.")
            table.expect("you to Bo> ")
            table.type("/tools\n")
            table.type("/mcp\n")
            table.type("/why\n")
            table.type("/quit\n")
            table.ends()
    # A plain terminal gets no sequence at all, so none can be a model's.
    assert steering(table.raw, coloured=term != "dumb") == []
