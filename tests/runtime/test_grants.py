"""What NPCs are granted, against what there is (D13, D14). Pure: nothing runs."""

from __future__ import annotations

from typing import Any

import pytest

from glyphoxa_trio.config import (
    Config,
    McpConfig,
    NpcConfig,
    ServerSpec,
    ToolOverride,
    TrustConfig,
)
from glyphoxa_trio.host import Snapshot
from glyphoxa_trio.host.catalogue import Catalogue
from glyphoxa_trio.runtime.grants import (
    approved_by,
    check_grants,
    grant_of,
    shadowed_groups,
)
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, Source
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.tier import Tier

UNKNOWN = Estimate(
    seconds=1.5,
    tier=Tier.DEEP,
    source=Source.UNKNOWN,
    p50=None,
    p99=None,
    samples=0,
    degraded=None,
    tier_by_number=None,
)


def snapshot(*keys: str, naming: NamingStyle = NamingStyle.DOUBLE) -> Snapshot:
    """Tools by key; those of the server ``ledger`` are somebody else's."""
    catalogue = Catalogue(lambda _: UNKNOWN, naming)
    for key in keys:
        group, name = key.split(".")
        external = group == "ledger"
        definition = ToolDefinition(name=name, group=group, external=external)
        handler = lambda *_: pytest.fail("called")  # noqa: E731 never called
        catalogue.register([Tool(definition=definition, handler=handler)])
    return catalogue.current


def config(
    *patterns: str, naming: NamingStyle = NamingStyle.DOUBLE, **more: Any
) -> Config:
    npc = NpcConfig(name="Bo", tools=patterns)
    return Config(npcs=(npc,), mcp=McpConfig(naming=naming), **more)


def server(name: str = "ledger", **more: Any) -> ServerSpec:
    return ServerSpec(name=name, command=("x",), **more)


THERE = snapshot("dice.roll", "dice.roll_table", "ledger.read_tab")


@pytest.mark.parametrize(
    "pattern",
    [
        "dice.roll",
        "roll",
        "dice",
        "dice.*",
        "ro*",
        "ledger",
        "ledger.read_tab",
        "mcp__ledger__read_tab",
        "mcp__*",
        "*",
    ],
)
def test_what_means_a_tool_is_no_problem(pattern: str) -> None:
    assert check_grants(config(pattern), THERE, absent=()) == []


def test_an_exact_name_of_nothing_is_an_error_with_the_nearest() -> None:
    problems = check_grants(config("dice.rol", "dise", "zzz"), THERE, absent=())
    assert [problem.error for problem in problems] == [True] * 3
    first, second, third = map(str, problems)
    assert first.startswith("no tool 'dice.rol', did you mean dice.roll or ")
    assert first.endswith(" @ npcs[Bo].tools")
    assert second.startswith("no tool 'dise', did you mean dice")
    assert third == "no tool 'zzz' @ npcs[Bo].tools"


def test_a_pattern_of_nothing_is_told_and_no_error() -> None:
    (problem,) = check_grants(config("memory.*"), THERE, absent=())
    assert str(problem) == "'memory.*' matches no tool @ npcs[Bo].tools"
    assert not problem.error


@pytest.mark.parametrize(
    "pattern",
    ["oracle", "oracle.consult", "mcp__oracle__consult", "oracle.*", "or*.x", "x*"],
)
def test_what_an_absent_server_may_bring_is_waited_for(pattern: str) -> None:
    (problem,) = check_grants(config(pattern), THERE, absent=[server("oracle")])
    assert str(problem) == f"{pattern!r} waits for the server 'oracle' @ npcs[Bo].tools"
    assert not problem.error


@pytest.mark.parametrize(
    "pattern", ["ledger.red_tab", "mcp__ledger__red_tab", "consult", "dice.oracle"]
)
def test_what_it_cannot_bring_is_an_error_all_the_same(pattern: str) -> None:
    (problem,) = check_grants(config(pattern), THERE, absent=[server("oracle")])
    assert problem.error, problem


def test_each_style_of_names_is_waited_for_in_its_own_way() -> None:
    absent = [server("oracle")]

    def waits(pattern: str, naming: NamingStyle) -> bool:
        there = snapshot("dice.roll", naming=naming)
        problems = check_grants(config(pattern, naming=naming), there, absent=absent)
        return not any(problem.error for problem in problems)

    assert waits("mcp_oracle_consult", NamingStyle.SINGLE)
    assert not waits("mcp_ledger_consult", NamingStyle.SINGLE)
    assert waits("consult", NamingStyle.BARE)  # it may be anybody's
    assert not waits("consult", NamingStyle.DOUBLE)


def test_a_name_given_by_the_operator_is_waited_for() -> None:
    tools = {"consult": ToolOverride(expose_as="ask_the_oracle")}
    absent = [server("oracle", tools=tools)]
    (problem,) = check_grants(config("ask_the_oracle"), THERE, absent=absent)
    assert not problem.error


def test_a_name_too_long_for_a_model_is_waited_for_by_its_head() -> None:
    name = "s" * 60
    pattern = f"mcp__{name}"[:55] + "_0123abcd"
    (problem,) = check_grants(config(pattern), THERE, absent=[server(name)])
    assert not problem.error


def test_every_npc_and_every_pattern_is_looked_at() -> None:
    npcs = (
        NpcConfig(name="Bo", tools=("a.b", "dice")),
        NpcConfig(name="Ysolde", tools=("dice", "c.d")),
    )
    problems = check_grants(Config(npcs=npcs), THERE, absent=())
    found = [(problem.npc, problem.pattern) for problem in problems]
    assert found == [("Bo", "a.b"), ("Ysolde", "c.d")]


def test_a_server_may_not_be_named_like_a_group_of_ours() -> None:
    servers = [server("dice"), server("ledger"), server("oracle")]
    assert shadowed_groups(servers, THERE) == [
        "'dice' is a group of built-in tools @ mcp.servers"
    ]


def test_a_grant_is_what_the_configuration_says() -> None:
    npc = NpcConfig(name="Bo", tools=("dice", "ledger.*"))
    grant = grant_of(npc, Config(npcs=(npc,)), approver=True)
    assert (grant.npc, grant.tools, grant.trust) == (
        "Bo",
        ("dice", "ledger.*"),
        TrustMode.LIMITED,
    )
    assert grant.approver
    assert not grant_of(npc, Config(), approver=False).approver


FULL = TrustConfig(mode=TrustMode.FULL)
TAB = TrustConfig(allow_tools=("ledger.*",))


@pytest.mark.parametrize(
    ("everyones", "npcs", "approved"),
    [
        (TrustConfig(), [("ledger.*", None)], False),  # a glob grants only
        (TrustConfig(), [("ledger.read_tab", None)], True),
        (TrustConfig(), [("mcp__ledger__read_tab", None)], True),
        (TAB, [("ledger", None)], True),
        (TAB, [("ledger", TrustConfig())], False),  # its own takes its place
        (TrustConfig(), [("ledger", TAB)], True),
        # Full trust approves whatever comes, so there is nothing to hold it to …
        (FULL, [("ledger.read_tab", None)], False),
        (TrustConfig(), [("ledger.read_tab", FULL)], False),
        # … but somebody else may have looked at it.
        (FULL, [("ledger", None), ("ledger.read_tab", TrustConfig())], True),
        (TAB, [], False),
    ],
)
def test_the_configuration_approves_what_it_names_for_an_npc_of_limited_trust(
    everyones: TrustConfig,
    npcs: list[tuple[str, TrustConfig | None]],
    approved: bool,
) -> None:  # D13a, N29 to N32
    chosen = Config(
        npcs=tuple(
            NpcConfig(name=f"Bo {n}", tools=(tools,), trust=trust)
            for n, (tools, trust) in enumerate(npcs)
        ),
        trust=everyones,
    )
    tab = THERE.by_key["ledger.read_tab"]
    assert approved_by(chosen)(tab.definition, tab.exposed) is approved
