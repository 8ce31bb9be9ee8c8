"""``glyphoxa check``: every problem of a configuration at once, with its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .support import run, seer, written


def problems(text: str) -> list[str]:
    return [
        line.removeprefix("problem: ")
        for line in text.splitlines()
        if line.startswith("problem: ")
    ]


@pytest.mark.border
def test_a_good_configuration_is_said_to_be_good(tmp_path: Path) -> None:
    npcs = [{"name": "Bo", "tools": ["dice", "seer.whisper"]}]
    path = written(tmp_path, npcs=npcs, mcp={"servers": [seer()]})
    checked = run("check", path)
    assert re.fullmatch(
        r"Bo: can use 3 of 3 tools\n"
        rf"{path}: 1 NPC, \d+ tools, 1 of 1 servers ready\n",
        checked.stdout,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_file_broken_in_five_places_has_five_problems(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        npcs=[
            {"name": "Bo", "budget_tier": "slow"},
            {"nane": "Greymantle"},
        ],
        llm={"provider": "chat_completions", "base_url": "localhost:11434"},
        turn={"max_rounds": "four"},
        mcp={"servers": [{"name": "no.dots", "command": "x", "env": {"A": "${NOPE}"}}]},
    )
    checked = run("check", path)
    assert checked.returncode == 1
    assert "Traceback" not in checked.stdout + checked.stderr
    places = [line.rpartition(" @ ")[2] for line in problems(checked.stdout)]
    for place in (
        "table.json.npcs[0].budget_tier",
        "table.json.npcs[1]",
        "table.json.llm.base_url",
        "table.json.turn.max_rounds",
        "table.json.mcp.servers[0].env.A",
    ):
        assert place in places, checked.stdout


def test_a_broken_line_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "npcs.yaml"
    path.write_text("npcs:\n  - name: Bo\n    greeting: Note: closed\n")
    checked = run("check", path, "--json")
    (problem,) = json.loads(checked.stdout)["problems"]
    assert problem.count("\n") == 3  # with the line, the caret and the remedy
    assert run("check", path).stdout.count("problem: ") == 1


def test_a_name_that_no_model_would_take_is_found_by_reading(tmp_path: Path) -> None:
    # A12
    listed = [{"name": "ponder", "expose_as": "ponder"}, {"name": "x", "expose_as": ""}]
    servers = [
        seer(tools={"whisper": {"expose_as": "search.2 x"}}),
        seer(name="elder", tools=listed),
    ]
    path = written(
        tmp_path,
        mcp={"servers": servers},
        tools={"dice.roll": {"expose_as": "9" * 65}},
    )
    checked = run("check", path, "--no-servers")
    assert checked.returncode == 1
    why = "must be 1 to 64 letters, digits, _ or -, and start with a letter or _"
    assert sorted(problems(checked.stdout)) == [
        f"{why} @ table.json.mcp.servers[0].tools.whisper.expose_as",
        f"{why} @ table.json.mcp.servers[1].tools[1].expose_as",
        f"{why} @ table.json.tools['dice.roll'].expose_as",
    ]


def test_what_only_the_catalogue_knows_comes_all_at_once_too(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["dice.rol", "rules"]}],
        tools={
            "dice.role": {"min_tier": "deep"},
            "roll": {"read_only": False, "cacheable_seconds": 5},
        },
        mcp={"servers": [seer(name="rules")]},
    )
    checked = run("check", path)
    assert checked.returncode == 1
    found = sorted(problems(checked.stdout))
    assert len(found) == 4, found
    assert found[0].startswith("'rules' is a group of built-in tools @ mcp.servers")
    assert "cacheable" in found[1]
    assert found[1].endswith("@ tools.roll")
    assert found[2].startswith("no built-in tool 'dice.role', did you mean dice.roll")
    assert found[3].startswith("no tool 'dice.rol', did you mean dice.roll")
    assert found[3].endswith("@ npcs[Bo].tools")


@pytest.mark.border
def test_a_server_that_a_grant_names_and_that_is_not_there_is_a_problem(
    tmp_path: Path,
) -> None:
    """One cannot start, one exits, one nobody needs, and one is there (D14)."""
    path = written(
        tmp_path,
        npcs=[
            {"name": "Bo", "tools": ["seer.wisper", "exits.x", "z*"]},
            {"name": "Al", "tools": ["mcp__exits__*", "gone"]},
        ],
        mcp={
            "servers": [
                seer(),
                seer("-", "exits"),
                {"name": "gone", "command": str(tmp_path / "no-such-program")},
                {"name": "spare", "command": str(tmp_path / "nor-this")},
            ]
        },
    )
    checked = run("check", path)
    assert checked.returncode == 1
    wrong, *missing = problems(checked.stdout)
    assert wrong.startswith("no tool 'seer.wisper', did you mean seer.whisper or")
    assert wrong.endswith(" @ npcs[Bo].tools")
    not_there = "which is not there: exited with status 3"
    assert [line.partition(" @ ")[0] for line in missing[:2]] == [
        f"'exits.x' needs the server 'exits', {not_there}",
        f"'mcp__exits__*' needs the server 'exits', {not_there}",
    ]
    assert missing[2].startswith(
        "'gone' needs the server 'gone', which is not there: cannot be started: "
    )
    assert missing[2].endswith(" @ npcs[Al].tools")
    assert len(missing) == 3
    for warning in (
        "warning: exits: exited with status 3\n  the crystal is cracked\n",
        "warning: gone: cannot be started: ",
        "warning: spare: cannot be started: ",
        "warning: 'z*' waits for the server 'exits' @ npcs[Bo].tools\n",
    ):
        assert warning in checked.stdout
    assert checked.stdout.endswith(" tools, 1 of 4 servers ready\n")


@pytest.mark.border
def test_two_tools_with_one_name_are_a_problem_that_names_both_and_the_way_out(
    tmp_path: Path,
) -> None:  # A8
    def table(*names: str) -> Path:
        servers = [
            {**seer(), "name": server, "tools": {"whisper": {"expose_as": name}}}
            for server, name in zip(("one", "two"), names, strict=True)
        ]
        npcs = [{"name": "Bo", "tools": ["one.whisper", "two.whisper"]}]
        return written(tmp_path, npcs=npcs, mcp={"servers": servers})

    checked = run("check", table("rumour", "rumour"))
    assert checked.returncode == 1
    (problem,) = problems(checked.stdout)
    assert problem == (
        "one.whisper and two.whisper would both be exposed as 'rumour', so none of"
        " them is; give all but one another name with expose_as"
        " @ mcp.servers[two].tools.whisper.expose_as"
    )
    # The remedy is true.
    checked = run("check", table("rumour", "murmur"))
    assert (problems(checked.stdout), checked.returncode) == ([], 0)


def test_without_servers_their_tools_are_taken_on_trust(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["seer.whisper", "dice.rol"]}],
        mcp={"servers": [seer()]},
    )
    checked = run("check", path, "--no-servers")
    assert checked.returncode == 1
    (only,) = problems(checked.stdout)
    assert only.startswith("no tool 'dice.rol'")


def test_a_file_that_is_not_there_is_one_problem(tmp_path: Path) -> None:
    checked = run("check", tmp_path / "nobody.yaml")
    assert checked.returncode == 1
    assert problems(checked.stdout) == [
        "cannot be read: No such file or directory @ nobody.yaml"
    ]


@pytest.mark.border
def test_the_tavern_of_the_demo_is_in_order() -> None:
    """With its two servers on the SDK, as ``make demo`` starts them."""
    tavern = Path(__file__).parents[2] / "config" / "tavern.yaml"
    checked = run("check", tavern)
    assert (checked.returncode, checked.stderr) == (0, "")
    # Everybody can use everything.
    reach = re.findall(r"can use (\d+) of (\d+) tools", checked.stdout)
    assert len(reach) == 3
    assert all(usable == granted for usable, granted in reach)
    assert f"\n{tavern}: 3 NPCs, " in checked.stdout
    assert checked.stdout.endswith(" 2 of 2 servers ready\n")


@pytest.mark.border
def test_who_can_reach_nothing_is_named_with_the_remedy(tmp_path: Path) -> None:
    npcs = [
        {"name": "Stan", "tools": ["seer"]},  # a whole server approves nothing
        {"name": "Bo", "tools": ["dice", "seer.whisper"]},
        {"name": "Mute"},
    ]
    server = seer(tools={"whisper": {"min_tier": "deep"}}, allow=["whisper", "vanish"])
    path = written(tmp_path, npcs=npcs, mcp={"servers": [server]})
    checked = run("check", path)
    assert checked.returncode == 0
    warnings = [x for x in checked.stdout.splitlines() if x.startswith("warning: ")]
    assert len(warnings) == 2, warnings
    none, some = warnings
    assert none == (
        "warning: Stan can use none of the tools it is granted: seer.vanish: it is"
        " not approved, and turns ask no person: add 'seer.vanish' to the tools of"
        " Stan; seer.whisper: it is not approved, and turns ask no person: add"
        " 'seer.whisper' to the tools of Stan; and its min_tier is deep: raise Stan's"
        " budget_tier to deep"
    )
    assert some == (
        "warning: Bo can never use 1 of the 3 tools it is granted: seer.whisper: its"
        " min_tier is deep: raise Bo's budget_tier to deep"
    )
    *_, stan, bo, mute, last = checked.stdout.splitlines()
    assert (stan, bo, mute) == (
        "Stan: can use 0 of 2 tools",
        "Bo: can use 2 of 3 tools",
        "Mute: can use 0 of 0 tools",
    )
    assert last.endswith("1 of 1 servers ready")


SPOKEN = {
    "npcs": [
        {
            "name": "Bo",
            "engine": "s2s",
            "greeting": "Sit!",
            "fallback": ["Hm?", "What was that?"],
        },
        {"name": "Ann"},
    ],
    "s2s": {"provider": "gemini_live", "model": "gemini-3.8-live", "api_key": "k"},
}


def unfit(text: str, kind: str) -> list[str]:
    """What is said of that kind, without why and the remedy."""
    found = [x.removeprefix(kind) for x in text.splitlines() if x.startswith(kind)]
    return [
        re.sub(" cannot be heard: .*(?= @)| stand-in: .*(?= @)", "", x) for x in found
    ]


def test_what_nobody_would_hear_and_a_stand_in_are_warnings(tmp_path: Path) -> None:
    # A36
    path = written(tmp_path, **SPOKEN)
    checked = run("check", path)
    assert checked.returncode == 0
    assert unfit(checked.stdout, "warning: ") == [
        'the fallback lines of Bo ("Hm?", "What was that?") @ npcs[0].fallback',
        'the greeting of Bo ("Sit!") @ npcs[0].greeting',
        "what goes through the text model, and what the DM says as Bo @ npcs[0]",
        "turns of Bo that need slow tools are answered by the offline @ npcs[0]",
    ]
    assert "configure speech.synthesis" in checked.stdout
    assert "configure llm, or set s2s.route: false" in checked.stdout


def test_in_production_they_are_problems(tmp_path: Path) -> None:
    path = written(tmp_path, **SPOKEN)
    checked = run("check", path, "--production")
    assert checked.returncode == 1
    assert unfit(checked.stdout, "problem: ")[-2:] == [
        "turns of Bo that need slow tools are answered by the offline @ npcs[0]",
        "Ann is answered for by the offline @ npcs[1]",
    ]
    assert len(problems(checked.stdout)) == 5


def test_a_table_that_can_be_heard_is_fit_for_production(tmp_path: Path) -> None:
    realtime = {"provider": "openai_realtime", "model": "gpt-realtime", "api_key": "k"}
    llm = {
        "provider": "chat_completions",
        "model": "m",
        "base_url": "http://[::1]:1/v1",
    }
    path = written(tmp_path, **(SPOKEN | {"s2s": realtime, "llm": llm}))
    checked = run("check", path, "--production", "--no-servers")
    assert (checked.returncode, problems(checked.stdout)) == (0, [])


@pytest.mark.border
def test_a_server_that_no_grant_names_fails_in_production_only(tmp_path: Path) -> None:
    servers = [{"name": "spare", "command": str(tmp_path / "no-such-program")}]
    path = written(tmp_path, npcs=[{"name": "Bo"}], mcp={"servers": servers})
    checked = run("check", path)
    assert (checked.returncode, problems(checked.stdout)) == (0, [])
    assert "warning: spare: cannot be started: " in checked.stdout
    checked = run("check", path, "--production")
    assert checked.returncode == 1
    spare = problems(checked.stdout)[0]
    assert spare.startswith("spare: cannot be started: ")
    assert spare.endswith(" @ mcp.servers[spare]")
