"""Every group as a server of its own, as a second runtime sees it: real processes.

What a tool is like in this process and what a client is told of it must be the same.
A process costs half a second of CPU to start, so one test asks all of them.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import Runtime
from glyphoxa_trio.builtin import dice, duality, files, rules
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.host import Caller
from glyphoxa_trio.servers.builtin import SHELF
from glyphoxa_trio.servers.serialize import ON_THE_WAY, tool_entry
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.estimate import EstimateSource
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

from .processes import COMMAND, LIMIT, client_of, over_http

pytestmark = pytest.mark.border


async def call(runtime: Runtime, name: str, **arguments: Any) -> Outcome:
    """The outcome of a call; a machine that was too busy for its limit is asked again.

    The test itself has an end.
    """
    asked = ToolCall("1", runtime.host.snapshot.find(name).exposed)
    asked = attrs.evolve(asked, arguments=json.dumps(arguments))
    while True:
        (outcome,) = await runtime.host.fan_out(
            [asked],
            Caller(grant=EVERYTHING, tier=Tier.DEEP),
            deadline=trio.current_time() + LIMIT,
        )
        if outcome.status is not Status.TIMEOUT:
            return outcome


def assert_same(runtime: Runtime, tools: Iterable[Tool]) -> None:
    """What is known of these tools from afar, before any call, is what they say."""
    for tool in tools:
        ours = tool.definition
        listing = runtime.host.snapshot.find(ours.key)
        theirs = listing.definition
        assert theirs.external
        assert theirs.description == ours.description
        assert theirs.estimated_duration == ours.estimated_duration
        assert ours.max_duration is not None
        assert theirs.max_duration == pytest.approx(ours.max_duration + ON_THE_WAY)
        assert theirs.read_only is ours.read_only
        assert theirs.cacheable == ours.cacheable
        assert theirs.min_tier is ours.min_tier
        assert theirs.parameters["properties"] == ours.parameters["properties"]
        assert listing.estimate.source is EstimateSource.DECLARED
        assert listing.estimate.samples == 0
        assert listing.estimate.tier is Tier.FAST


async def test_a_second_runtime_tiers_every_group_without_a_probe(
    tmp_path: Path,
) -> None:  # G15, G20
    (tmp_path / "tables.yaml").write_text("rumours: [The well tastes of iron.]\n")
    (tmp_path / "house.json").write_text(
        '[{"id": "house-ale", "name": "Ale", "category": "house", "text": "Warm."}]'
    )
    base = tmp_path / "notes"
    commands = {
        "dice": f"dice --tables {tmp_path / 'tables.yaml'}",
        "rules": f"rules --dataset {tmp_path / 'house.json'}",
        "files": f"files --base {base}",
        "duality": "duality",
    }
    async with client_of(
        ServerSpec(name=name, command=("glyphoxa", "serve", *words.split()))
        for name, words in commands.items()
    ) as runtime:
        tables = {"rumours": ["The well tastes of iron."]}
        assert_same(runtime, dice.tools(tables=tables))
        assert_same(runtime, rules.tools([tmp_path / "house.json"]))
        assert_same(runtime, files.tools(base))
        assert_same(runtime, duality.tools())
        assert len(runtime.host.snapshot.listings) == 12

        answers: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("dice.roll", {"expression": "3d1+4"}, {"total": 7}),
            (
                "dice.roll_table",
                {"table_name": "rumours"},
                {"result": "The well tastes of iron."},
            ),
            ("rules.search_rules", {"query": "ale"}, {"total": 1}),
            ("rules.get_rule", {"id": "house-ale"}, {"text": "Warm."}),
            ("files.write_file", {"path": "a.txt", "content": "hm"}, {"bytes": 2}),
            ("files.read_file", {"path": "a.txt"}, {"content": "hm"}),
            ("duality.duality_rules_version", {}, {"system": "Daggerheart"}),
            (
                "duality.duality_action_roll",
                {"rng": {"seed": 1, "roll_mode": "REPLAY"}},
                {"hope": 6, "fear": 5},  # as in this process
            ),
            (
                "duality.duality_outcome",
                {"hope": 3, "fear": 3},
                {"outcome": "CRITICAL_SUCCESS"},
            ),
            (
                "duality.duality_explain",
                {"hope": 1, "fear": 2, "request_id": "r"},
                {"outcome": "ROLL_WITH_FEAR"},
            ),
            (
                "duality.duality_probability",
                {"modifier": 2, "difficulty": 15},
                {"success_count": 84},
            ),
            (
                "duality.roll_dice",
                {"dice": [{"sides": 1, "count": 3}]},
                {"total": 3},
            ),
        ]
        for name, arguments, expected in answers:
            outcome = await call(runtime, name, **arguments)
            assert outcome.status is Status.OK, (name, outcome)
            assert expected.items() <= outcome.data.items(), (name, outcome)
        assert (base / "a.txt").read_text() == "hm"

        # A no is one, in words that a model can act upon.
        refusals: list[tuple[str, dict[str, Any], str]] = [
            ("dice.roll", {"expression": "2d"}, "expected the number of sides"),
            ("rules.get_rule", {"id": "house-al"}, "did you mean house-ale?"),
            ("files.read_file", {"path": "../a"}, "'..' is not allowed"),
            (
                "duality.roll_dice",
                {"dice": [{"sides": 6, "count": 501}] * 2},
                "at most 1000 in all",
            ),
        ]
        for name, arguments, words in refusals:
            outcome = await call(runtime, name, **arguments)
            assert outcome.status is Status.TOOL_ERROR, (name, outcome)
            assert words in outcome.message


@pytest.mark.long
@pytest.mark.border
async def test_the_same_over_http(tmp_path: Path) -> None:  # G15, G20
    with trio.fail_after(LIMIT):
        async with (
            over_http("dice") as dice_url,
            over_http("files", "--base", str(tmp_path)) as files_url,
            over_http("duality") as duality_url,
            client_of(
                [
                    ServerSpec(name="dice", url=dice_url),
                    ServerSpec(name="files", url=files_url),
                    ServerSpec(name="duality", url=duality_url),
                ]
            ) as runtime,
        ):
            assert_same(runtime, dice.tools())
            assert_same(runtime, files.tools(tmp_path))
            assert_same(runtime, duality.tools())
            rolled = await call(runtime, "dice.roll", expression="2d1")
            assert rolled.data["total"] == 2
            await call(runtime, "files.write_file", path="a.txt", content="hm")
            assert (tmp_path / "a.txt").read_text() == "hm"
            seeded = {"seed": 1, "roll_mode": "REPLAY"}
            again = await call(runtime, "duality.duality_action_roll", rng=seeded)
            assert (again.data["hope"], again.data["fear"]) == (6, 5)


def hints(tool: Tool) -> str:
    """The standard annotations that are true, by their first letters."""
    annotations = tool_entry(tool)["annotations"]
    assert annotations.keys() <= {
        "readOnlyHint",
        "idempotentHint",
        "destructiveHint",
        "openWorldHint",
    }
    return "".join(name[0] for name, true in sorted(annotations.items()) if true)


def test_every_tool_has_a_title_and_says_what_calling_it_means(tmp_path: Path) -> None:
    tools = [*dice.tools(), *rules.tools(), *files.tools(tmp_path), *duality.tools()]
    assert {tool.definition.name: hints(tool) for tool in tools} == {
        "roll": "r",
        "roll_table": "r",
        "search_rules": "ir",
        "get_rule": "ir",
        "write_file": "di",
        "read_file": "ir",
        "duality_rules_version": "ir",
        "duality_action_roll": "r",
        "duality_outcome": "ir",
        "duality_explain": "ir",
        "duality_probability": "ir",
        "roll_dice": "r",
    }
    titles = [tool_entry(tool)["title"] for tool in tools]
    assert len(set(titles)) == len(tools)


def serve(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "serve", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
        check=False,
    )


WRONG = [
    ("", "which server? There are dice, rules"),
    ("dicee", "no server 'dicee'; there are dice, "),
    ("files", "the following arguments are required: --base"),
    ("files --base /dev/null/x", "serve files: --base /dev/null/x: Not a dir"),
    ("dice --tables {folder}/empty.yaml", "random table 'none' needs a list"),
    (
        "dice --tables {folder}/odd.yaml",
        "expected a list, got a number @ odd.yaml.three",
    ),
    ("dice --tables {folder}/gone.yaml", "cannot be read: No such file"),
    ("rules --dataset {folder}/odd.yaml", "odd.yaml: line 1, column 1"),
    ("{folder}/gone.py", "there is no file "),
    ("{folder}/broken.py", "ZeroDivisionError"),
    ("{folder}/none.py", "defines no tool"),
]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *WRONG[:2],
        *(pytest.param(*pair, marks=pytest.mark.long) for pair in WRONG[2:]),
    ],
)
def test_options_that_are_none_are_named(tmp_path: Path, words: str, said: str) -> None:
    (tmp_path / "empty.yaml").write_text("none: []\n")
    (tmp_path / "odd.yaml").write_text("three: 3\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "none.py").write_text("answer = 42\n")
    ran = serve(*words.format(folder=tmp_path).split())
    assert ran.returncode == 2
    assert said in ran.stderr
    assert ran.stdout == ""


@pytest.mark.long
def test_the_readmes_servers_take_the_options_it_gives_them() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    lines = re.findall(r"(?m)^\.venv/bin/glyphoxa serve (\w+)(.*)$", readme)
    assert {name for name, _ in lines} <= SHELF.keys()
    for name, options in lines:
        told = serve(name, "--help").stdout
        for option in re.findall(r"--[\w-]+", options):
            assert option in told, (name, option)


def test_the_help_names_every_server_and_its_options() -> None:
    told = serve("--help")
    assert told.returncode == 0
    for name in ("dice", "rules", "files", "memory", "duality"):
        assert re.search(rf"(?m)^│ {name} ", told.stdout), name
    assert re.search(r"--tables +FILE ", serve("dice", "--help").stdout)
    told = serve("-help")  # as programs in Go write it
    assert told.returncode == 0
    assert re.search(r"(?m)^  dice +", told.stdout), told.stdout
