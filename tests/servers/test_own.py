"""A list of tools as a server, and a file that has some."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import trio

from glyphoxa_trio import Tier, tool
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.host import Caller
from glyphoxa_trio.servers import serve
from glyphoxa_trio.servers.tools_file import tools_of
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Status, ToolCall

from .processes import LIMIT, client_of, program_over_http

ROOT = Path(__file__).parents[2]
HERBS = '''
"""Herbs of the forest."""

from __future__ import annotations

from dataclasses import dataclass

from glyphoxa_trio import tool
from herbs_of_the_shelf import HERBS, gather


@dataclass
class Basket:
    content: list[str]


@tool(group="herbs", read_only=True)
async def know(herb: str) -> str:
    """What a herb is good for."""
    return HERBS[herb]


knows = know
count = 3
'''
SHELF = '''
from glyphoxa_trio import tool

HERBS = {"sage": "sore throats"}


@tool(group="herbs")
def gather(herb: str) -> str:
    """Put a herb into the basket."""
    return herb
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose files may be imported, and are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "herbs.py").write_text(HERBS)
    (tmp_path / "herbs_of_the_shelf.py").write_text(SHELF)
    before = set(sys.modules)
    yield tmp_path
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


async def test_a_file_serves_every_tool_it_has_once(folder: Path) -> None:
    gather, know = tools_of(folder / "herbs.py")
    assert (gather.key, know.key) == ("herbs.gather", "herbs.know")
    assert await know("sage") == "sore throats"


def test_a_file_does_not_take_the_place_of_what_is_imported(folder: Path) -> None:
    (folder / "json.py").write_text(SHELF)
    assert [x.key for x in tools_of(folder / "json.py")] == ["herbs.gather"]
    assert sys.modules["json"].__file__ != str(folder / "json.py")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "there is no file .*own.py"),
        ("tools = []", "own.py defines no tool; make one with glyphoxa_trio.tool"),
        ("import no_such_herb", r"(?s)does not run:.*own.py.*No module named 'no_such"),
        ("def (", r"(?s)does not run:.*SyntaxError"),
    ],
)
def test_what_is_no_file_of_tools_is_said(
    folder: Path, text: str | None, problem: str
) -> None:
    if text is not None:
        (folder / "own.py").write_text(text)
    with pytest.raises(ValueError, match=problem):
        tools_of(folder / "own.py")


@tool(group="own")
async def nod() -> str:
    """Say yes."""
    return "yes"


def test_a_list_that_is_no_server_is_refused_before_it_serves() -> None:
    with pytest.raises(ValueError, match="own: two tools have the name 'nod'"):
        serve("own", [nod, nod], arguments=[])


@pytest.mark.border
async def test_a_program_serves_http_when_it_is_told_to() -> None:
    program = ROOT / "docs" / "examples" / "servers" / "almanac.py"
    with trio.fail_after(LIMIT):
        async with (
            program_over_http(sys.executable, str(program)) as url,
            client_of([ServerSpec(name="almanac", url=url)]) as runtime,
        ):
            listings = runtime.host.snapshot.by_key
            assert listings["almanac.moon"].estimate.tier is Tier.FAST
            assert listings["almanac.forecast"].estimate.tier is Tier.STANDARD
            asked = ToolCall("1", listings["almanac.moon"].exposed, '{"day": 15}')
            while True:  # its own limit is short for a machine that is busy
                (outcome,) = await runtime.host.fan_out(
                    [asked],
                    Caller(grant=EVERYTHING, tier=Tier.DEEP),
                    deadline=trio.current_time() + LIMIT,
                )
                if outcome.status is not Status.TIMEOUT:
                    break
            assert outcome.data == {"day": 15, "phase": "full"}


def test_options_of_a_program_that_serves_are_those_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        serve("own", [nod], title="Nods", arguments=["--transport", "pigeon"])
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert "invalid choice: 'pigeon'" in told.err
    assert told.out == ""
    with pytest.raises(SystemExit) as shown:
        serve("own", [nod], title="Nods", arguments=["--help"])
    assert shown.value.code == 0
    assert "Usage: own " in (help_of := capsys.readouterr().out)
    assert "Nods" in help_of
