"""Grants of NPCs, against the tools that exist (D13, D14). Pure: nothing runs."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from glyphoxa_trio.config import (
    Config,
    LeftOut,
    McpConfig,
    NpcConfig,
    ServerSpec,
    ToolOverride,
    TrustConfig,
)
from glyphoxa_trio.host import Snapshot
from glyphoxa_trio.host.catalogue import Catalogue
from glyphoxa_trio.runtime.grants import (
    NameProblem,
    approved_by,
    check_grants,
    grant_of,
    may_need_approval,
    needs,
    shadowed_groups,
    unapproved,
)
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.naming import Collision, NamingStyle
from glyphoxa_trio.tools.tier import Tier

UNKNOWN = Estimate(
    seconds=1.5,
    tier=Tier.DEEP,
    source=EstimateSource.UNKNOWN,
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


@pytest.mark.parametrize(
    ("naming", "written", "shown", "remedy"),
    [
        ("double", "mcp_ledger_read_tab", "mcp__ledger__read_tab", "single"),
        ("single", "mcp__ledger__read_tab", "mcp_ledger_read_tab", "double"),
        ("double", "read_tab", "mcp__ledger__read_tab", "bare"),
    ],
)
def test_a_name_in_another_style_is_told_how_to_be_right(
    naming: str, written: str, shown: str, remedy: str
) -> None:  # A5
    style = NamingStyle(naming)
    there = snapshot("ledger.read_tab", naming=style)
    (problem,) = check_grants(config(written, naming=style), there, absent=())
    assert problem.error
    assert str(problem) == (
        f"no tool {written!r}: with mcp.naming {naming} it is {shown}; grant that, or"
        f" set naming: {remedy} @ npcs[Bo].tools"
    )


@pytest.mark.parametrize("written", ["mcp_ledger_read_tab", "mcp__ledger__read_tab"])
@pytest.mark.parametrize("naming", NamingStyle)
def test_a_name_in_any_style_waits_for_its_server(
    written: str, naming: NamingStyle
) -> None:
    asked = config(written, naming=naming)
    (problem,) = check_grants(asked, snapshot("dice.roll"), absent=[server()])
    assert not problem.error
    assert problem.text == f"{written!r} waits for the server 'ledger'"


def test_a_context_may_name_tools_of_other_programs() -> None:  # A30
    patterns = ("hangup_call", "rol", "mcp_uisp_server_lookup_customer")
    npc = NpcConfig(name="support", context_name="support", tools=patterns)
    asked = attrs.evolve(config(naming=NamingStyle.SINGLE), npcs=(npc,))
    there = snapshot("dice.roll", "ledger.read_tab", naming=NamingStyle.SINGLE)
    found = check_grants(asked, there, absent=())
    assert not any(problem.error for problem in found)
    assert [problem.text for problem in found] == [
        "no tool 'hangup_call' yet, unless a program adds it",
        "no tool 'rol' yet, did you mean roll?",
        "no tool 'mcp_uisp_server_lookup_customer' yet, unless a program adds it",
    ]


def test_a_context_that_mistakes_a_tool_of_a_server_is_an_error() -> None:  # A30
    npc = NpcConfig(
        name="support",
        context_name="support",
        tools=("mcp_ledger_read_tub", "ledger.read_tub"),
    )
    asked = attrs.evolve(config(naming=NamingStyle.SINGLE), npcs=(npc,))
    there = snapshot("ledger.read_tab", naming=NamingStyle.SINGLE)
    first, second = check_grants(asked, there, absent=())
    assert first.error
    assert second.error
    assert "did you mean mcp_ledger_read_tab" in first.text


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


# ------------------------------------------- servers that are left out or missing


def of_left_out(
    *patterns: str, naming: NamingStyle = NamingStyle.DOUBLE, **more: Any
) -> list[tuple[str, bool]]:
    """What is said of grants where a server is left out, and what is an error."""
    left = LeftOut(**{"name": "git", "why": "because", **more})
    chosen = config(*patterns, naming=naming)
    mcp = attrs.evolve(chosen.mcp, left_out=(left,))
    found = check_grants(attrs.evolve(chosen, mcp=mcp), THERE, absent=())
    return [(problem.text, problem.error) for problem in found]


@pytest.mark.parametrize(
    "pattern", ["git", "git.log", "git.*", "mcp__git__log", "mcp__git__*"]
)
def test_a_grant_that_names_a_server_that_is_left_out_is_an_error(
    pattern: str,
) -> None:  # D14, D14a
    ((text, error),) = of_left_out(pattern)
    assert error
    assert text == f"{pattern!r} asks for the server 'git', which is left out: because"
    ((text, error),) = of_left_out(pattern, switched_off=True)
    assert not error
    assert text.endswith("the server 'git', which is switched off: because")


@pytest.mark.parametrize("pattern", ["*.log", "g*.log", "gi*", "mcp__*x"])
def test_a_glob_that_only_may_mean_it_is_no_error(pattern: str) -> None:
    ((_, error),) = of_left_out(pattern)
    assert not error


@pytest.mark.parametrize("pattern", ["gitt.log", "ledger.tab", "dice.rol", "rol"])
def test_what_it_cannot_mean_says_nothing_of_it(pattern: str) -> None:
    for switched_off in (False, True):
        ((text, error),) = of_left_out(pattern, switched_off=switched_off)
        assert error
        assert "git'" not in text


def test_a_grant_that_is_kept_all_the_same_is_no_problem() -> None:
    assert of_left_out("*", "dice", "ledger.*") == []


def test_a_file_that_cannot_be_read_may_hold_what_is_missing() -> None:
    texts = of_left_out("git.*", "git.log", "*x", name=None, why="is not JSON")
    assert [error for _, error in texts] == [True, True, False]
    assert texts[0][0] == (
        "'git.*' matches no tool; it may be in a file that cannot be used: is not JSON"
    )


def test_each_grant_that_names_a_server_needs_it() -> None:
    chosen = config("dice", "git", "git.log", "g*.log", "mcp__git__*", "*.*", "line")
    line = {"log": ToolOverride(expose_as="line")}
    servers = (server("git", tools=line), server("spare"))
    mcp = attrs.evolve(chosen.mcp, servers=servers)
    found = needs(attrs.evolve(chosen, mcp=mcp))
    assert [(need.npc, need.pattern, need.server) for need in found] == [
        ("Bo", pattern, "git") for pattern in ("git", "git.log", "mcp__git__*", "line")
    ]


# ------------------------------------------------------- granted and not approved


def test_what_is_granted_and_not_approved_is_known_with_what_it_may_do() -> None:
    full = NpcConfig(
        name="Al", tools=("ledger",), trust=TrustConfig(mode=TrustMode.FULL)
    )
    chosen = config("ledger", "dice")
    everybody = attrs.evolve(chosen, npcs=(*chosen.npcs, full))
    (one,) = unapproved(everybody, THERE, held=(), agreed=())  # D13a
    assert (one.key, one.npcs, one.changed) == ("ledger.read_tab", ("Bo",), False)
    assert one.hints == "may write"
    key = {"ledger.read_tab"}
    assert unapproved(chosen, THERE, held=(), agreed=key) == []
    (changed,) = unapproved(chosen, THERE, held=key, agreed=())
    assert changed.hints == "may write, changed since it was approved"
    in_full = config("ledger.read_tab")
    assert unapproved(in_full, THERE, held=(), agreed=()) == []
    (changed,) = unapproved(in_full, THERE, held=key, agreed=())
    assert changed.changed


@pytest.mark.parametrize(
    ("patterns", "may"),
    [
        (("ledger",), True),
        (("ledger.*",), True),
        (("mcp__*",), True),
        (("*",), True),
        (("ledger.read_tab", "dice", "dice.*"), False),
        ((), False),
    ],
)
def test_only_groups_and_globs_of_servers_may_need_a_word(
    patterns: tuple[str, ...], may: bool
) -> None:
    chosen = config(*patterns)
    mcp = attrs.evolve(chosen.mcp, servers=(server(),))
    assert may_need_approval(attrs.evolve(chosen, mcp=mcp)) is may
    trusting = attrs.evolve(chosen, mcp=mcp, trust=TrustConfig(mode=TrustMode.FULL))
    assert not may_need_approval(trusting)
    assert not may_need_approval(chosen)


def test_a_name_that_two_have_is_settled_where_that_counts() -> None:
    twice = Collision(name="look", left_out=("far.look", "near.look"))
    place = "mcp.servers[{}].tools.look.expose_as"
    assert str(NameProblem(twice)).endswith(f" @ {place.format('near')}")
    # A `.mcp.json` cannot say it.
    found = NameProblem(twice, shared={"near"})
    assert str(found).endswith(f" @ {place.format('far')}")
    found = NameProblem(twice, shared={"near", "far"})
    assert str(found).endswith(
        " with expose_as, for which the configuration must have the server 'near'"
        f" itself @ {place.format('near')}"
    )
