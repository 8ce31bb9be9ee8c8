"""What a session has between its turns, after its process was killed: a real process, a
real file, and SIGKILL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.border

SETTING_UP = """
import sys
import trio
from glyphoxa_trio import open_runtime
from glyphoxa_trio.tools.tier import Tier

async def main():
    async with open_runtime(sys.argv[1], memory=sys.argv[2]) as runtime:
        table = runtime.session("table-1")
        bo = table.npc("Bo")
        async with bo.say("Good evening.", speaker="Aria") as turn:
            await turn.finish()
        await bo.elevate(Tier.DEEP, seconds=3600)
        await bo.overhear("Cyd", "The bridge is out.", to="Aria")
        await table.set_variables({"season": "winter"})
        room = table.scene()
        await room.tell("The cellar is flooded.")
        await room.mute("Ann")
        await runtime.kept()
        print("kept", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""
LOOKING = """
import sys
import trio
from glyphoxa_trio import open_runtime
from glyphoxa_trio.npc import TierSelected

async def main():
    async with open_runtime(sys.argv[1], memory=sys.argv[2]) as runtime:
        table = runtime.session("table-1")
        bo = (await table.snapshot()).npcs["Bo"]
        print(bo.turns, bo.elevation[0], *(x.text for x in bo.overheard), sep="; ")
        print(table.variables["season"], *bo.opening.scene)
        print(*sorted((await table.scene().look()).muted))

trio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_nothing_between_turns_is_lost(tmp_path: Path) -> None:
    config, memory = tmp_path / "inn.yaml", tmp_path / "inn.db"
    config.write_text(
        "llm: {provider: offline}\n"
        "npcs:\n"
        "  - {name: Bo, personality: A host., budget_tier: fast}\n"
        "  - {name: Ann, personality: A guest.}\n"
    )

    def program(text: str) -> list[str]:
        return [sys.executable, "-c", text, str(config), str(memory)]

    with subprocess.Popen(program(SETTING_UP), stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        try:
            assert first.stdout.readline() == b"kept\n"
        finally:
            first.kill()
    again = subprocess.run(
        program(LOOKING), check=True, capture_output=True, text=True, timeout=60
    )
    assert again.stdout.splitlines() == [
        "1; deep; The bridge is out.",
        "winter The cellar is flooded.",
        "Ann",
    ]
