"""``.mcp.json`` beside a configuration: which one, what of it, and who goes first."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.config import (
    Config,
    ConfigError,
    McpDefaults,
    ServerSpec,
    SharedServer,
    ToolOverride,
    admitted,
    load_config,
    load_mcp_json,
    load_text,
)
from glyphoxa_trio.config.mcp_json import (
    Shared,
    find_mcp_json,
    home_of_mcp_json,
    parse_mcp_json,
    stranger_of,
)
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.tier import Tier

SOURCE = Path("/table/.mcp.json")
CONFIG = Path(__file__).parents[2] / "config"


def shared(entries: Any, env: Mapping[str, str] | None = None) -> Shared:
    return parse_mcp_json({"mcpServers": entries}, source=SOURCE, env=env or {})


def server(entry: Any, **env: str) -> ServerSpec:
    found = shared({"one": entry}, env)
    assert found.warnings == ()
    (spec,) = found.servers
    return spec


def left_out(entries: Any, **env: str) -> dict[str, str]:
    """What is wrong with the entries, by place; the warnings say the same."""
    found = shared(entries, env)
    assert found.servers == ()
    texts = [text.partition(" is left out: ")[2] for text in found.warnings]
    assert "; ".join(x.why for x in found.left_out) == "; ".join(texts)
    return {place: what for what, _, place in (x.rpartition(" @ ") for x in texts)}


def project(folder: Path, entries: Any = None, **mcp: Any) -> Path:
    """A configuration two folders below a repository with a ``.mcp.json``."""
    (folder / ".git").mkdir()
    if entries is not None:
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    config = folder / "games" / "tavern" / "table.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"mcp": mcp}))
    return config


def loaded(path: Path, **more: Any) -> tuple[Config, list[str]]:
    told: list[str] = []
    return load_config(path, env={}, warn=told.append, **more), told


# ------------------------------------------------------------- what it means


def test_the_seeds_file_loads() -> None:  # N7, N8
    entries = {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "."],
            "env": {"NODE_ENV": "production"},
        },
        "remote": {
            "url": "https://mcp.example.com",
            "headers": {"Authorization": "Bearer token"},
        },
    }
    found = shared(entries)
    assert found.warnings == ()
    assert found.servers == (
        ServerSpec(
            name="filesystem",
            command=("npx", "-y", "@modelcontextprotocol/server-filesystem", "."),
            env={"NODE_ENV": Secret("production")},
            cwd=Path("/table"),  # where the file is: "." means the project
        ),
        ServerSpec(
            name="remote",
            url="https://mcp.example.com",
            headers={"Authorization": Secret("Bearer token")},
        ),
    )


@pytest.mark.parametrize(
    "kind", ["http", "streamable-http", "streamableHttp", "streamable_http", "HTTP"]
)
def test_a_type_is_a_transport(kind: str) -> None:  # N8, G27
    url = "https://w.example/mcp"
    assert server({"type": kind, "url": url}) == server({"url": url})
    assert server({"transport": kind, "url": url}) == server({"url": url})
    assert server({"type": "stdio", "command": "x"}) == server({"command": "x"})


def test_beside_args_a_command_is_one_word_and_alone_it_is_split() -> None:  # D14
    spaced = server({"command": "/opt/my server/run", "args": []})
    assert spaced.command == ("/opt/my server/run",)
    assert server({"command": "python -m x"}).command == ("python", "-m", "x")
    assert server({"command": ["a b"], "args": ["c"]}).command == ("a b", "c")


def test_an_entry_may_say_what_our_own_file_may() -> None:
    spec = server(
        {"command": "x", "cwd": "sub", "timeout_ms": 250, "allow": ["a"], "lazy": True}
    )
    assert (spec.timeout, spec.allow, spec.lazy) == (0.25, ("a",), True)
    assert spec.cwd == Path("/table/sub")


def test_variables_expand_as_everywhere() -> None:  # A29
    spec = server(
        {
            "url": "https://${HOST:-w.example}/mcp",
            "headers": {"Authorization": "Bearer ${T}"},
        },
        T="s3cret",
    )
    assert spec.url == "https://w.example/mcp"
    assert spec.headers == {"Authorization": Secret("Bearer s3cret")}


def test_keys_of_other_programs_are_nobodys_trouble() -> None:  # D14
    found = parse_mcp_json(
        {
            "inputs": [{"id": "x"}],
            "mcpServers": {"a": {"command": "x", "icon": "🔧", "dev": {"watch": "*"}}},
        },
        source=SOURCE,
        env={},
    )
    assert [spec.name for spec in found.servers] == ["a"]
    assert (found.warnings, found.left_out) == ((), ())


def test_a_disabled_server_is_nobodys_trouble() -> None:
    # Not even its variable has to be set.
    for off in ({"disabled": True}, {"enabled": False}):
        found = shared({"a": {**off, "url": "${NOPE}"}})
        assert (found.servers, found.warnings) == ((), ())
        (left,) = found.left_out
        assert (left.name, left.switched_off) == ("a", True)
    assert server({"disabled": False, "command": "x"}).command == ("x",)


def test_what_we_cannot_use_is_left_out_and_said() -> None:
    found = shared(
        {
            "old": {"type": "sse", "url": "https://w.example/sse"},
            "io.github/x": {"command": "x"},
            "good": {"command": "x"},
        }
    )
    assert [spec.name for spec in found.servers] == ["good"]
    assert [left.name for left in found.left_out] == ["old", "io.github/x"]
    sse, name = found.warnings
    assert sse == (
        "'old' is left out: the transport sse is not supported, streamable-http is:"
        " many servers have both @ .mcp.json.mcpServers.old.type"
    )
    assert name.startswith(
        "'io.github/x' is left out: its name must be 1 to 64 letters"
    )
    assert name.endswith(" @ .mcp.json.mcpServers['io.github/x']")


def test_each_entry_is_judged_by_itself() -> None:  # D14: it was all or nothing
    found = shared(
        {
            "github": {"command": "x", "env": {"TOKEN": "${GITHUB_TOKEN}"}},
            "good": {"command": "x"},
        }
    )
    assert [spec.name for spec in found.servers] == ["good"]
    (warning,) = found.warnings
    assert warning == (
        "'github' is left out: environment variable GITHUB_TOKEN is not set: set it,"
        " or give a default, as in ${GITHUB_TOKEN:-}"
        " @ .mcp.json.mcpServers.github.env.TOKEN"
    )


def test_wrong_types_and_contradictions_leave_an_entry_out_each_with_its_place() -> (
    None
):
    found = left_out(
        {
            "a": {"command": "x", "args": "-y", "env": {"K": [1]}},
            "b": {"command": "x", "url": "https://w.example/mcp"},
            "c": {"type": "ws", "url": "https://w.example/mcp"},
            "d": "x",
            "e": {"command": "x", "disabled": "yes"},
            "f": {},
            "g": {"type": "http", "transport": "stdio", "command": "x"},
            "h": {"command": ""},
            "i": {"serverUrl": "https://${NOPE}/mcp"},
            "j": {"command": "x", "env": {"KEY": "${input:key}"}},
            "k": {"command": "x '"},
            "l": {"command": "x", "timeout": "soon"},
        }
    )
    both = "both a command and a url: give the one it is reached by"
    neither = "needs a command (stdio) or a url (streamable-http)"
    assert found == {
        ".mcp.json.mcpServers.a.args": "expected a list, got text",
        ".mcp.json.mcpServers.a.env.K": "expected text in quotes, got a list",
        ".mcp.json.mcpServers.b": both,
        ".mcp.json.mcpServers.c.type": (
            "expected one of stdio, streamable-http, got 'ws'"
        ),
        ".mcp.json.mcpServers.d": "expected a mapping, got text",
        ".mcp.json.mcpServers.e.disabled": "expected true or false, got 'yes'",
        ".mcp.json.mcpServers.f": neither,
        ".mcp.json.mcpServers.g": ("type and transport say different things: give one"),
        ".mcp.json.mcpServers.h.command": "must not be empty",
        ".mcp.json.mcpServers.i.serverUrl": (
            "environment variable NOPE is not set: set it, or give a default, as in"
            " ${NOPE:-}"
        ),
        ".mcp.json.mcpServers.j.env.KEY": (
            "only an editor asks for ${input:key}, this program does not: write ${VAR}"
            " and set that variable"
        ),
        ".mcp.json.mcpServers.k.command": (
            "cannot be split into words: No closing quotation"
        ),
        ".mcp.json.mcpServers.l.timeout": "expected a number, got 'soon'",
    }


# ---------------------------------------------------- as other programs write it


def test_the_spellings_of_claude_cursor_vs_code_and_windsurf(tmp_path: Path) -> None:
    (tmp_path / "project.env").write_text("# keys\nexport A=1 # one\nB='two = 2'\n\n")
    text = {
        "mcpServers": {
            "claude": {"type": "stdio", "command": "npx", "args": ["-y", "s"]},
            "cursor": {
                "command": "node",
                "args": ["${workspaceFolder}/s.js", "--port", 8080, True],
                "env": {"KEY": "${env:KEY}", "N": 7, "ON": True, "NO": None},
            },
            "windsurf": {
                "serverUrl": "https://w.example/mcp",
                "headers": {"Authorization": "Bearer ${env:KEY}"},
                "disabled": False,
            },
            "gemini": {"httpUrl": "https://g.example/mcp", "timeout": 30_000},
            "cline": {"command": "x", "timeout": 30, "disabled": False},
            "copilot": {"type": "local", "command": "x", "tools": ["read", "list"]},
            "all": {"type": "local", "command": "x", "tools": ["*"]},
        },
        "servers": {
            "code": {
                "type": "stdio",
                "command": "${userHome}/bin/s",
                "cwd": "${workspaceFolder}/sub",
                "envFile": "${workspaceFolder}/project.env",
                "env": {"B": "${workspaceFolderBasename}"},
            },
            "web": {"type": "http", "url": "https://v.example/mcp"},
        },
    }
    (tmp_path / ".mcp.json").write_text(json.dumps(text))
    env = {"KEY": "s3cret", "HOME": "/home/ann"}
    found = load_mcp_json(tmp_path / ".mcp.json", env=env)
    assert (found.warnings, found.left_out) == ((), ())
    assert {spec.name: spec for spec in found.servers} == {
        spec.name: spec
        for spec in (
            ServerSpec(name="claude", command=("npx", "-y", "s"), cwd=tmp_path),
            ServerSpec(
                name="cursor",
                command=("node", f"{tmp_path}/s.js", "--port", "8080", "true"),
                env={"KEY": Secret("s3cret"), "N": Secret("7"), "ON": Secret("true")},
                cwd=tmp_path,
            ),
            ServerSpec(
                name="windsurf",
                url="https://w.example/mcp",
                headers={"Authorization": Secret("Bearer s3cret")},
            ),
            ServerSpec(name="gemini", url="https://g.example/mcp", timeout=30.0),
            ServerSpec(name="cline", command=("x",), timeout=30.0, cwd=tmp_path),
            ServerSpec(
                name="copilot", command=("x",), allow=("read", "list"), cwd=tmp_path
            ),
            ServerSpec(name="all", command=("x",), cwd=tmp_path),
            ServerSpec(
                name="code",
                command=("/home/ann/bin/s",),
                cwd=tmp_path / "sub",
                env={"A": Secret("1"), "B": Secret(tmp_path.name)},
            ),
            ServerSpec(name="web", url="https://v.example/mcp"),
        )
    }


def test_the_folder_of_the_file_stays_one_word_whatever_is_in_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "my ${HOME} games"
    folder.mkdir()
    found = parse_mcp_json(
        {"mcpServers": {"a": {"command": "${workspaceFolder}/s --x"}}},
        source=folder / ".mcp.json",
        env={},
    )
    (spec,) = found.servers
    assert spec.command == (f"{folder}/s", "--x")


def test_an_env_file_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    found = parse_mcp_json(
        {"servers": {"a": {"command": "x", "envFile": "gone.env"}}},
        source=tmp_path / ".mcp.json",
        env={},
    )
    assert [spec.name for spec in found.servers] == ["a"]
    (warning,) = found.warnings
    assert warning == (
        "goes on without its envFile, which cannot be read: No such file or directory"
        " @ .mcp.json.servers.a"
    )


def test_what_means_nothing_to_this_kind_of_server_is_ignored() -> None:
    web = {"url": "https://w.example/mcp", "env": {"A": "1"}, "cwd": ".", "args": []}
    assert server(web) == server({"url": "https://w.example/mcp"})
    assert server({"command": "x", "headers": {}, "url": None}).command == ("x",)
    both = {"type": "stdio", "command": "x", "url": "https://w.example/mcp"}
    assert server(both) == server({"command": "x"})


@pytest.mark.parametrize("key", ["alwaysAllow", "autoApprove"])
def test_another_programs_approvals_approve_nothing_here(key: str) -> None:
    found = shared({"a": {"command": "x", key: ["write"]}})
    (spec,) = found.servers
    assert (spec.allow, spec.tools) == ((), {})
    (warning,) = found.warnings
    assert warning == (
        f"{key} is for another program and approves nothing here; trust.allow_tools"
        " does @ .mcp.json.mcpServers.a"
    )
    assert shared({"a": {"command": "x", key: []}}).warnings == ()


def test_it_cannot_let_a_tool_be_called_unasked_or_twice() -> None:
    wipe = {
        "probe": {"path": "notes"},
        "expose_as": "roll",
        "read_only": True,
        "open_world": False,
        "idempotent": True,
        "min_tier": "standard",
    }
    strict = {"read_only": False, "open_world": True, "idempotent": False}
    tools = {"wipe": wipe, "look": {"probe": {}}, "ask": strict}
    found = shared({"w": {"command": "x", "tools": tools}})
    (spec,) = found.servers
    assert spec.tools == {
        "wipe": ToolOverride(min_tier=Tier.STANDARD),
        "look": ToolOverride(),
        "ask": ToolOverride(read_only=False, open_world=True, idempotent=False),
    }
    rest = (
        "which counts only in the configuration itself, under mcp.servers"
        " @ .mcp.json.mcpServers.w"
    )
    every = "probe, expose_as, read_only, open_world, idempotent"
    assert found.warnings == (
        f"tools.wipe says {every}, {rest}",
        f"tools.look says probe, {rest}",
    )


def test_a_digest_changes_with_what_is_started_and_with_nothing_else(
    tmp_path: Path,
) -> None:
    def digest(**more: Any) -> str:
        data = {"mcpServers": {"a": {"command": "x", **more}}}
        found = parse_mcp_json(data, source=tmp_path / ".mcp.json", env={"V": "v"})
        (entry,) = found.entries
        return entry.digest

    plain = digest()
    assert digest(disabled=False, icon="x", autoApprove=["read"]) == plain
    different = [digest(args=["-v"]), digest(env={"A": "1"}), digest(cwd="sub")]
    (tmp_path / "e").write_text("A=1")
    different.append(digest(envFile="e"))
    (tmp_path / "e").write_text("NODE_OPTIONS=--require ./evil.js")
    different.append(digest(envFile="e"))
    assert len({plain, *different}) == 6


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "expected a mapping, got a list @ .mcp.json"),
        ('{"mcpServers": []}', "expected a mapping, got a list @ .mcp.json.mcpServers"),
        ("{", "is not JSON: "),
        ("", "expected a mapping, got nothing @ .mcp.json"),
        ('{"mcpServers": {"a": 1, "a": 2}}', "key 'a' is there twice @ .mcp.json"),
    ],
)
def test_a_text_that_is_no_such_file_says_so(
    tmp_path: Path, text: str, problem: str
) -> None:
    (tmp_path / ".mcp.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_mcp_json(tmp_path / ".mcp.json", env={})
    (only,) = caught.value.problems
    assert only.startswith(problem)


def test_no_servers_at_all_are_none() -> None:
    assert shared({}).servers == ()
    assert parse_mcp_json({}, source=SOURCE, env={}).servers == ()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
    ),
    max_leaves=12,
)
_KEYS = ("command", "args", "env", "url", "headers", "type", "cwd", "disabled", "x")
_ENTRY = st.dictionaries(
    st.sampled_from(
        [
            "command",
            "args",
            "env",
            "url",
            "headers",
            "type",
            "transport",
            "cwd",
            "disabled",
            "auth",
            "serverUrl",
            "envFile",
            "enabled",
            "timeout",
            "tools",
            "autoApprove",
            "x",
        ]
    ),
    _JSON
    | st.sampled_from(
        ["x", "http", "sse", "https://w.example/mcp", "${X}", "${env:X}"]
    ),
)


@given(st.dictionaries(st.text(max_size=8), _ENTRY | _JSON, max_size=3) | _JSON)
def test_any_data_is_servers_or_left_out_with_places(entries: Any) -> None:
    if not isinstance(entries, dict):
        with pytest.raises(ConfigError, match=r" @ \.mcp\.json\.mcpServers$"):
            shared(entries)
    else:
        found = shared(entries)
        assert len(found.servers) + len(found.left_out) == len(entries)
        assert all(" @ .mcp.json" in left.why for left in found.left_out)


def test_no_problem_and_no_warning_shows_a_secret() -> None:
    secret = "s3cret-value"
    entry = {"env": {"A": [secret]}, "headers": {"B": {"x": secret}}, "url": secret}
    entries = {"a": entry, "b": {"command": [secret, 1]}}
    assert secret not in repr(left_out(entries))
    env = {"A": secret, "PATH_TO": "${X:-y}"}
    found = shared({"a": {"command": "x", "args": ["--token", secret], "env": env}})
    assert secret not in repr(found.entries[0].target)
    assert secret not in repr(found.warnings)


def test_what_is_asked_about_says_where_it_runs_and_who_gets_which_secret(
    tmp_path: Path,
) -> None:
    oauth = {
        "client_id": "me",
        "client_secret": "${KEY}",
        "token_url": "https://u:p@steal.example/token",
    }
    entries = {
        "a": {"url": "https://w.example", "auth": {"token": "Bearer ${KEY}"}},
        "b": {"url": "https://w.example", "auth": {"oauth": oauth}},
        "c": {"command": "uv", "cwd": "../my notes", "envFile": "../.env"},
        "d": {"url": "https://w.example", "auth": {"token": "s3cret"}},
    }
    data = {"mcpServers": entries}
    found = parse_mcp_json(data, source=tmp_path / ".mcp.json", env={"KEY": "k"})
    assert {x.name: x.target.splitlines() for x in found.entries} == {
        "a": ["https://w.example", "auth.token: Bearer ${KEY}"],
        "b": [
            "https://w.example",
            "auth.oauth.client_id: [secret]",
            "auth.oauth.client_secret: ${KEY}",
            "auth.oauth.token_url: https://[secret]@steal.example/token",
        ],
        "c": ["uv", "cwd: '../my notes'", "envFile: ../.env"],
        "d": ["https://w.example", "auth.token: [secret]"],
    }


# ---------------------------------------------------------------- which file


def test_it_is_found_from_the_configurations_folder_upward(tmp_path: Path) -> None:
    config = project(tmp_path, {"far": {"command": "x"}})  # N7
    assert find_mcp_json(config.parent) == tmp_path / ".mcp.json"
    nearer = tmp_path / "games" / ".mcp.json"
    nearer.write_text("{}")
    assert find_mcp_json(config.parent) == nearer
    nearer.unlink()
    nearer.mkdir()  # a folder of that name is none
    assert find_mcp_json(config.parent) == tmp_path / ".mcp.json"


@pytest.mark.parametrize("kind", ["a folder", "a file, as in a worktree"])
def test_it_is_not_looked_for_beyond_the_repository(tmp_path: Path, kind: str) -> None:
    (tmp_path / ".mcp.json").write_text("{}")
    inner = tmp_path / "inner" / "deep"
    inner.mkdir(parents=True)
    assert find_mcp_json(inner) == tmp_path / ".mcp.json"
    mark = tmp_path / "inner" / ".git"
    if kind == "a folder":
        mark.mkdir()
    else:
        mark.write_text("gitdir: elsewhere")
    assert find_mcp_json(inner) is None
    # A new one belongs where the repository is (N14).
    assert home_of_mcp_json(inner) == tmp_path / "inner" / ".mcp.json"
    (inner / ".mcp.json").write_text("{}")
    assert home_of_mcp_json(inner) == inner / ".mcp.json"


def test_one_of_somebody_elses_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = project(tmp_path, {"evil": {"command": "x"}})
    found = tmp_path / ".mcp.json"
    assert stranger_of(found, config) is None
    real = Path.stat

    def stat(path: Path, **more: Any) -> Any:
        seen = real(path, **more)
        if path != found:
            return seen
        return os.stat_result((*seen[:4], seen.st_uid + 4242, *seen[5:]))

    monkeypatch.setattr(Path, "stat", stat)
    read, told = loaded(config)
    assert read.mcp.servers == ()
    assert told == [f"has another owner than table.json, so it is not read @ {found}"]


# -------------------------------------------------------------------- merging


def test_the_configuration_goes_first_and_says_so(tmp_path: Path) -> None:  # N9
    config = project(
        tmp_path,
        {"both": {"command": "theirs"}, "theirs": {"command": "x"}},
        servers={"both": {"command": "ours"}, "ours": {"command": "x"}},
    )
    read, told = loaded(config)
    assert [(spec.name, spec.command) for spec in read.mcp.servers] == [
        ("both", ("ours",)),
        ("ours", ("x",)),
    ]
    assert [entry.name for entry in read.mcp.shared] == ["theirs"]
    assert told == [
        "the configuration has it, too, and goes first @ .mcp.json.mcpServers.both"
    ]


def test_what_is_overridden_need_not_be_right(tmp_path: Path) -> None:  # N9
    config = project(
        tmp_path,
        {"both": {"url": "${NOPE}"}},
        servers={"both": {"command": "ours"}},
    )
    (only,) = loaded(config)[0].mcp.servers
    assert only.command == ("ours",)


def test_its_servers_get_the_defaults_of_the_configuration(tmp_path: Path) -> None:
    config = project(  # A27, D1
        tmp_path,
        {"a": {"command": "x"}, "b": {"command": "x", "estimated_duration_ms": 9}},
        servers={"c": {"command": "x"}},
        defaults={"timeout_ms": 1234, "estimated_duration_ms": 50},
    )
    mcp = loaded(config)[0].mcp
    a, b = (entry.spec for entry in mcp.shared)
    assert (a.timeout, a.start_timeout) == (1.234, McpDefaults().start_timeout)
    assert a.cwd == tmp_path
    (c,) = mcp.servers
    estimates = [spec.estimated_duration for spec in (a, b, c)]
    assert estimates == [0.05, 0.009, 0.05]


def test_switched_off_only_its_names_matter(tmp_path: Path) -> None:  # A21
    config = project(tmp_path, {"a": "nonsense", "b": {"url": "${X}"}}, enabled=False)
    read, told = loaded(config)
    assert (read.mcp.servers, read.mcp.shared, told) == ((), (), [])
    assert [(x.name, x.switched_off) for x in read.mcp.left_out] == [
        ("a", True),
        ("b", True),
    ]
    config.write_text("{}")
    assert load_config(config, env={}, mcp_json=False) == Config()
    assert [x.switched_off for x in loaded(config)[0].mcp.left_out] == [False, False]


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 1}', "\xff"])
def test_a_file_that_is_none_is_one_warning(tmp_path: Path, text: str) -> None:
    config = project(tmp_path)
    (tmp_path / ".mcp.json").write_bytes(text.encode("latin-1"))
    read, told = loaded(config)
    (left,) = read.mcp.left_out
    assert (left.name, left.switched_off) == (None, False)
    (warning,) = told
    assert warning.startswith("no server of that file is used: ")
    assert " @ .mcp.json" in warning


def test_a_server_named_like_a_group_of_ours_is_left_out(tmp_path: Path) -> None:
    # It ended the start; `mcp add files` is the example of every documentation.
    config = project(tmp_path, {"files": {"command": "x"}, "web": {"command": "x"}})
    assert [x.name for x in loaded(config)[0].mcp.shared] == ["files", "web"]
    notes = tmp_path / "notes"
    notes.mkdir()
    config.write_text(json.dumps({"builtin": {"files": {"base": str(notes)}}}))
    read, told = loaded(config)
    assert [x.name for x in read.mcp.shared] == ["web"]
    (warning,) = told
    assert warning == (
        "'files' is left out: its name is that of a group of built-in tools: rename it,"
        " or switch off builtin.files @ .mcp.json.mcpServers.files"
    )


def test_only_the_problems_of_our_own_file_are_errors(tmp_path: Path) -> None:
    config = project(tmp_path, {"a": {"command": 1}}, enabeld=True)
    told: list[str] = []
    with pytest.raises(ConfigError) as caught:
        load_config(config, env={}, warn=told.append)
    assert caught.value.problems == (
        "unknown key 'enabeld', did you mean 'enabled'? @ table.json.mcp",
    )
    (warning,) = told
    assert warning == (
        "'a' is left out: expected text or a list, got a number"
        " @ .mcp.json.mcpServers.a.command"
    )


# ------------------------------------------------------------------ admission


def test_nothing_is_started_that_nobody_agreed_to(tmp_path: Path) -> None:  # D14a
    config = project(
        tmp_path,
        {"yes": {"command": "x"}, "no": {"command": "y"}},
        servers={"ours": {"command": "z"}},
    )
    read = loaded(config)[0]
    assert [spec.name for spec in read.mcp.servers] == ["ours"]
    asked: list[tuple[str, str]] = []

    def approve(entry: SharedServer) -> bool:
        asked.append((entry.name, entry.target))
        return entry.name == "yes"

    some, warnings = admitted(read, approve, remedy="ask Ann")
    assert asked == [("yes", "x"), ("no", "y")]
    assert [spec.name for spec in some.mcp.servers] == ["ours", "yes"]
    assert warnings == (
        "'no' is left out: it is not agreed to yet: ask Ann @ .mcp.json",
    )
    everything, warnings = admitted(read, True, remedy="")
    assert [spec.name for spec in everything.mcp.servers] == ["ours", "yes", "no"]
    assert warnings == ()
    assert admitted(everything, False, remedy="") == (everything, ())


def test_a_text_alone_looks_at_no_other_file(tmp_path: Path) -> None:
    config = project(tmp_path, {"a": "nonsense"})
    assert load_text("{}", source=config, env={}) == Config()


# ------------------------------------------------------------------- examples


def test_the_examples_load_and_say_the_same(tmp_path: Path) -> None:  # N5 to N8
    env = {"WORLD_SEARCH_TOKEN": "t"}
    told: list[str] = []
    ours = load_config(
        CONFIG / "mcp.example.toml", env=env, warn=told.append, mcp_json=False
    )
    theirs = load_mcp_json(CONFIG / "mcp.example.json", env=env)
    assert (told, theirs.warnings) == ([], ())
    assert theirs.servers == ours.mcp.servers
    assert [spec.name for spec in theirs.servers] == ["files", "world-search"]


# ------------------------------------------------------------------- contexts

CONTEXT = {
    "provider": "openai_realtime",
    "greeting": "Hi!",
    "prompt": "You are a customer support agent.",
    "tools": ["transfer", "mcp_aviation_atis_get_atis"],
}


def contexts(**more: Any) -> tuple[Config, list[str]]:
    told: list[str] = []
    source = Path("/table/ava.json")
    config = load_text(json.dumps(more), source=source, env={}, warn=told.append)
    return config, told


def test_the_seeds_contexts_are_agents() -> None:  # A30, A31
    config, told = contexts(
        contexts={"support": CONTEXT, "quiet": None or {}},
        npcs=[{"name": "Bo"}],
        tools={"dice.roll": {"min_tier": "fast"}},
    )
    bo, support, quiet = config.npcs
    agent = attrs.evolve(bo, budget_tier=Tier.DEEP, select_tier=False)
    assert support == attrs.evolve(
        agent,
        name="support",
        context_name="support",
        greeting="Hi!",
        system_prompt="You are a customer support agent.",
        tools=("transfer", "mcp_aviation_atis_get_atis"),
    )
    assert quiet == attrs.evolve(
        agent,
        name="quiet",
        context_name="quiet",
        system_prompt=quiet.system_prompt,
    )
    assert quiet.system_prompt.startswith("You are the assistant quiet. ")
    assert set(config.tools) == {"dice.roll"}  # another section, another thing
    (ignored,) = told
    assert ignored == (
        "provider is ignored: the model of llm speaks; s2s.provider:"
        " openai_realtime would make it speak by itself @ ava.json.contexts.support"
    )


def test_a_context_chooses_what_an_npc_may_choose() -> None:  # A30
    entry = {
        "system_prompt": "You sell boats.",
        "engine": "sentence_cascade",
        "model": "a-larger-one",
        "budget_tier": "standard",
        "select_tier": True,
        "trust": {"mode": "full"},
        "fallback": ["One moment."],
        "voice": {"language": "en-GB"},
    }
    config, told = contexts(contexts={"boats": entry})
    (boats,) = config.npcs
    assert not told
    assert (boats.system_prompt, boats.personality) == ("You sell boats.", "")
    assert (boats.engine, boats.model) == (Engine.SENTENCE_CASCADE, "a-larger-one")
    assert (boats.budget_tier, boats.select_tier) == (Tier.STANDARD, True)
    assert boats.trust is not None
    assert boats.trust.mode is TrustMode.FULL
    assert boats.fallback == ("One moment.",)
    assert boats.voice.language == "en-GB"


@pytest.mark.parametrize(
    ("said", "configured"),
    [
        ("openai_realtime", "openai_realtime"),
        ("gemini_live", "gemini_live"),
        ("google_live", "gemini_live"),
    ],
)
def test_the_provider_of_a_context_is_the_model_that_speaks_by_itself(
    said: str, configured: str
) -> None:  # A30
    s2s = {"provider": configured, "model": "m", "api_key": "k"}
    config, told = contexts(contexts={"a": {"provider": said}}, s2s=s2s)
    assert (config.npcs[0].engine, told) == (Engine.S2S, [])
    stated = {"provider": said, "engine": "cascaded"}
    config, _ = contexts(contexts={"a": stated}, s2s=s2s)
    assert config.npcs[0].engine is Engine.CASCADED


def test_the_provider_of_a_context_may_be_that_of_all() -> None:  # A30
    llm = {"provider": "anthropic", "model": "m"}
    config, told = contexts(contexts={"a": {"provider": "anthropic"}}, llm=llm)
    assert (config.npcs[0].engine, told) == (Engine.CASCADED, [])


def test_a_file_with_contexts_names_tools_as_the_seed_does() -> None:  # A5, A30
    server = {"servers": {"s": {"command": "x"}}}
    config, _ = contexts(contexts={"a": {}}, mcp=server)
    assert config.mcp.naming is NamingStyle.SINGLE
    assert [spec.name for spec in config.mcp.servers] == ["s"]
    stated, _ = contexts(contexts={"a": {}}, mcp={"naming": "double", **server})
    assert stated.mcp.naming is NamingStyle.DOUBLE
    without, _ = contexts(npcs=[{"name": "Bo"}], mcp=server)
    assert without.mcp.naming is NamingStyle.DOUBLE
    with pytest.raises(ConfigError, match=r"expected a mapping, got .* ava.json.mcp"):
        contexts(contexts={"a": {}}, mcp=7)


def test_what_is_wrong_with_a_context_has_its_place() -> None:  # A30
    with pytest.raises(ConfigError) as caught:
        contexts(
            contexts={"a": {"prompt": 1}, "b": {"promt": "x"}, "c": {"tools": [""]}},
            npcs=[{"name": "Bo"}],
        )
    assert caught.value.problems == (
        "expected text, got 1; put it in quotes @ ava.json.contexts.a.prompt",
        "unknown key 'promt', did you mean 'prompt'? @ ava.json.contexts.b",
        "must not be empty @ ava.json.contexts.c.tools[0]",
    )
    with pytest.raises(ConfigError, match=r"are the same: give one @ .*contexts.a$"):
        contexts(contexts={"a": {"prompt": "x", "system_prompt": "y"}})
    with pytest.raises(ConfigError) as caught:
        contexts(contexts={"BO": {}, "C": {}, "c": {}, " ": {}}, npcs=[{"name": "Bo"}])
    assert caught.value.problems == (
        "the name 'BO' is taken @ ava.json.contexts.BO",
        "the name 'c' is taken @ ava.json.contexts.c",
        "must not be empty @ ava.json.contexts[' ']",
    )
