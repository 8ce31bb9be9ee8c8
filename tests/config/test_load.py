"""Files become a `Config`, or every problem in them at once, each with its place."""

from __future__ import annotations

import json
import string
import subprocess
import sys
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.config import (
    Config,
    ConfigError,
    LlmConfig,
    McpConfig,
    Provider,
    RestartConfig,
    SelectorConfig,
    ServerSpec,
    ToolOverride,
    Transport,
    TrustConfig,
    load_config,
    load_text,
    parse,
)
from glyphoxa_trio.config.layout import layout
from glyphoxa_trio.config.voices import (
    SpeechDetector,
    TurnTakingConfig,
    VoiceConfig,
)
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.definition import OnInterrupt, ToolDefinition
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.tier import Tier, TierLimits

SOURCE = PurePath("/table/tavern.yaml")
DICE = {"name": "dice", "command": "dice-server -q"}
WORLD = {"name": "world", "url": "https://world.example/mcp"}


def read(data: Any, **env: str) -> Config:
    return parse(data, source=SOURCE, env=env)


def problems(data: Any, **env: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(data, **env)
    return caught.value.problems


def servers(*entries: Any, **mcp: Any) -> dict[str, Any]:
    return {"mcp": {"servers": list(entries), **mcp}}


def server(**entry: Any) -> ServerSpec:
    return read(servers({"name": "one"} | entry)).mcp.servers[0]


# ------------------------------------------------------------------- shapes


def test_an_empty_mapping_is_the_default_configuration() -> None:
    assert read({}) == Config()


def test_the_seeds_list_of_servers_loads() -> None:  # G27, A23, A25
    text = """
    mcp:
      servers:
        - name: dice-extended
          transport: stdio
          command: /usr/local/bin/mcp-dice-server --config /etc/dice.json
          env:
            DICE_MAX_SIDES: "100"
        - name: premium-tools
          transport: streamable-http
          url: https://premium.example.com/mcp
          auth:
            token: "Bearer ${TOKEN}"
    """
    config = load_text(text, source=SOURCE, env={"TOKEN": "s3cret"})
    assert config.mcp.servers == (
        ServerSpec(
            name="dice-extended",
            command=("/usr/local/bin/mcp-dice-server", "--config", "/etc/dice.json"),
            env={"DICE_MAX_SIDES": Secret("100")},
            cwd=Path("/table"),
        ),
        ServerSpec(
            name="premium-tools",
            url="https://premium.example.com/mcp",
            token=Secret("s3cret"),
        ),
    )


def test_the_seeds_map_of_servers_loads() -> None:  # A21 to A28, A31
    text = """
    mcp:
      enabled: true
      servers:
        aviation_atis:
          transport: stdio
          command: ["python3", "-m", "atis", "--config", "/app/atis.yaml"]
          restart: {enabled: true, max_restarts: 5, backoff_ms: 1000}
          defaults: {timeout_ms: 9000}
          tools:
            - name: get_atis
              expose_as: mcp_aviation_atis_get_atis
              description: "Get current ATIS for an airport"
              speech_field: atis_text
    """
    (atis,) = load_text(text, source=SOURCE, env={}).mcp.servers
    assert atis == ServerSpec(
        name="aviation_atis",
        command=("python3", "-m", "atis", "--config", "/app/atis.yaml"),
        restart=RestartConfig(),
        timeout=9.0,
        cwd=Path("/table"),
        tools={
            "get_atis": ToolOverride(
                expose_as="mcp_aviation_atis_get_atis",
                description="Get current ATIS for an airport",
                speech_field="atis_text",
            )
        },
    )


def test_the_seeds_toml_loads() -> None:  # N5, N6, N32
    text = """
    [mcp.servers.filesystem]
    command = "npx"
    args = ["-y", "server-filesystem", "/home/user/projects"]

    [mcp.servers.remote-api]
    url = "https://mcp.example.com"
    headers = { Authorization = "Bearer your-token" }

    [agent.trust]
    mode = "limited"
    allow_tools = ["mcp__filesystem__read_file"]
    """
    config = load_text(text, source=PurePath("config.toml"), env={})
    files, remote = config.mcp.servers
    assert files.command == ("npx", "-y", "server-filesystem", "/home/user/projects")
    assert remote.transport is Transport.STREAMABLE_HTTP
    assert remote.headers == {"Authorization": Secret("Bearer your-token")}
    assert config.trust == TrustConfig(allow_tools=("mcp__filesystem__read_file",))


def test_yaml_toml_and_json_say_the_same() -> None:
    data = {"turn": {"silence_ms": 250}, "mcp": {"servers": {"a": {"command": "b c"}}}}
    toml = '[turn]\nsilence_ms = 250\n[mcp.servers.a]\ncommand = "b c"\n'
    expected = parse(data, source=PurePath("x.json"), env={})
    for name, text in {"x.json": json.dumps(data), "x.yml": json.dumps(data)}.items():
        assert load_text(text, source=PurePath(name), env={}) == expected
    assert load_text(toml, source=PurePath("x.TOML"), env={}) == expected


def test_an_npc_loads_whole() -> None:  # G30, D12b, A30
    entry = {
        "name": "Greymantle the Sage",
        "system_prompt": "You keep books.",
        "personality": "Old.",
        "identity": ["A sage."],
        "knowledge_scope": ["History."],
        "secret_knowledge": ["The ring is forged."],
        "behaviour_rules": ["Stays."],
        "greeting": "Yes?",
        "engine": "sentence_cascade",
        "cascade_mode": "always",
        "fast_model": "small",
        "budget_tier": "standard",
        "select_tier": False,
        "tools": ["roll", "memory.*"],
        "prompts": ["archive.recap", "world"],
        "trust": {"mode": "full", "allow_tools": ["memory.*"]},
        "fallback": ["Hm."],
        "model": "large",
        "s2s_model": "gemini_live:other",
        "voice": {
            "name": "marin",
            "language": "en-GB",
            "speed": 0.9,
            "pronunciation": {"Ysolde": "ee-ZOLD"},
            "extra": {"style": ["low", {"pace": "${PACE}"}]},
        },
    }
    (npc,) = read({"npcs": [entry]}, PACE="slow").npcs
    assert attrs.asdict(npc, recurse=False) == entry | {
        "identity": ("A sage.",),
        "knowledge_scope": ("History.",),
        "secret_knowledge": ("The ring is forged.",),
        "behaviour_rules": ("Stays.",),
        "context_name": "",
        "budget_tier": Tier.STANDARD,
        "tools": ("roll", "memory.*"),
        "prompts": ("archive.recap", "world"),
        "trust": TrustConfig(mode=TrustMode.FULL, allow_tools=("memory.*",)),
        "fallback": ("Hm.",),
        "voice": VoiceConfig(
            name="marin",
            language="en-GB",
            speed=0.9,
            pronunciation={"Ysolde": "ee-ZOLD"},
            extra={"style": ["low", {"pace": "slow"}]},
        ),
    }


def test_settings_arrive_in_seconds() -> None:  # G19, D1, D7, D8
    config = read(
        {
            "tiers": {"fast": {"threshold_ms": 300, "ceiling_ms": 400.5}},
            "selector": {"min_deep_interval_ms": 0, "deep_keywords": ["ponder"]},
            "calibration": {"expiry_hours": 2, "every_minutes": 1.5, "tier_by": "p95"},
            "mcp": {"naming": "bare"},
            "tools": {"dice.roll": {"cacheable_seconds": 2, "on_interrupt": "cancel"}},
        }
    )
    assert config.tiers == TierLimits(fast_threshold=0.3, fast_ceiling=0.4005)
    assert config.selector == SelectorConfig(
        min_deep_interval=0.0, deep_keywords=("ponder",)
    )
    assert config.selector.standard_keywords is None
    assert config.calibration.expiry == 7200.0
    assert config.calibration.tier_by is TierBy.P95
    assert config.calibration.every == 90.0
    assert config.mcp.naming is NamingStyle.BARE
    assert config.tools["dice.roll"] == ToolOverride(
        cacheable=2.0, on_interrupt=OnInterrupt.CANCEL
    )


def test_a_key_with_everything_below_it_commented_out_is_the_default() -> None:
    text = "npcs:\nmcp:\n  servers:\nturn:\n  fallback:\ntools:\nbuiltin:\n"
    assert load_text(text, source=SOURCE, env={}) == Config()


def test_a_files_group_is_served_only_with_a_base() -> None:
    assert not read({}).builtin.files.served
    given: dict[str, Any] = {
        "builtin": {"files": {"base": "notes"}, "dice": {"enabled": False}}
    }
    builtin = read(given).builtin
    assert (builtin.files.served, builtin.dice.enabled) == (True, False)
    given["builtin"]["files"]["enabled"] = False
    assert not read(given).builtin.files.served


# ------------------------------------------------------------------- servers


def test_a_command_is_split_like_a_shell_does() -> None:  # D14
    assert server(command="run 'two words' \"and more\" a\\ b").command == (
        "run",
        "two words",
        "and more",
        "a b",
    )


def test_a_variable_in_a_command_stays_one_word() -> None:
    entry = {"name": "a", "command": "run ${DIR}/x", "args": ["${DIR}"]}
    (spec,) = read(servers(entry), DIR="/my $HOME; files").mcp.servers
    assert spec.command == ("run", "/my $HOME; files/x", "/my $HOME; files")


def test_the_limits_of_a_server_come_from_the_nearest_place() -> None:  # A27
    entries = (
        DICE | {"name": "own", "timeout_ms": 1, "defaults": {"timeout_ms": 2}},
        DICE | {"name": "defaults", "defaults": {"timeout_ms": 2}},
        DICE | {"name": "room"},
    )
    config = read(servers(*entries, defaults={"timeout_ms": 3, "start_timeout_ms": 4}))
    limits = [(spec.timeout, spec.start_timeout) for spec in config.mcp.servers]
    assert limits == [(0.001, 0.004), (0.002, 0.004), (0.003, 0.004)]
    (spec,) = read(servers(DICE)).mcp.servers
    assert (spec.timeout, spec.start_timeout) == (10.0, 10.0)


def test_what_is_said_of_slow_tools_comes_from_the_nearest_place() -> None:
    # A18, A27: seed 003 writes it with the server's defaults
    def slow(ms: float, text: str) -> dict[str, Any]:
        return {"slow_response_threshold_ms": ms, "slow_response_message": text}

    entries = (
        DICE | {"name": "own", "defaults": slow(2, "c"), **slow(1, "b")},
        DICE | {"name": "seed", "defaults": slow(2000, "One moment...")},
        DICE | {"name": "half", "slow_response_message": "d"},
        DICE | {"name": "room"},
        DICE | {"name": "tool", "tools": {"roll": slow(4, "e")}},
    )
    config = read(servers(*entries, defaults=slow(3, "a")))
    stated = [
        (spec.slow_response_threshold, spec.slow_response_message)
        for spec in config.mcp.servers
    ]
    assert stated == [
        (0.001, "b"),
        (2.0, "One moment..."),
        (0.003, "d"),
        (0.003, "a"),
        (0.003, "a"),
    ]
    override = config.mcp.servers[-1].tools["roll"]
    definition = override.applied_to(ToolDefinition(name="roll"))
    assert definition.slow_response_threshold == 0.004
    assert definition.slow_response_message == "e"
    (spec,) = read(servers(DICE)).mcp.servers
    assert (spec.slow_response_threshold, spec.slow_response_message) == (None, None)
    assert problems(servers(DICE | slow(0, ""))) == (
        "must be more than 0 @ tavern.yaml.mcp.servers[0].slow_response_threshold_ms",
        "must not be empty @ tavern.yaml.mcp.servers[0].slow_response_message",
    )


def test_silences_are_settable_and_have_to_be_silences() -> None:
    usual = read({}).turn_taking
    assert (usual.begin, usual.end, usual.interrupt, usual.interrupt_words) == (
        0.15,
        0.6,
        0.0,
        0,
    )
    wanted = {
        "detector": "silero",
        "begin_ms": 90,
        "end_ms": 900,
        "interrupt_ms": 500,
        "interrupt_words": 2,
    }
    found = read({"turn_taking": wanted}).turn_taking
    assert found == TurnTakingConfig(
        detector=SpeechDetector.SILERO,
        begin=0.09,
        end=0.9,
        interrupt=0.5,
        interrupt_words=2,
    )
    assert problems({"turn_taking": {"begin_ms": 5, "end_ms": 60_000}}) == (
        "begin_ms must be 30 to 1000 @ tavern.yaml.turn_taking",
        "end_ms must be 100 to 5000 @ tavern.yaml.turn_taking",
    )
    (unknown,) = problems({"turn_taking": {"detector": "krisp"}})
    assert unknown.startswith("expected one of webrtc, silero, got 'krisp' @ ")
    assert problems({"turn_taking": {"interrupt_words": -1}}) == (
        "must not be negative @ tavern.yaml.turn_taking.interrupt_words",
    )


def test_fillers_have_a_threshold_for_each_tier() -> None:  # D19
    filler = read({"filler": {"thresholds": {"deep_ms": 2500}}}).filler
    assert [filler.thresholds.of(tier) for tier in Tier] == [0.5, 1.0, 2.5]
    assert problems({"filler": {"lines": []}}) == (
        "must not be empty @ tavern.yaml.filler.lines",
    )


def test_relative_paths_start_at_the_file() -> None:
    config = read(
        servers(DICE, DICE | {"name": "b", "cwd": "sub"}, WORLD)
        | {"builtin": {"files": {"base": "n"}, "rules": {"datasets": ["a.json", "/b"]}}}
    )
    assert [spec.cwd for spec in config.mcp.servers] == [
        Path("/table"),
        Path("/table/sub"),
        None,
    ]
    assert config.builtin.files.base == Path("/table/n")
    assert config.builtin.rules.datasets == (Path("/table/a.json"), Path("/b"))


def test_servers_may_differ_by_case_alone() -> None:  # case counts in grants, D13
    assert len(read(servers(DICE, DICE | {"name": "Dice"})).mcp.servers) == 2


@pytest.mark.parametrize("written", ["t0ken", "Bearer t0ken", "bearer  t0ken"])
def test_a_token_may_be_written_with_its_scheme(written: str) -> None:  # G28
    assert server(url="http://h", auth={"token": written}).token == Secret("t0ken")
    assert server(url="http://h", auth={"token": "Bearer ${NONE:-}"}).token is None


def test_http_is_short_for_streamable_http() -> None:
    assert server(url="http://h", transport="http") == server(url="http://h")


def test_a_server_made_in_code_is_held_to_the_same_rules() -> None:
    with pytest.raises(ConfigError, match="needs a command"):
        ServerSpec(name="x")
    with pytest.raises(ValueError, match="http://"):
        ServerSpec(name="x", url="ftp://h")
    assert ServerSpec(name="x", url="http://h").transport == "streamable-http"


# ----------------------------------------------------------------- variables


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${SET}", "x${OTHER}"),  # once, and not again
        ("a ${SET} b", "a x${OTHER} b"),
        ("${UNSET:-else}", "else"),
        ("${EMPTY:-else}", "else"),
        ("${EMPTY}", ""),
        ("${UNSET:-}", ""),
        ("${UNSET:-a:-b}", "a:-b"),
        ("$${SET}", "${SET}"),
        ("$SET $ {SET} }", "$SET $ {SET} }"),
    ],
)
def test_variables_expand_once(written: str, meant: str) -> None:  # A29, G28, D14
    env = {"SET": "x${OTHER}", "EMPTY": ""}
    assert read({"llm": {"extra": {"k": [written]}}}, **env).llm.extra == {"k": [meant]}


def test_a_variable_works_for_every_kind_of_text() -> None:
    config = read(
        servers(WORLD | {"url": "http://${H}/mcp", "auth": {"token": "${T}"}})
        | {"npcs": [{"name": "${N}", "budget_tier": "${TIER}"}]}
        | {"trust": {"mode": "${MODE:-full}"}, "builtin": {"files": {"base": "${D}"}}},
        H="h",
        T="t",
        N="Nim",
        TIER="deep",
        D="/d",
    )
    assert config.mcp.servers[0].url == "http://h/mcp"
    assert config.mcp.servers[0].token == Secret("t")
    assert config.npcs[0].name == "Nim"
    assert config.npcs[0].budget_tier is Tier.DEEP
    assert config.trust.mode is TrustMode.FULL
    assert config.builtin.files.base == Path("/d")


def test_an_empty_token_or_key_is_none() -> None:
    llm = {"provider": "chat_completions", "model": "m", "base_url": "http://h/v1"}
    config = read({"llm": llm | {"api_key": "${KEY:-}"}})
    assert config.llm == LlmConfig(
        provider=Provider.CHAT_COMPLETIONS, model="m", base_url="http://h/v1"
    )
    assert read({"llm": llm | {"api_key": "${KEY:-}"}}, KEY="k").llm.api_key == Secret(
        "k"
    )


def test_no_problem_shows_a_secret() -> None:  # G28
    secret = "sk-5ecret"
    entry = {
        "name": "${KEY}.",
        "url": f"ftp://user:{secret}@h",
        "headers": secret,
        "auth": [secret],
        "env": {"A": [secret]},
        "tools": secret,
        "restart": secret,
        "transport": "${KEY}",
    }
    npcs = [{"name": "a", "engine": "${KEY}", "budget_tier": "${KEY}"}]
    data = servers(entry) | {"npcs": npcs, "trust": {"mode": "${KEY}"}}
    found = problems(data, KEY=secret)
    assert len(found) == 11
    assert secret not in "\n".join(found)
    assert secret not in repr(
        read(servers(WORLD | {"auth": {"token": secret}, "headers": {"a": secret}}))
    )


def test_a_secret_of_the_wrong_type_is_not_shown_either() -> None:
    assert problems(servers(DICE | {"env": {"PIN": 4711}})) == (
        "expected text in quotes, got a number @ tavern.yaml.mcp.servers[0].env.PIN",
    )


@pytest.mark.parametrize(
    "text",
    [
        "a: *sk-5ecret\n",
        "a: !sk-5ecret\n  b\n",
        "a: 'sk-5ecret\n",
        "a: sk-5ecret\na: sk-5ecret2\n",
        "a: sk-5ecret: x\n",
        "sk-5ecret\n",
        "[sk-5ecret]\n",
    ],
)
def test_no_broken_yaml_shows_what_it_holds(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(text, source=SOURCE, env={})
    assert "5ecret" not in str(caught.value)


# ------------------------------------------------------------------ problems


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "expected a mapping, got nothing @ tavern.yaml"),
        ([], "expected a mapping, got a list @ tavern.yaml"),
        (
            {"npcs": {}},
            (
                "expected a list, got a mapping; write each NPC as - name: NAME, and"
                " its keys below that @ tavern.yaml.npcs"
            ),
        ),
        ({"mpc": {}}, "unknown key 'mpc', did you mean 'mcp'? @ tavern.yaml"),
        ({7: {}}, "unknown key 7 @ tavern.yaml"),
        (
            servers(WORLD | {"ulr": 1}),
            "unknown key 'ulr', did you mean 'url'? @ tavern.yaml.mcp.servers[0]",
        ),
        (
            servers(DICE | {"timeout": 5}),
            (
                "unknown key 'timeout', did you mean 'timeout_ms'?"
                " @ tavern.yaml.mcp.servers[0]"
            ),
        ),
        (
            servers(DICE, WORLD | {"timeout_ms": "soon"}),
            "expected a number, got 'soon' @ tavern.yaml.mcp.servers[1].timeout_ms",
        ),
        (
            servers(DICE | {"timeout_ms": True}),
            "expected a number, got true @ tavern.yaml.mcp.servers[0].timeout_ms",
        ),
        (
            servers(DICE | {"timeout_ms": -1}),
            "must not be negative @ tavern.yaml.mcp.servers[0].timeout_ms",
        ),
        (
            servers(defaults={"timeout_ms": 0}),
            "must be more than 0 @ tavern.yaml.mcp.defaults.timeout_ms",
        ),
        (
            servers(defaults={"timeout_ms": float("nan")}),
            "expected a number, got nan @ tavern.yaml.mcp.defaults.timeout_ms",
        ),
        (
            servers(defaults={"timeout_ms": 10**5000}),
            (
                "expected a number, got a huge number"
                " @ tavern.yaml.mcp.defaults.timeout_ms"
            ),
        ),
        (
            {"turn": {"max_calls": 2.0}},
            "expected a whole number, got 2.0 @ tavern.yaml.turn.max_calls",
        ),
        (
            {"turn": {"max_calls": True}},
            "expected a whole number, got true @ tavern.yaml.turn.max_calls",
        ),
        (
            {"mcp": {"enabled": "false"}},
            "expected true or false, got 'false' @ tavern.yaml.mcp.enabled",
        ),
        (
            {"mcp": {"naming": "triple"}},
            (
                "expected one of double, single, bare, got 'triple'"
                " @ tavern.yaml.mcp.naming"
            ),
        ),
        (
            {"npcs": [{"name": "a", "greeting": 7}]},
            "expected text, got 7; put it in quotes @ tavern.yaml.npcs[0].greeting",
        ),
        ({"npcs": [{}]}, "name is missing @ tavern.yaml.npcs[0]"),
        ({"npcs": [{"name": " "}]}, "must not be empty @ tavern.yaml.npcs[0].name"),
        ({"npcs": [None]}, "expected a mapping, got nothing @ tavern.yaml.npcs[0]"),
        (
            {"npcs": [{"name": "a", "tools": ["roll", ""]}]},
            "must not be empty @ tavern.yaml.npcs[0].tools[1]",
        ),
        (
            {"npcs": [{"name": "a", "engine": "psychic"}]},
            (
                "expected one of cascaded, sentence_cascade, s2s, got 'psychic'"
                " @ tavern.yaml.npcs[0].engine"
            ),
        ),
        (
            {"npcs": [{"name": "a", "budget_tier": "slow"}]},
            (
                "expected one of fast, standard, deep, got 'slow'"
                " @ tavern.yaml.npcs[0].budget_tier"
            ),
        ),
        (
            {"npcs": [{"name": "Bartok"}, {"name": "bartok "}]},
            "the name 'bartok ' is taken @ tavern.yaml.npcs[1].name",
        ),
        (
            servers(DICE, DICE),
            "the name 'dice' is taken @ tavern.yaml.mcp.servers[1].name",
        ),
        (
            servers(DICE | {"name": "di.ce"}),  # A12
            (
                "must be 1 to 64 letters, digits, _ or -, because tools are written"
                " server.tool @ tavern.yaml.mcp.servers[0].name"
            ),
        ),
        (
            {"mcp": {"servers": {"a": DICE}}},
            "the key is its name: leave out 'name' @ tavern.yaml.mcp.servers.a",
        ),
        (
            {"mcp": {"servers": {"a b": {"command": "x"}}}},
            (
                "must be 1 to 64 letters, digits, _ or -, because tools are written"
                " server.tool @ tavern.yaml.mcp.servers['a b'].name"
            ),
        ),
        (
            servers({"name": "a"}),
            (
                "needs a command (stdio) or a url (streamable-http)"
                " @ tavern.yaml.mcp.servers[0]"
            ),
        ),
        (
            servers(DICE | {"transport": "http"}),
            (
                "a streamable-http server needs a url, not a command"
                " @ tavern.yaml.mcp.servers[0]"
            ),
        ),
        (
            servers(WORLD | {"transport": "stdio"}),
            (
                "a stdio server needs a command, this one has a url"
                " @ tavern.yaml.mcp.servers[0]"
            ),
        ),
        (
            servers(WORLD | {"command": "x"}),
            (
                "both a command and a url: give the one it is reached by"
                " @ tavern.yaml.mcp.servers[0]"
            ),
        ),
        (
            servers({"name": "a", "transport": "sse", "url": "http://h"}),
            (
                "expected one of stdio, streamable-http, got 'sse'"
                " @ tavern.yaml.mcp.servers[0].transport"
            ),
        ),
        (
            servers(DICE | {"auth": {"token": "t"}}),
            "auth means nothing to a stdio server @ tavern.yaml.mcp.servers[0]",
        ),
        (
            servers(WORLD | {"cwd": "."}),
            (
                "cwd means nothing to a streamable-http server"
                " @ tavern.yaml.mcp.servers[0]"
            ),
        ),
        (
            servers(
                WORLD | {"headers": {"authorization": "a"}, "auth": {"token": "t"}}
            ),
            (
                "auth.token and an Authorization header: give one"
                " @ tavern.yaml.mcp.servers[0]"
            ),
        ),
        (
            servers(WORLD | {"args": ["x"]}),
            "args without a command @ tavern.yaml.mcp.servers[0]",
        ),
        (
            servers(WORLD | {"auth": {"oauth": {"client_id": "x"}}}),
            "client_secret is missing @ tavern.yaml.mcp.servers[0].auth.oauth",
        ),
        (
            servers(DICE | {"command": "a 'b"}),
            (
                "cannot be split into words: No closing quotation"
                " @ tavern.yaml.mcp.servers[0].command"
            ),
        ),
        (
            servers(DICE | {"command": []}),
            "must not be empty @ tavern.yaml.mcp.servers[0].command",
        ),
        (
            servers(DICE | {"command": "${EMPTY:-} x"}),
            "the first word of the command is empty @ tavern.yaml.mcp.servers[0]",
        ),
        (
            servers(DICE | {"cwd": "~/x"}),
            "'~' is not expanded; write ${HOME} @ tavern.yaml.mcp.servers[0].cwd",
        ),
        *(
            (
                servers(WORLD | {"url": url}),
                (
                    "must be an address that starts with http:// or https://"
                    " @ tavern.yaml.mcp.servers[0].url"
                ),
            )
            for url in ("", "h", "ftp://h", "http://", "http://[", "h:/ ")
        ),
        *(
            (
                servers(WORLD | {"url": url}),
                (
                    "has a port that is no number from 1 to 65535"
                    " @ tavern.yaml.mcp.servers[0].url"
                ),
            )
            for url in ("http://h:x", "http://h:99999", "https://h:0/mcp")
        ),
        (
            servers(WORLD | {"auth": {"token": "${NO} ${NOR} ${NO}"}}),
            (
                "environment variable NO, NOR is not set: set it, or give a default,"
                " as in ${NO:-}"
                " @ tavern.yaml.mcp.servers[0].auth.token"
            ),
        ),
        *(
            (
                {"llm": {"extra": {"a b": [stray]}}},
                (
                    "'${' starts no ${VAR} or ${VAR:-default};"
                    " write $${ for a plain one @ tavern.yaml.llm.extra['a b'][0]"
                ),
            )
            for stray in ("${", "${}", "${1}", "${A-b}", "${A", "${A:-", "$$$${${")
        ),
        (
            {"llm": {"provider": "chat_completions", "base_url": "http://h"}},
            "chat_completions needs model @ tavern.yaml.llm",
        ),
        (
            {"llm": {"extra": {"when": PurePath()}}},
            (
                "expected what JSON can say, got a PurePosixPath"
                " @ tavern.yaml.llm.extra.when"
            ),
        ),
        (
            {"tiers": {"standard": {"ceiling_ms": 1}}},
            "tier ceilings must not shrink from FAST to DEEP @ tavern.yaml.tiers",
        ),
        (  # and every tool of which nothing is known would be hidden without a word
            {"tiers": {"standard": {"threshold_ms": 5000}}},
            (
                "standard.threshold_ms, 5000 ms, is above deep.ceiling_ms, 4000 ms: a"
                " tool that takes longer could never be called; lower the one or raise"
                " the other @ tavern.yaml.tiers"
            ),
        ),
        (
            {"tiers": {"deep": {"threshold_ms": 1}}},
            "unknown key 'threshold_ms' @ tavern.yaml.tiers.deep",
        ),
        (
            {"builtin": {"dice": {"tables": {"t": []}}}},
            (
                "a table without a line cannot be rolled: 't'"
                " @ tavern.yaml.builtin.dice.tables"
            ),
        ),
        (
            {"turn": {"fallback": []}},
            "must not be empty @ tavern.yaml.turn.fallback",
        ),
        (
            {"trust": {"mode": "full"}, "agent": {"trust": {"mode": "full"}}},
            "trust and agent.trust are the same thing: give one @ tavern.yaml",
        ),
        (
            servers(DICE | {"tools": [{"speech_field": "x"}]}),
            "name is missing @ tavern.yaml.mcp.servers[0].tools[0]",
        ),
        (
            servers(DICE | {"tools": [{"name": "a"}, {"name": "a"}]}),
            "the name 'a' is taken @ tavern.yaml.mcp.servers[0].tools[1]",
        ),
        (
            {"tools": {"roll": {"min_teir": "deep"}}},
            "unknown key 'min_teir', did you mean 'min_tier'? @ tavern.yaml.tools.roll",
        ),
    ],
)
def test_a_problem_names_its_place(data: Any, problem: str) -> None:
    assert problems(data) == (problem,)


@pytest.mark.parametrize("name", ["search.2 x", "", "9lives", "x" * 65, "ok\n"])
def test_an_expose_as_that_no_provider_takes_is_found_in_the_file(
    name: str,
) -> None:  # A12: it was found when the server was there, and cost all its tools
    tools = {"find": {"expose_as": name}}
    servers = [{"name": "web", "command": "x", "tools": tools}]
    (problem,) = problems({"mcp": {"servers": servers}})
    assert problem.startswith("must be 1 to 64 letters, digits, _ or -, and start")
    assert problem.endswith("mcp.servers[0].tools.find.expose_as")


def test_every_problem_is_reported_at_once() -> None:
    data = {
        "npcs": [{"nmae": "x"}, {"name": "a", "engine": "psychic"}],
        "mcp": {"servers": [{"name": "a"}, DICE | {"timeout_ms": "soon"}, 3]},
        "turn": {"queue": 0, "silence_ms": None},
    }
    assert [problem.split(" @ tavern.yaml")[1] for problem in problems(data)] == [
        ".npcs[0]",
        ".npcs[0]",
        ".npcs[1].engine",
        ".mcp.servers[0]",
        ".mcp.servers[1].timeout_ms",
        ".mcp.servers[2]",
        ".turn.silence_ms",
        ".turn.queue",
    ]


def test_a_name_that_is_taken_is_seen_beside_other_problems() -> None:
    data = {"npcs": [{"name": "A", "greeting": 1}, {"name": "a", "engine": "psychic"}]}
    assert [problem.split("@ ")[1] for problem in problems(data)] == [
        "tavern.yaml.npcs[0].greeting",
        "tavern.yaml.npcs[1].engine",
        "tavern.yaml.npcs[1].name",
    ]


def test_every_contradiction_of_one_object_is_reported() -> None:
    assert problems({"llm": {"provider": "chat_completions"}}) == (
        "chat_completions needs model @ tavern.yaml.llm",
        "chat_completions needs base_url @ tavern.yaml.llm",
    )
    assert problems(servers(WORLD | {"cwd": ".", "env": {"A": "b"}})) == (
        "env means nothing to a streamable-http server @ tavern.yaml.mcp.servers[0]",
        "cwd means nothing to a streamable-http server @ tavern.yaml.mcp.servers[0]",
    )


def test_a_config_error_is_one_of_ours_and_prints_a_line_each() -> None:
    error = ConfigError("a", "b")
    assert isinstance(error, GlyphoxaError)
    assert (str(error), error.problems) == ("a\nb", ("a", "b"))


# ---------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.yaml", "", "the file is empty @ a.yaml"),
        ("a.yaml", "# only a comment\n", "the file is empty @ a.yaml"),
        ("a.toml", "# only a comment\n", "the file is empty @ a.toml"),
        ("a.json", " \n", "the file is empty @ a.json"),
        ("a.yaml", "a: [1\n", "line 2, column 1 @ a.yaml"),
        ("a.yaml", "a: 1\n\tb: 2\n", "line 2, column 1 @ a.yaml"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "line 2, column 1 @ a.yaml"),
        ("a.yaml", "a: \x00\n", "is not YAML"),
        (
            "a.yaml",
            "a: 1\nb: !!bool maybe\n",
            "fit its type, line 2, column 4 @ a.yaml",
        ),
        ("a.yaml", "a: 2024-13-40\n", "fit its type, line 1, column 4 @ a.yaml"),
        ("a.yaml", "? [a]\n: b\n", "a key must be text, line 1, column 3 @ a.yaml"),
        ("a.json", '{"a": 1,\n}', "line 2, column 1 @ a.json"),
        ("a.toml", "a = 1\na = 2\n", "is not TOML: Cannot overwrite a value"),
        ("a.toml", "a = 1\na = 2\n", "(at line 2, column 6) @ a.toml"),
        ("a.ini", "", "a configuration is a .yaml, .yml, .toml or .json file @ a.ini"),
        ("a", "", "no suffix: a configuration is a .yaml, .yml, .toml or .json file"),
        ("a.yaml", "[" * 5000, "is nested too deeply @ a.yaml"),
        ("a.json", "[" * 200_000, "is nested too deeply @ a.json"),
    ],
)
def test_a_text_that_cannot_be_read_says_where(
    name: str, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(text, source=PurePath(name), env={})
    assert problem in str(caught.value)


def test_repeated_keys_are_all_reported_with_the_rest() -> None:
    text = "turn:\n  queue: 1\n  queue: 2\nllm: {}\nturn: {}\nnpsc: []\n"
    with pytest.raises(ConfigError) as caught:
        load_text(text, source=SOURCE, env={})
    assert set(caught.value.problems) == {
        "key 'queue' is there twice, line 3, column 3 @ tavern.yaml",
        "key 'turn' is there twice, line 5, column 1 @ tavern.yaml",
        "unknown key 'npsc', did you mean 'npcs'?, line 6 @ tavern.yaml",
    }
    with pytest.raises(ConfigError, match=r"key 'llm' is there twice @ a\.json"):
        load_text('{"llm": {}, "llm": {}}', source=PurePath("a.json"), env={})


def test_yaml_anchors_and_merges_work_and_may_be_overridden() -> None:
    text = """
    npcs:
      - &guard {name: Guard, greeting: Halt!, tools: &tools [roll]}
      - {<<: *guard, name: Captain}
      - {name: Clerk, tools: *tools}
    """
    npcs = load_text(text, source=SOURCE, env={}).npcs
    assert [npc.name for npc in npcs] == ["Guard", "Captain", "Clerk"]
    assert [npc.greeting for npc in npcs] == ["Halt!", "Halt!", ""]
    assert all(npc.tools == ("roll",) for npc in npcs)
    with pytest.raises(ConfigError, match="key 'name' is there twice"):
        load_text(text + "  - {<<: *guard, name: a, name: b}", source=SOURCE, env={})


def test_an_anchor_may_be_used_again_without_a_warning() -> None:
    text = "npcs: [{name: &a Nim, greeting: &a Hi, personality: *a}]"
    assert load_text(text, source=SOURCE, env={}).npcs[0].personality == "Hi"


def test_a_value_that_holds_itself_is_a_problem() -> None:
    deep: Any = "x"
    for _ in range(32):
        deep = [deep]
    read({"llm": {"extra": {"deepest": deep}}})
    with pytest.raises(ConfigError, match="more than 32 levels"):
        load_text("llm: {extra: &a {b: *a}}", source=SOURCE, env={})


def test_on_and_off_are_text_and_yes_is_no_boolean() -> None:
    config = load_text("npcs: [{name: no, greeting: on}]", source=SOURCE, env={})
    assert (config.npcs[0].name, config.npcs[0].greeting) == ("no", "on")


def test_a_file_is_read_with_the_process_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.yaml").write_text(
        "npcs: [{name: '${WHO}'}]\nmcp: {servers: {a: {command: x}}}",
        encoding="utf-8",
    )
    monkeypatch.setenv("WHO", "Nim")
    monkeypatch.chdir(tmp_path)
    config = load_config("t.yaml")
    assert config.npcs[0].name == "Nim"
    assert config.mcp.servers[0].cwd == tmp_path


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    for name, text in {"a.yaml": "{}", "a.json": "{}", "a.toml": "[turn]"}.items():
        (tmp_path / name).write_text("\ufeff" + text, encoding="utf-8")
        assert load_config(tmp_path / name, env={}) == Config()


def test_a_file_that_is_not_there_or_not_text_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: No such file.* @ t\.yaml"):
        load_config(tmp_path / "t.yaml")
    (tmp_path / "t.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text @ t\.yaml"):
        load_config(tmp_path / "t.yaml")


@pytest.mark.border
def test_importing_the_room_imports_nothing_heavy() -> None:
    code = (
        "import sys, glyphoxa_trio.config;"
        "heavy = {'ruamel', 'ruamel.yaml', 'cattrs', 'mcp', 'jsonschema_rs', 'httpx2'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


# ----------------------------------------------------------------- overrides


def test_an_override_replaces_what_it_states_and_nothing_else() -> None:
    author = ToolDefinition(
        name="balance", description="Gold.", max_duration=2.0, examples=({"a": 1},)
    )
    override = ToolOverride(
        estimated_duration=0.04,
        read_only=True,
        cacheable=5.0,
        min_tier=Tier.DEEP,
        probe={"a": 2},
    )
    assert override.applied_to(author) == attrs.evolve(
        author,
        estimated_duration=0.04,
        read_only=True,
        cacheable=5.0,
        min_tier=Tier.DEEP,
        probe={"a": 2},  # D9: before its author's examples
    )
    assert ToolOverride().applied_to(author) == author


def test_an_override_may_take_something_away() -> None:
    author = ToolDefinition(name="roll", read_only=True, cacheable=5.0)
    changed = ToolOverride(read_only=False, cacheable=0.0).applied_to(author)
    assert changed == ToolDefinition(name="roll")


def test_every_override_is_a_field_of_a_definition() -> None:
    known = {field.name for field in attrs.fields(ToolDefinition)}
    stated = {field.name for field in attrs.fields(ToolOverride)}
    assert stated <= known


def test_an_override_that_contradicts_the_tool_is_refused() -> None:
    with pytest.raises(ValueError, match="neither read-only nor idempotent"):
        ToolOverride(cacheable=5.0).applied_to(ToolDefinition(name="spend"))


# ---------------------------------------------------------------------- any


def every_key(kind: type = Config) -> set[str]:
    found = set(layout(kind))
    for key in layout(kind).values():
        for part in (key.kind, *getattr(key.kind, "__args__", ())):
            if isinstance(part, type) and attrs.has(part):
                found |= every_key(part)
    return found


KEYS = sorted(every_key())
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["deep", "stdio", "http://h", "${A}", "${", "a b", "cascaded"])
)
garbage = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=4) | st.integers(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


def like(kind: Any) -> st.SearchStrategy[Any]:
    """Data in the shape of the layout, with garbage here and there."""
    parts = [part for part in getattr(kind, "__args__", ()) if isinstance(part, type)]
    for part in (kind, *parts):
        if isinstance(part, type) and attrs.has(part):
            one: st.SearchStrategy[Any] = st.fixed_dictionaries(
                {},
                optional={name: like(key.kind) for name, key in layout(part).items()},
            )
            many = st.lists(one, max_size=2)
            named = st.dictionaries(st.sampled_from("ab"), one, max_size=2)
            return (one if part is kind else one | many | named) | garbage
    return garbage


@given(garbage | like(Config))
def test_any_data_is_a_config_or_a_config_error_with_places(data: Any) -> None:
    try:
        config = read(data, A="x")
    except ConfigError as error:
        found = error.problems
    else:
        assert isinstance(config, Config)
        return
    assert found
    for problem in found:
        what, _, place = problem.rpartition(" @ tavern.yaml")
        assert what
        assert place == "" or place[0] in ".["


@given(st.text(alphabet=string.printable + "é\u2028\x00\ud800", max_size=60))
def test_any_text_is_a_config_or_a_config_error(text: str) -> None:
    for suffix in ("yaml", "json", "toml"):
        with suppress(ConfigError):
            load_text(text, source=PurePath(f"a.{suffix}"), env={})


PIECES = [*"-?:[]{},&*!|>'\"%@`#<=~ \nab1.", "\n  ", "&x ", "*x", "<<: ", "a: "]
TAGS = ["bool", "int", "float", "timestamp", "binary", "set", "omap", "merge", "map"]


@given(st.lists(st.sampled_from(PIECES + [f"!!{tag} " for tag in TAGS]), max_size=25))
def test_any_yaml_punctuation_is_a_config_or_a_config_error(text: list[str]) -> None:
    with suppress(ConfigError):
        load_text("".join(text), source=SOURCE, env={})


PLACES: dict[str, tuple[type, Any]] = {
    "": (Config, lambda inner: inner),
    ".turn": (type(Config().turn), lambda inner: {"turn": inner}),
    ".mcp": (McpConfig, lambda inner: {"mcp": inner}),
    ".mcp.servers[1]": (ServerSpec, lambda inner: servers(WORLD, DICE | inner)),
    ".npcs[0]": (
        layout(Config)["npcs"].kind.__args__[0],
        lambda inner: {"npcs": [{"name": "a"} | inner]},
    ),
    ".tools.roll": (ToolOverride, lambda inner: {"tools": {"roll": inner}}),
}


@given(st.data())
def test_a_misspelt_key_is_always_reported_with_its_place(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(sorted(PLACES)))
    kind, around = PLACES[place]
    key = data.draw(st.sampled_from(sorted(layout(kind))))
    index = data.draw(st.integers(0, len(key) - 1))
    letter = data.draw(st.sampled_from("abcxyz_"))
    typo = data.draw(
        st.sampled_from([key[:index] + key[index + 1 :], key[:index] + letter + key])
    )
    if typo in layout(kind):
        return
    found = problems(around({typo: None}))
    assert any(
        problem.startswith(f"unknown key {typo!r}")
        and problem.endswith(f" @ tavern.yaml{place}")
        for problem in found
    )


@pytest.mark.parametrize("base", [".", "..", "here/../."])
def test_the_files_of_npcs_are_apart_from_the_configuration(
    tmp_path: Path, base: str
) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"builtin": {"files": {"base": base}}}))
    with pytest.raises(ConfigError, match=r"table\.json must not be theirs to write"):
        load_config(path)


def test_a_link_does_not_bring_them_together(tmp_path: Path) -> None:
    (tmp_path / "notes").symlink_to(tmp_path)
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"builtin": {"files": {"base": "notes"}}}))
    with pytest.raises(ConfigError, match=r"@ .*builtin\.files\.base"):
        load_config(path)
