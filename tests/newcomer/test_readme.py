"""The README is walked in its order, and again with what the first walk has left.

What is printed is what is run, in a fresh copy of the project, with a home of its own.
A second walk ends where the first one did: no command changes its mind, and no tool is
lost that a player could use before.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest

from .readme import SKIPPED, Command, commands, spelt_out, unpack, walk
from .support import LONG, Ran, environment, run

ORACLE: Final = "@Greymantle remember to ask the oracle: will the bridge hold?"
LINES: Final = ("roll 2d6+3 for me", "@Greymantle What does blinded mean?", ORACLE)
_FAN_OUT: Final = re.compile(r"^· (?:fast|standard|deep) · .*", re.MULTILINE)
# A call that took longer than its tier allows is a matter of time, too.
_TIME: Final = re.compile(r"(?:cut after )?[\d.]+ m?s\b(?: by the \w+'s limit)?")
# As printed they take half a minute each, which is for the long form.
SHORTER: Final = {"verify": ("--seconds", "3"), "simulate": ("--turns", "20")}
# What depends on earlier runs, for the second walk of the short form.
REMEMBERING: Final = {"make", "play", "ask", "tools", "check"}

HANDSHAKE: Final = tuple(
    json.dumps({"jsonrpc": "2.0", **message})
    for message in (
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "reader", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    )
)


@attrs.frozen
class Place:
    """Where the reader sits: a copy of the project, and a home."""

    copy: Path
    home: Path

    async def run(
        self, command: Command, lines: Sequence[str] = LINES, *, idle: float = 0.0
    ) -> Ran:
        env = environment(self.home, **dict(command.env))
        env.pop("VENV", None)
        words = list(command.words)
        if not LONG and len(words) > 1:
            words += SHORTER.get(words[1], ())
        typed: Sequence[str] = ()
        if command.serves:
            typed = HANDSHAKE
        elif command.plays:
            typed = lines
        program, *rest = words
        # As typed in the copy: a path with a slash starts there.
        there = str(self.copy / program) if "/" in program else program
        return await run(
            *rest,
            env=env,
            cwd=self.copy,
            lines=typed,
            idle=idle,
            command=there,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    if not (shutil.which("make") and shutil.which("git")):
        pytest.skip("no make or no git")
    unpack(tmp_path / "copy")
    return Place(tmp_path / "copy", tmp_path / "home")


def test_every_command_of_the_readme_is_run_or_has_a_reason() -> None:
    printed = commands()
    assert "make demo" in printed
    assert "glyphoxa calibrate CONFIG" in printed
    assert {*SKIPPED} <= {*printed}, "a reason for what is no longer there"
    assert len(walk()) >= 20


@pytest.mark.long
async def test_the_readme_is_walked_twice(place: Place) -> None:
    way = [c for c in walk() if LONG or c.printed != "glyphoxa simulate CONFIG"]
    before = {command: await _step(place, command) for command in way}
    for command, once in before.items():
        if not LONG and not {*command.words[:2]} & REMEMBERING:
            continue
        again = await _step(place, command)
        if command.plays and not command.env:
            assert used(again) == used(once), (command.printed, once, again)


async def _step(place: Place, command: Command) -> Ran:
    ran = await place.run(command)
    assert "Traceback" not in ran.err, (command.printed, ran)
    assert ran.status == command.status, (
        command.printed,
        ran,
    )
    if command.serves:
        assert '"tools":[{' in ran.out.replace('": [', '":['), (command.printed, ran)
    return ran


@pytest.mark.long
async def test_the_demo_with_a_slow_oracle_in_between_ends_where_it_began(
    place: Place,
) -> None:
    (demo,), (slow,) = spelt_out("make demo"), spelt_out("ORACLE_DELAY=6 make demo")
    before = await place.run(demo)
    assert any("oracle.consult" in line for line in used(before)), before
    # Somebody tries it more than once, as one does.
    await place.run(slow, [ORACLE] * 3, idle=25.0 if LONG else 6.0)
    after = await place.run(demo)
    assert used(after) == used(before), after


def used(ran: Ran) -> list[str]:
    """What each fan-out showed and called, without its times."""
    return [_TIME.sub("…", line) for line in _FAN_OUT.findall(ran.out)]
