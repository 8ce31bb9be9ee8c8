"""A user without a home, as in a container: what works, and what is said."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import NoReturn

import pytest

from glyphoxa_trio.config import Config, McpConfig, NpcConfig
from glyphoxa_trio.config.seen import Seen
from glyphoxa_trio.runtime import open_runtime

from .cli.support import run

FILE = """
llm: {provider: offline}
memory: {store: MEMORY}
npcs:
  - {name: Bo, tools: [dice], budget_tier: standard}
"""


@pytest.fixture(autouse=True)
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> NoReturn:
        raise KeyError("no such user")

    for name in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


async def test_an_embedder_needs_no_home() -> None:
    config = Config(npcs=(NpcConfig(name="Bo", tools=("dice",)),))
    async with open_runtime(config) as runtime:
        async with runtime.npc("Bo").say("Hail") as turn:
            said = [event async for event in turn]
        (warning,) = (x.text for x in runtime.warnings if "remembered" in x.text)
    assert said
    assert "no home folder: set HOME, XDG_STATE_HOME or mcp.state_dir" in warning


async def test_with_a_state_folder_nothing_is_missing(tmp_path: Path) -> None:
    config = Config(
        npcs=(NpcConfig(name="Bo", tools=("dice",)),),
        mcp=McpConfig(state_dir=tmp_path / "state"),
    )
    async with open_runtime(config) as runtime:
        assert not runtime.warnings
    assert (tmp_path / "state" / "measurements.db").is_file()


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("ask", "CONFIG", "Bo", "Hail"), "XDG_STATE_HOME or mcp.state_dir"),
        (("sessions", "list", "CONFIG"), "XDG_STATE_HOME or mcp.state_dir"),
        (("demo",), "XDG_DATA_HOME"),
        (("serve", "campaign"), "--db FILE"),
        (("serve", "images"), "XDG_DATA_HOME"),
    ],
)
def test_a_command_that_needs_a_folder_says_how_to_name_one(
    words: tuple[str, ...], remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "inn.yaml").write_text(FILE.replace("{store: MEMORY}", "{}"))
    ended = run(*(x.replace("CONFIG", "inn.yaml") for x in words), cwd=tmp_path)
    (line,) = ended.stderr.splitlines()
    assert ended.returncode != 0
    assert "this user has no home folder: set HOME" in line
    assert remedy in line


def test_without_memory_a_command_runs_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "inn.yaml").write_text(FILE.replace("MEMORY", "'off'"))
    ended = run("ask", "inn.yaml", "Bo", "Hail", cwd=tmp_path)
    assert ended.returncode == 0
    assert ended.stdout.strip()
    (line,) = ended.stderr.splitlines()
    assert "nothing is remembered for the next run" in line


def test_nothing_of_a_shared_file_is_agreed_to() -> None:
    assert Seen().of(Path(".mcp.json")) == {}
    with pytest.raises(OSError, match="no home folder: set HOME or XDG_STATE_HOME"):
        Seen().add([])
