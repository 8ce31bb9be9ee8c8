"""The examples run, as they stand, and the README shows what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio import Config, Tier, open_runtime
from glyphoxa_trio.config import (
    NO_GROUPS,
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    ServerSpec,
)
from glyphoxa_trio.host import Caller
from glyphoxa_trio.tools.estimate import EstimateSource
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))

SAYS = {
    "bare_host.py": [r"shown in a FAST turn: gaze roll roll_table", r"(?m)^timeout "],
    "custom_tool.py": [r"In .*it is cool, overcast with arcane lightning\."],
    "campaign_night.py": [
        r"(?m)^session_start: .*has an active session: sess_",
        r"(?m)^Thorin Ironforge: SUCCESS_WITH_HOPE$",
        r'"name": "Session 1: The Journey Begins", "status": "ENDED"',
    ],
    "talk.py": [
        r"(?m)^Ann: what does blinded mean$",
        r"(?m)^Greymantle: Blinded: ",
        r"(?m)^\d+\.\d s of speech in answer\.wav$",
    ],
    "bot_cog.py": [r"(?m)^Ann: !ask Grey ", r"(?m)^Greymantle the Sage: Blinded: "],
    "scene.py": [
        r"Bartok the Barkeep: 2d6 comes to \d+\.",
        r"Greymantle the Sage: Blinded: ",
        r"Greymantle the Sage: Prone: ",
        r"Ysolde the Seer: The bell tolls\.\nYsolde the Seer: Run!",
    ],
    "tables.py": [
        r"green, turn 1: 2d6 comes to \d+\.",
        r"green, turn 2: 1d20 comes to \d+\.",
        r"black, turn 1: 1d4 comes to \d\.",
    ],
    "shop_game.py": [
        r"Odo: Of rope I have 2\.",
        r"(?m)^Odo, interrupted, has said: Of lantern I have 1\.$",
        r"the last rope is sold",
    ],
    "embed.py": [r"Blinded: ", r"\[tools: \d\.\d+ s of 1\.5 s\]"],
}

NEED_ESPEAK = {"talk.py"}


# The others are for the long ring.
FIRST = {"bare_host.py", "custom_tool.py", "embed.py"}


def test_every_example_is_expected_to_say_something() -> None:
    assert {path.name for path in EXAMPLES} == SAYS.keys()


@pytest.mark.border
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.name, marks=() if path.name in FIRST else pytest.mark.long
        )
        for path in EXAMPLES
    ],
)
def test_an_example_runs(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if path.name in NEED_ESPEAK:
        request.getfixturevalue("espeak")
    # From elsewhere: nothing may depend on the working directory.
    ran = subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    for pattern in SAYS[path.name]:
        assert re.search(pattern, ran.stdout), ran.stdout


SERVERS = ROOT / "docs" / "examples" / "servers"
TAVERN = ROOT / "config" / "servers"
COMMANDS = {
    "ledger": ("python", str(TAVERN / "ledger.py")),
    "oracle": ("python", str(TAVERN / "oracle.py")),
    "council": ("python", str(SERVERS / "deliberate.py")),
    "almanac": ("python", str(SERVERS / "almanac.py")),
    "watch": ("glyphoxa", "serve", str(ROOT / "docs" / "examples" / "custom_tool.py")),
    "songs": ("node", str(SERVERS / "songs.mjs")),
    "purse": ("python", str(SERVERS / "purse.py"), "purses.db"),  # made by a call
}
TIERS = {
    "ledger.open_tab": Tier.FAST,
    "ledger.add_to_tab": Tier.FAST,
    "ledger.read_tab": Tier.FAST,
    "oracle.consult": Tier.STANDARD,
    "oracle.vision": Tier.DEEP,
    "council.deliberate": Tier.FAST,
    "almanac.moon": Tier.FAST,
    "almanac.forecast": Tier.STANDARD,
    "watch.get_weather": Tier.FAST,
    "songs.recall_song": Tier.FAST,
    "songs.compose_song": Tier.STANDARD,
    "purse.spend": Tier.FAST,
}


def test_every_example_of_a_server_is_connected() -> None:
    used = {Path(part).name for command in COMMANDS.values() for part in command}
    there = {path.name for path in SERVERS.iterdir() if path.suffix in (".py", ".mjs")}
    assert there <= used


@pytest.fixture
def node() -> None:
    """With ``GLYPHOXA_PEERS=required``, as in CI, it must be there."""
    if shutil.which("node"):
        return
    if os.environ.get("GLYPHOXA_PEERS") == "required":
        pytest.fail("node is not installed")
    pytest.skip("node is not installed")


@pytest.mark.long
async def test_the_servers_of_the_examples_say_their_tiers_themselves(
    node: None,
) -> None:  # G20, G42
    # Those on the SDK say that they have resources, whether or not they have any.
    specs = [
        ServerSpec(name=name, command=COMMANDS[name], resources=False)
        for name in COMMANDS
    ]
    config = Config(
        npcs=(NpcConfig(name="Bo", tools=tuple(f"{name}.*" for name in COMMANDS)),),
        mcp=McpConfig(servers=tuple(specs), remember=False),
        builtin=NO_GROUPS,
        calibration=CalibrationConfig(at_start=False),
    )
    with trio.fail_after(60):
        async with open_runtime(config, wait_for_servers=60) as runtime:
            # Bo is granted them by globs, which approve none; that is said.
            assert {x.server for x in runtime.warnings} <= {"configuration"}
            listings = runtime.host.snapshot.by_key
            assert {key: x.estimate.tier for key, x in listings.items()} == TIERS
            estimates = [x.estimate for x in listings.values()]
            assert {x.source for x in estimates} == {EstimateSource.DECLARED}
            assert {x.samples for x in estimates} == {0}

            async def call(name: str, within: float, **arguments: Any) -> Outcome:
                exposed = listings[name].exposed
                (outcome,) = await runtime.host.fan_out(
                    [ToolCall("1", exposed, json.dumps(arguments))],
                    Caller(grant=EVERYTHING, tier=Tier.DEEP),
                    deadline=trio.current_time() + within,
                )
                return outcome

            moon = await call("almanac.moon", 30, day=15)
            assert moon.data == {"day": 15, "phase": "full"}
            never = await call("almanac.moon", 30, day=0)
            assert never.status is Status.TOOL_ERROR
            assert "the first day of the year is 1" in never.message
            weather = await call("watch.get_weather", 30, location="Luskan")
            assert weather.data["temperature"] == "cool"
            song = await call("songs.recall_song", 30, mood="sad")
            assert song.data["song"] == "Three Lanterns Out at Sea"

            # As much as there is time for, from any language.
            week = await call("almanac.forecast", 30, place="Luskan")
            assert week.data["complete"]
            assert len(week.data["days"]) == 7
            some = await call("almanac.forecast", 30, place="Luskan", days=40)
            assert some.status is Status.OK
            assert not some.data["complete"]
            assert 1 <= len(some.data["days"]) < 25
            whole = await call("songs.compose_song", 30, theme="rain")
            assert len(whole.data["verses"]) == 4


@pytest.mark.border
def test_a_song_is_as_long_as_somebody_waits(node: None) -> None:
    def compose(number: int, **meta: Any) -> dict[str, Any]:
        params = {"name": "compose_song", "arguments": {"theme": "rain"}, "_meta": meta}
        return {"id": number, "method": "tools/call", "params": params}

    gone = {"method": "notifications/cancelled", "params": {"requestId": 2}}
    asked = [compose(1, **{"glyphoxa/remaining_ms": 650}), compose(2), gone]
    with subprocess.Popen(
        COMMANDS["songs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as bard:
        assert bard.stdin
        assert bard.stdout
        for message in asked:
            bard.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        bard.stdin.flush()
        answer = json.loads(bard.stdout.readline())
        bard.stdin.close()
        rest = bard.stdout.read()
    assert answer["id"] == 1
    assert len(answer["result"]["structuredContent"]["verses"]) == 3
    assert rest == ""  # of the one that nobody waited for
