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
from glyphoxa_trio.secret import Secret

SOURCE = Path("/table/.mcp.json")
CONFIG = Path(__file__).parents[2] / "config"


def shared(entries: Any, env: Mapping[str, str] | None = None) -> Shared:
    return parse_mcp_json({"mcpServers": entries}, source=SOURCE, env=env or {})


def server(entry: Any, **env: str) -> ServerSpec:
    found = shared({"one": entry}, env)
    assert found.warnings == ()
    (spec,) = found.servers
    return spec


def problems(entries: Any, **env: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        shared(entries, env)
    return caught.value.problems


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


@pytest.mark.parametrize("kind", ["http", "streamable-http"])
def test_a_type_is_a_transport(kind: str) -> None:  # N8, G27
    url = "https://w.example/mcp"
    assert server({"type": kind, "url": url}) == server({"url": url})
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


def test_what_others_write_there_is_a_warning_and_the_server_starts() -> None:
    found = parse_mcp_json(
        {
            "inputs": [],
            "mcpServers": {"a": {"command": "x", "autoApprove": [], "comand": 1}},
        },
        source=SOURCE,
        env={},
    )
    assert [spec.name for spec in found.servers] == ["a"]
    place = ".mcp.json.mcpServers.a"
    assert found.warnings == (
        "unknown key 'inputs' is ignored @ .mcp.json",
        f"unknown key 'autoApprove'; it is ignored @ {place}",
        f"unknown key 'comand', did you mean 'command'?; it is ignored @ {place}",
    )


def test_a_disabled_server_is_nobodys_trouble() -> None:
    # Not even its variable has to be set.
    assert shared({"a": {"disabled": True, "url": "${NOPE}"}}).servers == ()
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
    sse, name = found.warnings
    assert sse == (
        "is left out: the transport sse is not supported, streamable-http is"
        " @ .mcp.json.mcpServers.old"
    )
    assert name.startswith("is left out: its name must be 1 to 64 letters")
    assert name.endswith(" @ .mcp.json.mcpServers['io.github/x']")


def test_wrong_types_and_contradictions_are_errors_all_at_once() -> None:
    found = problems(
        {
            "a": {"command": "x", "args": "-y", "env": {"K": 1}, "autoApprove": 1},
            "b": {"command": "x", "url": "https://w.example/mcp"},
            "c": {"type": "ws", "url": "https://w.example/mcp"},
            "d": "x",
            "e": {"command": "x", "disabled": "yes"},
            "f": {},
            "g": {"type": "http", "transport": "stdio", "command": "x"},
            "h": {"name": "h"},
            "i": {"url": "https://${NOPE}/mcp"},
        }
    )
    both = "both a command and a url: give the one it is reached by"
    neither = "needs a command (stdio) or a url (streamable-http)"
    assert {place: what for what, _, place in (x.partition(" @ ") for x in found)} == {
        ".mcp.json.mcpServers.a.args": "expected a list, got text",
        ".mcp.json.mcpServers.a.env.K": "expected text in quotes, got a number",
        ".mcp.json.mcpServers.b": both,
        ".mcp.json.mcpServers.c.type": (
            "expected one of stdio, streamable-http, got 'ws'"
        ),
        ".mcp.json.mcpServers.d": "expected a mapping, got text",
        ".mcp.json.mcpServers.e.disabled": "expected true or false, got 'yes'",
        ".mcp.json.mcpServers.f": neither,
        ".mcp.json.mcpServers.g": "type and transport are the same thing: give one",
        ".mcp.json.mcpServers.h": neither,
        ".mcp.json.mcpServers.i.url": "environment variable NOPE is not set",
    }
    named = "the key is its name: leave out 'name' @ .mcp.json.mcpServers.h"
    assert named in found  # beside what else is wrong with it
    assert len(found) == 11


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
            "x",
        ]
    ),
    _JSON | st.sampled_from(["x", "http", "sse", "https://w.example/mcp", "${X}"]),
)


@given(st.dictionaries(st.text(max_size=8), _ENTRY | _JSON, max_size=3) | _JSON)
def test_any_data_is_servers_or_an_error_with_places(entries: Any) -> None:
    try:
        found = shared(entries)
    except ConfigError as error:
        placed = [" @ .mcp.json" in problem for problem in error.problems]
    else:
        placed = [len(found.servers) <= len(entries)]
    assert all(placed)


def test_no_problem_and_no_warning_shows_a_secret() -> None:
    secret = "s3cret-value"
    entry = {"env": {"A": [secret]}, "headers": {"B": {"x": secret}}, "url": secret}
    assert secret not in "\n".join(
        problems({"a": entry, "b": {"command": [secret, 1]}})
    )


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
    assert told == [
        f"belongs to somebody else than table.json, so it is not read @ {found}"
    ]


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
        ("theirs", ("x",)),
    ]
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
    config = project(  # A27
        tmp_path, {"a": {"command": "x"}}, defaults={"timeout_ms": 1234}
    )
    (spec,) = loaded(config)[0].mcp.servers
    assert (spec.timeout, spec.start_timeout) == (1.234, McpDefaults().start_timeout)
    assert spec.cwd == tmp_path


def test_switched_off_it_is_not_even_read(tmp_path: Path) -> None:  # A21
    config = project(tmp_path, {"a": "nonsense"}, enabled=False)
    assert loaded(config)[0].mcp.servers == ()
    config.write_text("{}")
    assert load_config(config, env={}, mcp_json=False) == Config()
    with pytest.raises(ConfigError):
        load_config(config, env={})


def test_the_problems_of_both_files_come_at_once(tmp_path: Path) -> None:
    config = project(tmp_path, {"a": {"command": 1}}, enabeld=True)
    with pytest.raises(ConfigError) as caught:
        load_config(config, env={})
    assert caught.value.problems == (
        "unknown key 'enabeld', did you mean 'enabled'? @ table.json.mcp",
        "expected text or a list, got a number @ .mcp.json.mcpServers.a.command",
    )


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


def test_the_seeds_contexts_are_npcs() -> None:  # A30, A31
    config, told = contexts(
        contexts={"support": CONTEXT, "quiet": None or {}},
        npcs=[{"name": "Bo"}],
        tools={"dice.roll": {"min_tier": "fast"}},
    )
    bo, support, quiet = config.npcs
    assert support == attrs.evolve(
        bo,
        name="support",
        greeting="Hi!",
        personality="You are a customer support agent.",
        tools=("transfer", "mcp_aviation_atis_get_atis"),
    )
    assert quiet == attrs.evolve(bo, name="quiet")
    assert set(config.tools) == {"dice.roll"}  # another section, another thing
    (ignored,) = told
    assert ignored == (
        "provider is ignored: who speaks is the model of llm"
        " @ ava.json.contexts.support"
    )


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
    with pytest.raises(ConfigError) as caught:
        contexts(contexts={"BO": {}, "C": {}, "c": {}, " ": {}}, npcs=[{"name": "Bo"}])
    assert caught.value.problems == (
        "the name 'BO' is taken @ ava.json.contexts.BO",
        "the name 'c' is taken @ ava.json.contexts.c",
        "must not be empty @ ava.json.contexts[' ']",
    )
