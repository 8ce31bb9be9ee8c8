"""Names that every provider takes, and grants that mean what was written.

Rows A4 to A8, N15, N16; decisions D13 and D13a.
"""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.naming import (
    BadName,
    NameCollision,
    NamingStyle,
    expose_all,
    exposed_name,
    is_glob,
    matches,
    names_in_full,
    nearest,
)

LEGAL = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")
DOUBLE, SINGLE, BARE = NamingStyle


def built_in(key: str) -> ToolDefinition:
    group, name = key.split(".", 1)
    return ToolDefinition(group=group, name=name)


def external(
    group: str, name: str = "forecast", expose_as: str | None = None
) -> ToolDefinition:
    return ToolDefinition(group=group, name=name, external=True, expose_as=expose_as)


def granted(pattern: str, tool: ToolDefinition, style: NamingStyle = DOUBLE) -> bool:
    return matches(pattern, tool, exposed_name(tool, style))


# --- exposed names


def test_the_style_chooses_the_name_of_external_tools() -> None:  # A5, N15
    tool = external("world")
    assert exposed_name(tool) == "mcp__world__forecast"
    assert exposed_name(tool, SINGLE) == "mcp_world_forecast"
    assert exposed_name(tool, BARE) == "forecast"
    assert [str(style) for style in NamingStyle] == ["double", "single", "bare"]


def test_the_tools_for_resources_of_two_servers_never_have_one_name() -> None:  # N1
    names = [
        exposed_name(external(server, tool), style)
        for style in NamingStyle
        for server in ("notes", "maps")
        for tool in ("list_resources", "read_resource")
    ]
    assert len(set(names)) == 12
    assert exposed_name(external("maps", "read_resource"), BARE) == "maps_read_resource"


@pytest.mark.parametrize("style", NamingStyle)
def test_built_ins_go_by_their_plain_name_in_every_style(style: NamingStyle) -> None:
    assert exposed_name(built_in("dice.roll"), style) == "roll"
    # G7 has the plain name, G11 the longer one.
    assert exposed_name(built_in("memory.get_summary"), style) == "get_summary"
    assert exposed_name(built_in("sessions.get_summary"), style) == (
        "get_session_summary"
    )


def test_a_server_called_sessions_gets_no_special_name() -> None:
    assert exposed_name(external("sessions", "get_summary"), BARE) == "get_summary"


@pytest.mark.parametrize(
    ("server", "name", "exposed"),
    [
        ("aviation-atis", "get_atis", "mcp_aviation_atis_get_atis"),
        ("Aviation-ATIS", "Get-Atis", "mcp_aviation_atis_get_atis"),
        ("aviation_atis", "getATIS", "mcp_aviation_atis_get_atis"),
        ("aviationAtis", "METARReport.v2", "mcp_aviation_atis_metar_report_v2"),
        ("s", "get__it", "mcp_s_get__it"),  # legal already, so it stays
    ],
)
def test_single_names_are_lower_snake_case(
    server: str, name: str, exposed: str
) -> None:  # A4, A5, A6
    assert exposed_name(external(server, name), SINGLE) == exposed


@given(st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True), st.text(min_size=1))
@example("S", "\u212a")  # the sign of Kelvin, whose lower case is a plain k
def test_every_single_name_keeps_to_the_letters_of_the_seed(
    server: str, name: str
) -> None:  # A4
    exposed = exposed_name(external(server, name), SINGLE)
    assert re.fullmatch(r"[a-z0-9_]{1,64}", exposed)


def test_names_that_differ_only_before_they_are_lowered_collide() -> None:  # A8
    exposed = expose_all([external("s", "getIt"), external("s", "get_it")], SINGLE)
    assert not exposed.tools
    (collision,) = exposed.collisions
    assert "expose_as" in str(collision)


def test_what_providers_refuse_becomes_an_underscore() -> None:
    tool = external("aviation-atis", "get.atis now")
    assert exposed_name(tool) == "mcp__aviation-atis__get_atis_now"
    assert exposed_name(external("x", "2d6"), BARE) == "_2d6"
    assert exposed_name(external("x", "-f"), BARE) == "_-f"


def test_a_long_name_keeps_its_head_and_ends_in_a_hash_of_the_key() -> None:  # A7
    tool = external("s", "t" * 70)
    name = exposed_name(tool)
    # sha256 of "s." and seventy t, by sha256sum.
    assert name == "mcp__s__" + "t" * 47 + "_629a136f"
    assert len(name) == 64


def test_a_name_of_exactly_64_characters_is_not_cut() -> None:
    assert exposed_name(external("s", "t" * 56)) == "mcp__s__" + "t" * 56
    assert exposed_name(external("s", "t" * 57)) != "mcp__s__" + "t" * 57


def test_long_names_that_differ_at_the_end_stay_apart() -> None:
    tools = [external("s", "t" * 70 + end) for end in "abc"]
    assert len(expose_all(tools).tools) == 3


def test_names_that_lose_their_letters_stay_apart_and_stable() -> None:
    tools = [external("世界", "天気"), external("世界", "検索"), external("s", "é")]
    names = list(expose_all(tools).tools)
    assert len(set(names)) == 3
    assert names[0].startswith("mcp_________")
    assert names == list(expose_all(tools).tools)


ANY_TEXT = st.text(st.characters(), min_size=1)  # lone surrogates included
GROUPS = st.text(st.characters(exclude_characters="."), min_size=1)


OWN_GROUPS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


@given(
    st.tuples(GROUPS, st.just(True)) | st.tuples(OWN_GROUPS, st.just(False)),
    ANY_TEXT,
    st.sampled_from(NamingStyle),
)
@example(("\ud800", True), "x" * 100, DOUBLE)
@example(("s", True), "\n", BARE)
def test_every_exposed_name_is_legal(
    group: tuple[str, bool], name: str, style: NamingStyle
) -> None:
    tool = ToolDefinition(group=group[0], name=name, external=group[1])
    assert LEGAL.fullmatch(exposed_name(tool, style))
    assert exposed_name(tool, style) == exposed_name(tool, style)


# --- expose_as and collisions


def test_expose_as_wins_over_the_rule() -> None:  # A8, A28
    assert exposed_name(external("world", expose_as="weather")) == "weather"


@pytest.mark.parametrize("name", ["", "9lives", "a.b", "a b", "é", "x" * 65, "ok\n"])
def test_an_expose_as_that_providers_refuse_is_an_error(name: str) -> None:  # A12
    with pytest.raises(BadName, match=re.escape("world.forecast: expose_as")):
        exposed_name(external("world", expose_as=name))


def test_a_collision_names_both_tools_and_the_way_out() -> None:  # A8, N16
    exposed = expose_all(
        [external("a_b", "c"), external("a", "b_c"), external("a", "other")], SINGLE
    )
    assert list(exposed.tools) == ["mcp_a_other"]
    (collision,) = exposed.collisions
    assert str(collision) == (
        "a.b_c and a_b.c would both be exposed as 'mcp_a_b_c', so none of them is;"
        " give all but one another name with expose_as"
    )


def test_expose_as_settles_a_collision() -> None:
    tools = [external("a", "b_c"), external("a_b", "c", expose_as="other")]
    assert list(expose_all(tools, SINGLE).tools) == ["mcp_a_b_c", "other"]


def test_of_three_tools_with_one_name_none_is_exposed() -> None:
    tools = [external(server, "search") for server in ("web", "mail", "notes")]
    exposed = expose_all(tools, BARE)
    assert exposed.tools == {}
    said = "mail.search, notes.search and web.search would all be exposed as 'search'"
    assert said in str(exposed.collisions[0])


def test_an_external_tool_cannot_take_the_name_of_a_built_in() -> None:
    tools = [built_in("dice.roll"), external("casino", "roll")]
    assert list(expose_all(tools).tools) == ["roll", "mcp__casino__roll"]
    for order in (tools, tools[::-1]):
        exposed = expose_all(order, BARE)
        assert [x.key for x in exposed.tools.values()] == ["dice.roll"]
        assert str(exposed.collisions[0]) == (
            "casino.roll would be exposed as 'roll', which is the name of dice.roll,"
            " so casino.roll is left out; give another name with expose_as"
        )


def test_two_tools_of_this_process_with_one_name_are_an_error() -> None:
    with pytest.raises(NameCollision, match=r"dice\.roll and custom\.roll"):
        expose_all([built_in("dice.roll"), built_in("custom.roll")])


def test_an_expose_as_can_collide_too() -> None:
    exposed = expose_all([external("x", expose_as="roll"), built_in("dice.roll")])
    assert [x.kept for x in exposed.collisions] == ["dice.roll"]
    one = external("x", "one", expose_as="same")
    other = external("x", "two", expose_as="same")
    assert expose_all([one, other]).collisions[0].left_out == ("x.one", "x.two")


def test_two_tools_of_one_key_are_an_error_that_expose_as_cannot_settle() -> None:
    impostor = external("dice", "roll", expose_as="anything")
    with pytest.raises(NameCollision, match=r"a built-in and a server's"):
        expose_all([built_in("dice.roll"), impostor])


# --- grants


@pytest.mark.parametrize(
    "pattern", ["roll", "dice.roll", "dice.*", "dice", "ro*", "r?ll", "[pqr]oll", "*"]
)
def test_a_built_in_is_granted_by(pattern: str) -> None:
    assert granted(pattern, built_in("dice.roll"))


@pytest.mark.parametrize(
    "pattern",
    [
        "mcp__world__forecast",
        "world.forecast",
        "world.*",
        "*.forecast",
        "world",
        "mcp__world__*",
        "mcp__*",
        "*",
    ],
)
def test_an_external_tool_is_granted_by(pattern: str) -> None:
    assert granted(pattern, external("world"))


@pytest.mark.parametrize(
    "pattern",
    [
        "forecast",  # a bare tool name never reaches into a server
        "fore*",
        "*_forecast.*",
        "World.forecast",  # case counts
        "worl",
        "world.",
        "wor*",  # a glob without a dot is one of exposed names
        "mcp_world_forecast",
        "mcp__world",
        "world.forecas",
        "",
    ],
)
def test_an_external_tool_is_not_granted_by(pattern: str) -> None:
    assert not granted(pattern, external("world"))


def test_a_bare_tool_name_means_a_servers_tool_only_in_bare_style() -> None:
    tool = external("world")
    assert granted("forecast", tool, BARE)
    assert not granted("forecast", tool, SINGLE)


def test_a_glob_of_bare_names_does_not_reach_into_a_server() -> None:
    # The server chose the name so that it would match a grant of built-ins.
    assert not granted("get_*", external("evil", "get_summary"))
    assert not granted("get_*", external("get_evil", "summary"))


def test_a_tool_renamed_by_its_server_does_not_inherit_a_grant() -> None:
    # stacklok/toolhive#5749: a rename after filtering is a filter bypass.
    for pattern in ("world.forecast", "mcp__world__forecast"):
        assert granted(pattern, external("world", "forecast"))
        assert not granted(pattern, external("world", "delete_all"))


def test_expose_as_is_the_name_that_grants_use() -> None:
    tool = external("world", expose_as="weather")
    assert granted("weather", tool)
    assert granted("world.forecast", tool)
    assert not granted("mcp__world__forecast", tool)


@given(st.text("ab.*?[]!", max_size=8), st.text("ab", min_size=1, max_size=5))
def test_a_pattern_without_glob_characters_is_compared_literally(
    pattern: str, name: str
) -> None:
    tool = ToolDefinition(group="g", name=name)
    if is_glob(pattern):
        subject = f"g.{name}" if "." in pattern else name
        assert granted(pattern, tool) == fnmatchcase(subject, pattern)
    else:
        assert granted(pattern, tool) == (pattern in (name, f"g.{name}", "g"))


# --- names in full (D13a)


def test_a_name_in_full_is_the_exposed_name_or_the_key() -> None:
    tool = external("world", expose_as="weather")
    full = ["weather", "world.forecast"]
    for pattern in [*full, "world", "world.*", "*", "weathe?", "forecast"]:
        assert names_in_full(pattern, tool, "weather") == (pattern in full)


def test_a_tool_named_like_a_glob_is_not_approved_by_that_glob() -> None:
    # The operator wrote `world.*`, which grants; a tool called `*` wants more.
    tool = external("world", "*")
    assert not names_in_full("world.*", tool, exposed_name(tool))
    assert granted("world.*", tool)


# --- did you mean


def test_a_misspelt_name_finds_its_neighbours() -> None:  # D14
    known = ["roll", "roll_table", "read_file", "search_rules"]
    assert nearest("rol", known)[0] == "roll"
    assert nearest("serach_rules", known) == ("search_rules",)
    assert nearest("zzz", known) == ()
    assert nearest("roll", known, n=1) == ("roll",)
    assert nearest("roll", known, n=0) == ()


def test_a_bare_name_finds_the_servers_tool() -> None:
    known = ["mcp__world__forecast", "mcp__world__map", "recast"]
    assert nearest("forecast", known) == ("mcp__world__forecast", "recast")


@given(st.text(max_size=8), st.lists(st.text(max_size=8)), st.integers(0, 4))
def test_neighbours_are_known_distinct_and_few(
    word: str, known: list[str], n: int
) -> None:
    found = nearest(word, known, n)
    assert len(found) <= n
    assert len(set(found)) == len(found)
    assert set(found) <= set(known)


@given(st.lists(st.tuples(st.text("ab_", min_size=1), st.text("ab_", min_size=1))))
def test_exposing_all_loses_no_tool(pairs: list[tuple[str, str]]) -> None:
    tools = [external(group, name) for group, name in dict.fromkeys(pairs)]
    exposed = expose_all(tools)
    left_out = [key for one in exposed.collisions for key in one.left_out]
    assert {x.key for x in exposed.tools.values()}.isdisjoint(left_out)
    assert len(exposed.tools) + len(left_out) == len(tools)
    names = Counter(map(exposed_name, tools))
    assert set(exposed.tools) == {name for name, times in names.items() if times == 1}
