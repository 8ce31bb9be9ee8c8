"""Nothing of a ``.mcp.json`` starts unseen; a server there is nobody else's trouble.

With real files, servers that tell when they start, and a real terminal.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.cli.mcp_list import show
from glyphoxa_trio.cli.mcp_test import check_server
from glyphoxa_trio.cli.mcp_trust import trust

from .support import SEER, Reports, reports, run, terminal, written

UNSEEN = "it is not agreed to yet: look at it with glyphoxa mcp trust"
QUESTION = "start them? (all, none, or numbers such as 1 3-5) [none] "
PROMPT = "you to Bo> "
SECRET = "s3cret-value-1234"


def entry(told: Reports | None = None, **more: Any) -> dict[str, Any]:
    fifo = "-" if told is None else str(told.path)
    return {"command": "python", "args": [str(SEER), fifo], **more}


def project(folder: Path, servers: Any, *tools: str, **config: Any) -> Path:
    """A repository with a ``.mcp.json`` and a table whose Bo has these tools."""
    (folder / ".git").mkdir(exist_ok=True)
    text = servers if isinstance(servers, str) else json.dumps({"mcpServers": servers})
    (folder / ".mcp.json").write_text(text)
    npcs = [{"name": "Bo", "tools": ["dice", *tools]}]
    config.setdefault("calibration", {"at_start": False})
    return written(folder, npcs=npcs, **config)


# ------------------------------------------------- a file that was not seen here


@pytest.mark.border
def test_play_asks_before_anything_of_an_unseen_file_starts(tmp_path: Path) -> None:
    # D14a: it started whatever a cloned repository named
    with reports(tmp_path) as told:
        servers = {
            "seer": entry(told, env={"API_KEY": SECRET}),
            "world": {"url": f"https://me:{SECRET}@127.0.0.1:9/mcp"},
        }
        path = project(tmp_path, servers)
        with terminal("play", path) as table:
            table.expect(f"{tmp_path}/.mcp.json names servers that were not started")
            table.expect(f"1  seer: python {SEER} {told.path}\n")
            table.expect("API_KEY=[secret]\n")
            table.expect("2  world: https://[secret]@127.0.0.1:9/mcp\n")
            table.expect(QUESTION)
            assert told.silent()
            table.type("maybe\n")
            table.expect("answer all, none, or numbers such as 1 3-5, from 1 to 2")
            table.expect(QUESTION)
            table.type("none\n")
            table.expect(f"warning: 'seer' is left out: {UNSEEN} @ .mcp.json")
            table.expect(f"warning: 'world' is left out: {UNSEEN} @ .mcp.json")
            table.expect(PROMPT)
            table.type("/quit\n")
            assert table.ends() == 0
        assert told.silent()  # it never ran
        assert SECRET not in table.screen
        with terminal("play", path) as table:  # a no is not kept
            table.expect(QUESTION)
            table.type("1\n")
            told.expect("started")
            table.expect(PROMPT)
            table.type("/quit\n")
            assert table.ends() == 0


@pytest.mark.border
def test_what_was_agreed_to_is_not_asked_again_until_it_changes(
    tmp_path: Path,
) -> None:
    with reports(tmp_path) as told:
        servers = {"seer": entry(told), "other": entry()}
        path = project(tmp_path, servers)
        with terminal("play", path) as table:
            table.expect(QUESTION)
            table.type("all\n")
            table.expect(PROMPT)
            table.type("/quit\n")
            assert table.ends() == 0
        told.expect("started")
        told.expect("stdin closed")
        # Other programs' keys are nothing that starts anything.
        servers["other"] |= {"autoApprove": ["whisper"], "icon": "x"}
        project(tmp_path, servers)
        assert "left out" not in run("check", path).stdout
        told.expect("started")
        told.expect("stdin closed")
        servers["seer"]["args"] = [*servers["seer"]["args"], "stubborn"]
        project(tmp_path, servers)
        shown = run("mcp", "trust", "--config", path).stdout
        assert shown.startswith("  1  seer (changed): python")
        assert "  other" not in shown
        left_out = f"'seer' is left out: {UNSEEN}"
        assert left_out in run("ask", path, "Bo", "hello").stderr
        assert told.silent()
        # Elsewhere the same file is another one.
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        asked = run("ask", project(elsewhere, {"other": entry()}), "Bo", "hello")
        assert f"'other' is left out: {UNSEEN}" in asked.stderr


@pytest.mark.border
def test_ctrl_c_at_the_question_leaves(tmp_path: Path) -> None:
    with terminal("play", project(tmp_path, {"seer": entry()})) as table:
        table.expect(QUESTION)
        table.press_ctrl_c()
        assert table.ends() == 130


def test_without_a_terminal_unseen_servers_are_left_out(tmp_path: Path) -> None:
    with reports(tmp_path) as told:
        path = project(tmp_path, {"seer": entry(told)})
        asked = run("ask", path, "Bo", "roll 1d1 for me")
        assert asked.returncode == 0
        assert f"warning: 'seer' is left out: {UNSEEN} @ .mcp.json" in asked.stderr
        # It is an error where an NPC's grant names it.
        path = project(tmp_path, {"seer": entry(told)}, "seer.whisper")
        failed = run("ask", path, "Bo", "hello")
        assert failed.returncode == 2
        assert failed.stderr.splitlines()[-1] == (
            "glyphoxa: 'seer.whisper' asks for the server 'seer', which is left out:"
            f" {UNSEEN} @ npcs[Bo].tools"
        )
        checked = run("check", path)
        assert checked.returncode == 1
        assert "problem: 'seer.whisper' asks for the server 'seer'" in checked.stdout
        assert told.silent()


@pytest.mark.border
@pytest.mark.parametrize(
    "words",
    [("ask", "Bo", "hello"), ("check",)],
    ids=" ".join,
)
def test_machines_say_yes_beforehand(tmp_path: Path, words: tuple[str, ...]) -> None:
    with reports(tmp_path) as told:
        path = project(tmp_path, {"seer": entry(told)}, "seer.whisper")
        verb, *rest = words
        done = run(verb, path, *rest, "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        told.expect("started")
        # A yes is kept, as one that is typed.
        assert "left out" not in run(verb, path, *rest).stderr


@pytest.mark.border
def test_what_mcp_add_wrote_needs_no_question(tmp_path: Path) -> None:
    with reports(tmp_path) as told:
        path = project(tmp_path, {}, "seer.whisper")
        words = ("--", "python", str(SEER), str(told.path))
        added = run("mcp", "add", "seer", *words, cwd=tmp_path)
        assert added.returncode == 0, added.stderr
        assert run("ask", path, "Bo", "hello").returncode == 0
        told.expect("started")


@pytest.mark.border
def test_mcp_trust_shows_what_is_new_and_asks(tmp_path: Path) -> None:
    path = project(tmp_path, {"seer": entry(), "other": entry()})
    shown = run("mcp", "trust", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert shown.stdout.startswith(f"  1  seer: python {SEER} -\n  2  other: python")
    assert shown.stdout.endswith("there is no terminal to ask in; --yes agrees\n")
    wrong = run("mcp", "trust", "sear", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "no server 'sear' to start in .mcp.json, there is seer" in wrong.stderr
    with terminal("mcp", "trust", "seer", "--config", path) as asked:
        asked.expect(QUESTION)
        asked.type("y\n")
        asked.expect("seer may be started")
        assert asked.ends() == 0
    again = run("mcp", "trust", "seer", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "no server is new here\n")
    listed = run("mcp", "list", cwd=tmp_path).stdout
    assert "not agreed to yet: glyphoxa mcp trust" in listed
    assert listed.count("not agreed to yet") == 1  # the other one


@pytest.mark.border
def test_a_yes_to_tools_starts_nothing_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Found: `mcp approve --yes` agreed to every server of the file, for ever.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # nothing else runs here
    with reports(tmp_path) as told:
        path = project(tmp_path, {"seer": entry(told)})
        for words in (
            ("mcp", "approve", "dice.roll", "--config", path, "--yes"),
            ("calibrate", path, "--all", "--yes"),
        ):
            done = run(*words)
            assert f"'seer' is left out: {UNSEEN}" in done.stderr
        assert told.silent()
        assert run("mcp", "trust", "--yes", "--config", path).returncode == 0
        assert "left out" not in run("calibrate", path, "seer.whisper").stderr
        told.expect("started")


def test_the_file_of_somebody_else_is_not_believed_without_a_configuration_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Found: whoever may write to /tmp named servers for every folder below.
    project(tmp_path, {"seer": entry()})
    below = tmp_path / ".mcp.json"
    monkeypatch.chdir(tmp_path)
    real = Path.stat

    def stat(path: Path, **more: Any) -> Any:
        seen = real(path, **more)
        if path != below:
            return seen
        return os.stat_result((*seen[:4], seen.st_uid + 4242, *seen[5:]))

    monkeypatch.setattr(Path, "stat", stat)
    why = f"has another owner than {tmp_path.name}, so it is not read @ {below}"
    assert trust([], config=None) == 2
    assert why in capsys.readouterr().err
    assert check_server("seer", config=None) == 2
    assert why in capsys.readouterr().err
    assert show(None) == 0
    assert "not read: the file has another owner" in capsys.readouterr().out


# -------------------------------------------- an entry is nobody else's trouble


@pytest.mark.border
def test_a_server_that_cannot_be_used_is_an_error_only_where_it_is_needed(
    tmp_path: Path,
) -> None:  # D14: play ended with 2 though no NPC used that server
    servers = {
        "seer": entry(),
        "github": {"command": "x", "env": {"TOKEN": "${GITHUB_TOKEN_UNSET}"}},
        "old": {"type": "sse", "url": "https://w.example/sse"},
    }
    path = project(tmp_path, servers, "seer.whisper")
    asked = run("ask", path, "Bo", "whisper", "--yes", "--tier", "fast")
    assert (asked.returncode, asked.stdout) == (0, "A word about whisper.\n")
    why = (
        "environment variable GITHUB_TOKEN_UNSET is not set: set it, or give a default,"
        " as in ${GITHUB_TOKEN_UNSET:-} @ .mcp.json.mcpServers.github.env.TOKEN"
    )
    assert f"warning: 'github' is left out: {why}\n" in asked.stderr
    path = project(tmp_path, servers, "seer.whisper", "github.*")
    failed = run("ask", path, "Bo", "whisper")
    assert failed.returncode == 2
    assert failed.stderr.endswith(
        "glyphoxa: 'github.*' asks for the server 'github', which is left out:"
        f" {why} @ npcs[Bo].tools\n"
    )


def test_a_file_that_is_no_json_is_an_error_only_where_it_is_needed(
    tmp_path: Path,
) -> None:
    asked = run("ask", project(tmp_path, "{,}"), "Bo", "hello")
    assert asked.returncode == 0, asked.stderr
    assert "warning: no server of that file is used: is not JSON: " in asked.stderr
    failed = run("ask", project(tmp_path, "{,}", "files.*"), "Bo", "hello")
    assert failed.returncode == 2
    assert "'files.*' matches no tool; it may be in a file that" in failed.stderr
    assert (tmp_path / ".mcp.json").read_text() == "{,}"


@pytest.mark.parametrize("off", ["mcp.enabled", "disabled", "enabled"])
def test_a_server_that_is_switched_off_is_a_warning(tmp_path: Path, off: str) -> None:
    # D14, A21: the switch broke the start
    more: dict[str, Any] = {"disabled": True} if off == "disabled" else {}
    more |= {"enabled": False} if off == "enabled" else {}
    config: dict[str, Any] = {"mcp": {"enabled": False}} if off == "mcp.enabled" else {}
    path = project(tmp_path, {"seer": entry(**more)}, "seer.whisper", **config)
    asked = run("ask", path, "Bo", "roll 1d1 for me")
    assert (asked.returncode, asked.stdout) == (0, "1d1 comes to 1.\n")
    checked = run("check", path)
    assert checked.returncode == 0, checked.stdout
    (warning,) = [x for x in checked.stdout.splitlines() if x.startswith("warning")]
    assert warning.startswith(
        "warning: 'seer.whisper' asks for the server 'seer', which is switched off: "
    )


def test_a_misspelt_grant_is_an_error_with_everything_switched_off(
    tmp_path: Path,
) -> None:
    path = project(tmp_path, {"seer": entry()}, "dice.rol", mcp={"enabled": False})
    checked = run("check", path)
    assert checked.returncode == 1
    assert "problem: no tool 'dice.rol', did you mean" in checked.stdout
