"""``glyphoxa mcp …``: every verb as a process, on real files and real servers."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from .support import SEER, reports, run, seer, written

SECRET = "s3cret-value-1234"
UNSEEN = "not agreed to yet: glyphoxa mcp trust"


def mcp_json(folder: Path, servers: dict[str, Any] | None = None) -> Path:
    path = folder / ".mcp.json"
    if servers is not None:
        path.write_text(json.dumps({"mcpServers": servers}, indent=2))
    return path


def entry(*habits: str, fifo: Path | str = "-", **more: Any) -> dict[str, Any]:
    """A server ``servers/seer.py`` as other programs write it."""
    return {"command": "python", "args": [str(SEER), str(fifo), *habits], **more}


def repository(folder: Path) -> Path:
    """A folder inside a repository, so that nothing above it is looked at."""
    (folder / ".git").mkdir()
    inner = folder / "games" / "tavern"
    inner.mkdir(parents=True)
    return inner


# ---------------------------------------------------------------- add, remove


def test_a_command_is_added_to_the_project_and_removed_again(tmp_path: Path) -> None:
    inner = repository(tmp_path)  # N10, N13, N14
    added = run(
        "mcp", "add", "files", "--env", "MODE=a=b", "--",
        "npx", "-y", "@scope/server", "--root", "my notes", "--", "-v",
        cwd=inner,
    )  # fmt: skip
    assert (added.returncode, added.stderr) == (0, "")
    path = mcp_json(tmp_path)  # beside .git, however deep one stands
    assert added.stdout == f"files is in {path}\n"
    assert json.loads(path.read_text()) == {
        "mcpServers": {
            "files": {
                "command": "npx",
                "args": ["-y", "@scope/server", "--root", "my notes", "--", "-v"],
                "env": {"MODE": "a=b"},
            }
        }
    }
    removed = run("mcp", "remove", "files", cwd=inner)
    assert (removed.returncode, removed.stderr) == (0, "")
    assert removed.stdout == f"files is out of {path}\n"
    assert json.loads(path.read_text()) == {"mcpServers": {}}


@pytest.mark.parametrize(
    ("words", "cwd"),
    [
        ("glyphoxa serve herbs.py", "here"),
        ("./herbs.py", "here"),
        ("python -m server --data=herbs.py", "here"),
        ("glyphoxa serve dice", None),  # names no file of this folder
        ("cat /etc/hostname", None),
    ],
)
def test_a_relative_path_belongs_to_the_folder_it_was_typed_in(
    words: str, cwd: str | None, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    here = tmp_path / "here"
    here.mkdir()
    (here / "herbs.py").write_text("")
    added = run("mcp", "add", "herbs", "--", *words.split(), cwd=here)
    assert (added.returncode, added.stderr) == (0, "")
    entry = json.loads(mcp_json(tmp_path).read_text())["mcpServers"]["herbs"]
    assert entry.get("cwd") == cwd
    assert [entry["command"], *entry["args"]] == words.split()


def test_an_address_is_added_with_its_headers(tmp_path: Path) -> None:  # N11
    repository(tmp_path)
    added = run(
        "mcp", "add", "world", "--url", "https://${HOST}/mcp",
        "--header", "Authorization: Bearer ${WORLD_TOKEN}", "--header", "X-Table:5",
        cwd=tmp_path,
    )  # fmt: skip
    assert (added.returncode, added.stderr) == (0, "")
    assert json.loads(mcp_json(tmp_path).read_text())["mcpServers"]["world"] == {
        "type": "http",
        "url": "https://${HOST}/mcp",
        "headers": {"Authorization": "Bearer ${WORLD_TOKEN}", "X-Table": "5"},
    }


@pytest.mark.parametrize(
    "words",
    [
        # As the documentation of other programs and of servers has it.
        'add --transport http world https://w.example/mcp --header "X-Table: 5"',
        'add -t http world https://w.example/mcp -H "X-Table: 5"',
        'add world https://w.example/mcp --header "X-Table: 5"',
        "add world -t streamable-http --url https://w.example/mcp -H X-Table:5",
        "add --scope project -t http world https://w.example/mcp -H X-Table:5",
    ],
)
def test_an_address_is_added_as_elsewhere(words: str, tmp_path: Path) -> None:  # N11
    repository(tmp_path)
    added = run("mcp", *shlex.split(words), cwd=tmp_path)
    assert (added.returncode, added.stderr) == (0, "")
    assert json.loads(mcp_json(tmp_path).read_text())["mcpServers"]["world"] == {
        "type": "http",
        "url": "https://w.example/mcp",
        "headers": {"X-Table": "5"},
    }


@pytest.mark.parametrize(
    "words",
    [
        "add files -e MODE=a -e DEPTH=2 -- npx -y files -e x",
        "add --transport stdio files --env MODE=a --env DEPTH=2 -- npx -y files -e x",
        "add -s project files -e MODE=a --env=DEPTH=2 -- npx -y files -e x",
    ],
)
def test_a_command_is_added_as_elsewhere(words: str, tmp_path: Path) -> None:  # N10
    repository(tmp_path)
    added = run("mcp", *words.split(), cwd=tmp_path)
    assert (added.returncode, added.stderr) == (0, "")
    assert json.loads(mcp_json(tmp_path).read_text())["mcpServers"]["files"] == {
        "command": "npx",
        "args": ["-y", "files", "-e", "x"],
        "env": {"MODE": "a", "DEPTH": "2"},
    }


def test_without_a_repository_it_is_made_here(tmp_path: Path) -> None:  # N14
    assert run("mcp", "add", "x", "--", "y", cwd=tmp_path).returncode == 0
    assert mcp_json(tmp_path).is_file()
    inner = tmp_path / "inner"
    inner.mkdir()
    # From now on it is the nearest one for everything below.
    assert run("mcp", "add", "z", "--", "y", cwd=inner).returncode == 0
    assert set(json.loads(mcp_json(tmp_path).read_text())["mcpServers"]) == {"x", "z"}


def test_everything_else_in_the_file_stays(tmp_path: Path) -> None:  # N14
    repository(tmp_path)
    before = '{\n\t"inputs": [1,2],\n\t"mcpServers": {\n\t\t"a": {"x": 1.50}\n\t}\n}'
    mcp_json(tmp_path).write_text(before)
    assert run("mcp", "add", "b", "--", "c", cwd=tmp_path).returncode == 0
    added = mcp_json(tmp_path).read_text()
    assert added.startswith(before.removesuffix("\n\t}\n}"))
    assert run("mcp", "remove", "b", cwd=tmp_path).returncode == 0
    assert mcp_json(tmp_path).read_text() == before


def test_a_file_that_does_not_parse_is_never_overwritten(tmp_path: Path) -> None:
    repository(tmp_path)  # N14
    for broken in ("{,}", "", '{"mcpServers": []}'):
        mcp_json(tmp_path).write_text(broken)
        for words in (["add", "a", "--", "b"], ["remove", "a"]):
            said = run("mcp", *words, cwd=tmp_path)
            assert said.returncode == 2
            assert said.stderr.startswith("glyphoxa: ")
            assert "@ .mcp.json" in said.stderr
            assert mcp_json(tmp_path).read_text() == broken


def test_a_name_that_is_taken_needs_replace(tmp_path: Path) -> None:
    repository(tmp_path)
    mcp_json(tmp_path, {"a": {"command": "old", "env": {"K": "v"}, "timeout_ms": 5}})
    before = mcp_json(tmp_path).read_text()
    refused = run("mcp", "add", "a", "--", "new", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == ("glyphoxa: there is a server 'a' already @ .mcp.json\n")
    assert mcp_json(tmp_path).read_text() == before
    assert (
        run("mcp", "add", "a", "--replace", "--", "new", cwd=tmp_path).returncode == 0
    )
    assert json.loads(mcp_json(tmp_path).read_text())["mcpServers"] == {
        "a": {"command": "new", "args": [], "timeout_ms": 5}
    }


BAD = {
    ("add", "a"): "give the server's --url, or the command that starts it behind a --",
    ("add", "a", "--url", "w.example"): "must be an address that starts with http://",
    ("add", "a", "--url", "https://w", "--", "b"): "both a command and a url",
    ("add", "a", "--url", "https://w", "--env", "A=b"): "env means nothing to a",
    ("add", "a", "--header", "A: b", "--", "c"): "headers means nothing to a stdio",
    ("add", "a", "--env", SECRET, "--", "c"): "--env wants NAME=VALUE",
    ("add", "a", "--url", "https://w", "--header", SECRET): "--header wants NAME:VALUE",
    ("add", "a", "-t", "sse", "https://w/sse"): "--transport sse: it is not supported",
    ("add", "a", "-t", "http"): "--transport http wants one address",
    ("add", "a", "-t", "http", "--", "npx", "x"): "--transport http wants one address",
    ("add", "a", "-t", "pigeon", "--", "x"): "--transport pigeon: expected one of",
    ("add", "a", "-t", "stdio", "--url", "https://w"): "--transport stdio and a --url",
    ("add", "a", "-s", "user", "--", "x"): "--scope user: servers are added to the",
    ("add", "a.b", "--", "c"): "its name must be 1 to 64 letters, digits, _ or -",
    ("add", "a", "--", ""): "the first word of the command is empty",
    ("add", "a", "--", "x", "${"): "starts no ${VAR}",
    ("remove", "a"): "no server 'a' @ .mcp.json",
}


@pytest.mark.parametrize("words", BAD, ids=" ".join)
def test_what_makes_no_sense_ends_with_2_and_writes_nothing(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    repository(tmp_path)
    said = run("mcp", *words, cwd=tmp_path)
    assert said.returncode == 2
    assert BAD[words] in said.stderr
    assert said.stderr.startswith("glyphoxa: ")
    assert SECRET not in said.stderr
    assert not mcp_json(tmp_path).exists()


def test_words_of_the_command_without_a_separator_are_no_options_of_ours(
    tmp_path: Path,
) -> None:
    repository(tmp_path)
    said = run("mcp", "add", "a", "npx", "-y", "x", cwd=tmp_path)
    assert said.returncode == 2
    assert "No such option" in said.stderr


def test_removing_what_is_not_there_names_the_nearest(tmp_path: Path) -> None:  # N13
    repository(tmp_path)
    mcp_json(tmp_path, {"files": {"command": "x"}, "world": {"command": "x"}})
    said = run("mcp", "remove", "file", cwd=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == "glyphoxa: no server 'file', there is files @ .mcp.json\n"


def test_what_stands_in_the_configuration_is_edited_there(tmp_path: Path) -> None:
    repository(tmp_path)  # N9
    config = written(tmp_path, mcp={"servers": {"ours": {"command": "x"}}})
    for words in (["remove", "ours"], ["add", "ours", "--replace"]):
        more = ["--", "y"] if words[0] == "add" else []
        said = run("mcp", *words, "--config", config, *more, cwd=tmp_path)
        assert said.returncode == 2
        assert said.stderr == (
            "glyphoxa: 'ours' is in table.json, which goes first; edit it there\n"
        )
    assert not mcp_json(tmp_path).exists()


def test_a_secret_in_plain_text_is_pointed_out_and_not_repeated(
    tmp_path: Path,
) -> None:
    repository(tmp_path)
    added = run(
        "mcp", "add", "world", "--url", f"https://w.example/mcp?key={SECRET}",
        "--header", f"Authorization: Bearer {SECRET}", "--header", "X-Table: 5",
        cwd=tmp_path,
    )  # fmt: skip
    assert added.returncode == 0
    assert SECRET not in added.stdout + added.stderr
    assert [line.split()[0] for line in added.stderr.splitlines()] == [
        "url",
        "headers.Authorization",
    ]


# ------------------------------------------------------------------------ list


def rows(text: str) -> list[list[str]]:
    """The cells of each line of the table below its head."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [re.split(r" {2,}", line) for line in lines[2:]]


def test_list_shows_every_server_with_its_source_and_no_secret(
    tmp_path: Path,
) -> None:  # N12, N9
    repository(tmp_path)
    shared = mcp_json(
        tmp_path,
        {
            "both": {"command": "theirs"},
            "files": {
                "command": "npx",
                "args": ["-y", "fs", "--token", SECRET],
                "env": {"API_KEY": SECRET, "HOME_KEY": "${HOME_KEY:-x}"},
            },
            "world": {
                "type": "http",
                "url": f"https://me:{SECRET}@w.example/mcp?k={SECRET}",
                "headers": {"Authorization": f"Bearer {SECRET}", "X": "Bearer ${T}"},
            },
            "off": {"command": "x", "disabled": True},
            "old": {"type": "sse", "url": "https://w.example/sse"},
        },
    )
    config = written(tmp_path, mcp={"servers": [{"name": "both", "command": "our s"}]})
    listed = run("mcp", "list", "--config", config, cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert SECRET not in listed.stdout
    assert rows(listed.stdout) == [
        ["both", "stdio", "our s", str(config), "unknown"],
        ["both", "stdio", "theirs", str(shared), "overridden by table.json"],
        ["files", "stdio", "npx -y fs --token [secret]", str(shared), UNSEEN],
        ["API_KEY=[secret]"],
        ["HOME_KEY=${HOME_KEY:-[secret]}"],
        ["world", "streamable-http", "https://[secret]@w.example/mcp?k=[secret]",
         str(shared),
         ("left out: environment variable T is not set: set it, or give a default, as"
         " in ${T:-} @ .mcp.json.mcpServers.world.headers.X")],
        ["Authorization: [secret]"],
        ["X: Bearer ${T}"],
        ["off", "stdio", "x", str(shared), "disabled"],
        ["old", "sse", "https://w.example/sse", str(shared),
         ("left out: the transport sse is not supported, streamable-http is: many"
         " servers have both @ .mcp.json.mcpServers.old.type")],
    ]  # fmt: skip


def test_list_needs_no_variable_and_no_sense(tmp_path: Path) -> None:  # N12
    repository(tmp_path)
    mcp_json(tmp_path, {"a": {"url": "${NOPE}/mcp"}, "b": "x", "c": {"command": 5}})
    listed = run("mcp", "list", cwd=tmp_path)
    assert listed.returncode == 0
    assert [row[:3] for row in rows(listed.stdout)] == [
        ["a", "streamable-http", "${NOPE}/mcp"],
        ["b", "stdio", "nothing"],
        ["c", "stdio", "nothing"],
    ]


def test_list_of_nothing_says_so(tmp_path: Path) -> None:
    repository(tmp_path)
    assert run("mcp", "list", cwd=tmp_path).stdout == "no servers and no .mcp.json\n"
    mcp_json(tmp_path, {})
    assert run("mcp", "list", cwd=tmp_path).stdout == "no servers\n"


def test_list_of_a_switched_off_section_says_so(tmp_path: Path) -> None:  # A21
    repository(tmp_path)
    servers = {"a": {"command": "x"}}
    config = written(tmp_path, mcp={"enabled": False, "servers": servers})
    listed = run("mcp", "list", "--config", config, cwd=tmp_path)
    assert rows(listed.stdout)[0][-1] == "disabled by mcp.enabled"


def test_a_name_never_steers_the_terminal(tmp_path: Path) -> None:
    repository(tmp_path)
    mcp_json(tmp_path, {"[bold]\x1b[2J": {"command": "x\x1b[2J"}})
    listed = run("mcp", "list", cwd=tmp_path)
    assert "\x1b" not in listed.stdout
    assert "[bold]" in listed.stdout


# ------------------------------------------------------------------------ test


def step(text: str, name: str) -> str:
    (line,) = [x for x in text.splitlines() if x.startswith(f"{name}: ")]
    return line.removeprefix(f"{name}: ")


@pytest.mark.border
def test_a_good_server_passes_every_step_with_its_time(tmp_path: Path) -> None:
    repository(tmp_path)
    with reports(tmp_path) as told:
        mcp_json(tmp_path, {"seer": entry(fifo=told.path)})
        unnamed = run("mcp", "test", "seer", "--yes", cwd=tmp_path)
        assert (unnamed.returncode, "call" in unnamed.stdout) == (0, False)
        told.expect("started")
        assert told.next() == "stdin closed"
        named = ("whisper", '{"of": "ale"}')
        tested = run("mcp", "test", "seer", *named, "--yes", cwd=tmp_path)
        assert told.next().startswith("started ")
        assert told.next() == "called whisper"  # which was named, and no other
        assert told.next() == "stdin closed"
    assert (tested.returncode, tested.stderr) == (0, "")
    assert re.fullmatch(r"[\d.]+ ms: process \d+", step(tested.stdout, "connect"))
    assert re.fullmatch(
        r"[\d.]+ ms: 4 tools: whisper, ponder, vanish, daydream",
        step(tested.stdout, "list"),
    )
    assert re.match(r"[\d.]+ ms: answered", step(tested.stdout, "call whisper"))


@pytest.mark.border
@pytest.mark.parametrize(
    ("call", "said", "status"),
    [
        (("whisker",), "has no tool 'whisker', did you mean whisper?", 1),
        (("whisper", "[1]"), "expected an object, got an array @ ARGUMENTS", 2),
        (("whisper", "{"), "@ ARGUMENTS", 2),
    ],
)
def test_a_call_that_cannot_be_made_says_why(
    tmp_path: Path, call: tuple[str, ...], said: str, status: int
) -> None:
    repository(tmp_path)
    mcp_json(tmp_path, {"seer": entry()})
    tested = run("mcp", "test", "seer", *call, "--yes", cwd=tmp_path)
    assert tested.returncode == status
    assert said in tested.stdout + tested.stderr


FAILURES = {
    "exits": ("connect", "exited with status 3"),
    "mute": ("connect", "no handshake within 300 ms"),
    "ponder": ("call ponder", "no answer within 300 ms"),
}


@pytest.mark.border
@pytest.mark.parametrize("habit", FAILURES)
def test_a_step_that_fails_is_named_with_its_reason(tmp_path: Path, habit: str) -> None:
    repository(tmp_path)
    name, why = FAILURES[habit]
    server = {
        "exits": entry("exits"),
        "mute": entry("mute", start_timeout_ms=300),
        "ponder": entry(allow=["ponder"], timeout_ms=300),  # which never answers
    }[habit]
    mcp_json(tmp_path, {"seer": server})
    call = ("ponder",) if habit == "ponder" else ()
    tested = run("mcp", "test", "seer", *call, "--yes", cwd=tmp_path)
    assert tested.returncode == 1
    assert re.match(rf"FAILED after [\d.]+ ms: {why}", step(tested.stdout, name))
    assert "Traceback" not in tested.stdout + tested.stderr
    if habit == "exits":
        assert "  the crystal is cracked\n" in tested.stdout  # its last words


@pytest.mark.border
def test_a_server_of_the_configuration_is_tested_as_it_would_be_used(
    tmp_path: Path,
) -> None:
    repository(tmp_path)
    mcp_json(tmp_path, {"seer": {"command": "/nowhere"}, "other": entry()})
    config = written(tmp_path, mcp={"servers": [seer()]})
    for name in ("seer", "other"):
        tested = run("mcp", "test", name, "--config", config, "--yes", cwd=tmp_path)
        assert tested.returncode == 0, tested.stdout + tested.stderr
        assert "goes first @ .mcp.json.mcpServers.seer" in tested.stderr  # N9


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("seet", "no server 'seet', there is seer"),
        ("off", "'off' is not to be started: it is switched off there"),
        ("old", "'old' is not to be started: the transport sse"),
    ],
)
def test_a_server_that_is_none_is_told(tmp_path: Path, name: str, said: str) -> None:
    repository(tmp_path)
    mcp_json(
        tmp_path,
        {
            "seer": entry(),
            "off": entry(disabled=True),
            "old": {"type": "sse", "url": "https://w.example/sse"},
        },
    )
    tested = run("mcp", "test", name, cwd=tmp_path)
    assert tested.returncode == 2
    assert f"glyphoxa: {said}" in tested.stderr


@pytest.mark.border
def test_what_is_wrong_with_another_server_keeps_none_from_being_tested(
    tmp_path: Path,
) -> None:
    repository(tmp_path)
    other = {"url": "https://w.example", "headers": {"X-Key": "${NOWHERE_SET}"}}
    mcp_json(tmp_path, {"seer": entry(), "other": other})
    tested = run("mcp", "test", "seer", "--yes", cwd=tmp_path)
    assert tested.returncode == 0, tested.stderr
    tested = run("mcp", "test", "other", cwd=tmp_path)
    assert tested.returncode == 2
    assert "NOWHERE_SET" in tested.stderr
    tested = run("mcp", "test", "seet", cwd=tmp_path)
    assert "no server 'seet', there is seer" in tested.stderr


def test_without_any_file_there_is_nothing_to_test(tmp_path: Path) -> None:
    repository(tmp_path)
    tested = run("mcp", "test", "a", cwd=tmp_path)
    assert tested.returncode == 2
    assert "there is no .mcp.json from here upward" in tested.stderr


# --------------------------------------------------------- what the others do


@pytest.mark.border
def test_the_servers_of_the_project_are_there_for_every_verb(tmp_path: Path) -> None:
    inner = repository(tmp_path)  # N7
    mcp_json(tmp_path, {"seer": entry()})
    npcs = [{"name": "Bo", "tools": ["seer.whisper"]}]
    words = ("Bo", "whisper", "--tier", "fast", "--yes")
    asked = run("ask", written(inner, npcs=npcs), *words)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout == "A word about whisper.\n"


@pytest.mark.border
def test_check_shows_what_was_odd_when_the_files_were_merged(tmp_path: Path) -> None:
    repository(tmp_path)  # N9
    mcp_json(tmp_path, {"seer": entry(), "old": {"type": "sse", "url": "https://w"}})
    config = written(tmp_path, mcp={"servers": [seer()]})
    checked = run("check", config)
    assert (checked.returncode, checked.stderr) == (0, "")
    warnings = [
        line.removeprefix("warning: ")
        for line in checked.stdout.splitlines()
        if line.startswith("warning: ")
    ]
    place = ".mcp.json.mcpServers"
    sse = (
        "'old' is left out: the transport sse is not supported, streamable-http is:"
        " many servers have both"
    )
    assert warnings == [
        f"the configuration has it, too, and goes first @ {place}.seer",
        f"{sse} @ {place}.old.type",
    ]
    assert checked.stdout.endswith(" 1 of 1 servers ready\n")


def test_check_shows_what_is_odd_in_both_files(tmp_path: Path) -> None:
    repository(tmp_path)
    mcp_json(tmp_path, {"a": {"command": "x", "env": {"K": "${NOPE}"}}})
    checked = run("check", written(tmp_path, turn={"max_round": 1}))
    assert checked.returncode == 1
    lines = checked.stdout.splitlines()
    assert [(x.partition(": ")[0], x.partition(" @ ")[2]) for x in lines] == [
        ("warning", ".mcp.json.mcpServers.a.env.K"),
        ("problem", "table.json.turn"),
    ]
