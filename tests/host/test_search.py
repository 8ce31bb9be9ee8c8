"""Too many tools to show: what a round shows instead, and the way to the rest.

Rows N24, N25, N26, A9, A10, A37, A38.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trio.testing import MockClock

from glyphoxa_trio.host import LoadedTools, ToolHost, VisibleTools, open_host, showing
from glyphoxa_trio.host.search import LOADED
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.gate import EVERYTHING, Availability, Grant, Reason
from glyphoxa_trio.tools.naming import NameCollision, NamingStyle
from glyphoxa_trio.tools.outcome import Outcome, Status
from glyphoxa_trio.tools.tier import Tier

from .fakes import Log, call, fake, fan_out

FAST, STANDARD, DEEP = Tier
GRANT = Grant(npc="Bob", tools=("fake", "world.*"), allow_tools=("world.*",))
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def world(count: int, log: Log | None = None, **definition: Any) -> list[Tool]:
    """So many external tools: t00, t01, …"""
    fields: dict[str, Any] = {
        "group": "world",
        "external": True,
        "read_only": True,
        "parameters": SCHEMA,
    }
    return [
        fake(
            f"t{n:02}",
            log=log,
            **{"description": f"Does number {n}."} | fields | definition,
        )
        for n in range(count)
    ]


def show(
    host: ToolHost,
    shelf: LoadedTools,
    *,
    grant: Grant = GRANT,
    tier: Tier = DEEP,
    remaining: float = 4.0,
    threshold: int = 15,
) -> VisibleTools:
    return showing(
        host.explain(tier, grant=grant, remaining=remaining),
        shelf,
        threshold=threshold,
        permitted=lambda left: host.tools(tier, grant=grant, remaining=left),
    )


def names(listings: Sequence[Any]) -> list[str]:
    return [listing.definition.name for listing in listings]


async def run(
    host: ToolHost, view: VisibleTools, *calls: Any, grant: Grant = GRANT, **caller: Any
) -> list[Outcome]:
    return await fan_out(host, *calls, grant=grant, showing=view, **caller)


# --------------------------------------------------------------- what is shown


@pytest.mark.parametrize(("count", "deferred"), [(14, 0), (15, 0), (16, 16), (40, 40)])
async def test_fifteen_external_tools_are_shown_and_one_more_is_not(
    autojump_clock: MockClock, count: int, deferred: int
) -> None:  # N24, N25
    async with open_host() as host:
        host.register(fake("own"), fake("other"), *world(count))
        view = show(host, LoadedTools())
    assert len(view.deferred) == deferred
    if deferred:
        assert names(view.shown) == ["other", "own", "tool_search"]
        assert all(f"- mcp__world__t{n:02} (world): " in view.summary for n in (0, 15))
    else:
        assert view.shown == host.tools(grant=GRANT)
        assert view.summary == ""
        assert view.search is None


@pytest.mark.parametrize(("count", "deferred"), [(15, 0), (16, 18)])
async def test_tools_that_we_add_to_a_server_are_not_counted(
    autojump_clock: MockClock, count: int, deferred: int
) -> None:  # N24
    async with open_host() as host:
        more = [
            attrs.evolve(fake(name, group="world", external=True), added=True)
            for name in ("list_resources", "read_resource")
        ]
        host.register(*world(count), *more)
        view = show(host, LoadedTools())
    assert len(view.deferred) == deferred
    assert len(view.shown) == (1 if deferred else count + 2)


async def test_only_what_the_gate_lets_through_is_counted_and_told(
    autojump_clock: MockClock,
) -> None:  # A9, A10, A37: the one gate before, and nothing past it
    async with open_host() as host:
        host.register(
            *world(16),
            *world(16, group="secret"),
            fake("slow", group="world", external=True, estimated_duration=3.0),
        )
        host.publish("down", Availability.DOWN, world(5, group="down"))
        some = Grant(npc="Bob", tools=("world.*", "down.*"), allow_tools=("*.*",))
        deep = show(host, LoadedTools(), grant=some)
        assert len(deep.deferred) == 17
        assert "secret" not in deep.summary
        assert "down" not in deep.summary
        assert [no.reason for x, no in deep.hidden if x.definition.group == "down"] == [
            Reason.UNAVAILABLE
        ] * 5
        quick = show(host, LoadedTools(), grant=some, tier=STANDARD)
        assert "slow" not in quick.summary
        late = show(host, LoadedTools(), grant=some, remaining=0.005)
        assert (late.shown, late.deferred) == ((), ())  # nothing fits, nothing leads on
        untrusted = attrs.evolve(some, allow_tools=("world.t0*",))
        assert len(show(host, LoadedTools(), grant=untrusted).shown) == 10


async def test_the_prefix_stays_when_a_tool_is_loaded_and_when_the_tier_rises(
    autojump_clock: MockClock,
) -> None:  # a model's prompt cache
    async with open_host() as host:
        slow = world(20, estimated_duration=1.0, group="far")
        host.register(fake("own"), *world(20), *slow)
        grant = Grant(tools=("*", "*.*"), allow_tools=("*.*",))
        shelf = LoadedTools()
        fast = show(host, shelf, grant=grant, tier=FAST)
        deep = show(host, shelf, grant=grant)
        assert deep.summary.startswith(fast.summary)
        assert names(deep.shown) == names(fast.shown)
        for n, key in enumerate(("world.t07", "far.t03", "world.t02")):
            shelf.load(key)
            more = show(host, shelf, grant=grant)
            assert names(more.shown)[: 2 + n] == names(deep.shown)[: 2 + n]
            assert more.shown[-1].key == key
            assert more.summary == deep.summary
            deep = more
        assert len(deep.deferred) == 37


async def test_a_loaded_tool_that_may_not_run_is_not_shown(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(*world(20))
        shelf = LoadedTools()
        shelf.load("world.t01")
        shelf.load("world.gone")
        assert names(show(host, shelf).shown) == ["tool_search", "t01"]
        host.deregister("world.t01")
        assert names(show(host, shelf).shown) == ["tool_search"]


# --------------------------------------------------------- finding and loading


async def test_a_search_answers_with_schemas_and_loads_for_the_next_round(
    autojump_clock: MockClock,
) -> None:  # N26
    log = Log()
    async with open_host() as host:
        host.register(*world(20, log))
        shelf = LoadedTools()
        view = show(host, shelf)
        query = call("tool_search", "1", query="number 7", limit=1)
        early = call("mcp__world__t07", "2", n=1)
        found, refused = await run(host, view, query, early)
        assert found.status is Status.OK
        assert found.tool == "catalogue.tool_search"
        assert found.data == {
            "found": "Loaded, to be called from your next step on: mcp__world__t07",
            "tools": [
                {
                    "name": "mcp__world__t07",
                    "description": "Does number 7.",
                    "parameters": SCHEMA,
                }
            ],
        }
        # The round stays what it was, whatever was loaded in it.
        assert refused.status is Status.SKIPPED
        assert log.began == []
        view = show(host, shelf)
        assert names(view.shown) == ["tool_search", "t07"]
        assert "world.t07" not in [x.key for x in view.deferred]
        (answer,) = await run(host, view, early)
        assert answer.status is Status.OK
    assert log.names() == ["t07"]


async def test_a_call_of_a_deferred_tool_is_answered_with_its_schema(
    autojump_clock: MockClock,
) -> None:
    # Also if its arguments fit: they were guessed.
    log = Log()
    async with open_host() as host:
        host.register(*world(16, log, read_only=False))
        shelf = LoadedTools()
        for right in (False, True):
            arguments = {"n": 1} if right else {"m": "?"}
            key = f"mcp__world__t0{int(right)}"
            view = show(host, shelf)
            (end,) = await run(host, view, call(key, **arguments))
            assert end.status is Status.SKIPPED
            assert "was not loaded, so it was not run" in end.message
            assert end.data["name"] == key
            assert end.data["parameters"] == SCHEMA
            assert end.elapsed == 0
            shelf.settle()
            assert shelf.keys[-1] == f"world.t0{int(right)}"
        assert log.began == []
        assert host.statistics().executor.refusals == {Reason.NOT_LOADED: 2}
        view = show(host, shelf)
        ends = await run(
            host, view, call("world.t00", n=1), call("world.t01", "b", n=1)
        )
        assert [end.status for end in ends] == [Status.OK] * 2  # by its key, too


@pytest.mark.parametrize(
    ("grant", "tier", "reason"),
    [
        (Grant(tools=("fake",)), DEEP, Reason.NOT_GRANTED),
        (Grant(tools=("world.*",)), DEEP, Reason.NOT_TRUSTED),
        (GRANT, FAST, Reason.OVER_TIER),
    ],
)
async def test_the_gate_comes_before_what_is_loaded(
    autojump_clock: MockClock, grant: Grant, tier: Tier, reason: Reason
) -> None:  # A38: a refusal tells no schema and loads nothing
    async with open_host() as host:
        host.register(*world(20, estimated_duration=1.0))
        shelf = LoadedTools()
        view = show(host, shelf)
        (end,) = await run(
            host, view, call("world.t03", n=1), grant=grant, tier=tier, within=4.0
        )
        assert host.statistics().executor.refusals == {reason: 1}
        assert end.data is None
        shelf.settle()
        assert shelf.keys == ()


async def test_a_search_finds_only_what_may_run_at_that_moment(
    autojump_clock: MockClock,
) -> None:  # N26: tier, grants and budget
    async with open_host() as host:
        host.register(
            *world(16),
            fake("river", group="hidden", external=True),
            fake("river", group="world", external=True, estimated_duration=1.0),
            fake("brook", group="world", external=True, description="A small river."),
            fake("river_of_ours", group="fake"),
        )
        shelf = LoadedTools()
        view = show(host, shelf)

        async def rivers(within: float) -> list[str]:
            (end,) = await run(
                host, view, call("tool_search", query="river"), within=within
            )
            return [tool["name"] for tool in end.data["tools"]]

        assert await rivers(4.0) == ["mcp__world__river", "mcp__world__brook"]
        assert await rivers(0.5) == ["mcp__world__brook"]
        host.publish("world", Availability.DOWN, None)
        assert await rivers(4.0) == []


async def test_a_search_that_finds_nothing_says_so(autojump_clock: MockClock) -> None:
    async with open_host() as host:
        host.register(*world(16))
        shelf = LoadedTools()
        (end,) = await run(
            host, show(host, shelf), call("tool_search", query="dragons")
        )
    assert end.ok
    assert end.data["tools"] == []
    assert "try others" in end.message
    shelf.settle()
    assert shelf.keys == ()


@pytest.mark.parametrize(
    "arguments",
    ['{"query": ""}', "{}", '{"query": "x", "limit": 11}', '{"query": "x", "y": 1}'],
)
async def test_a_search_is_checked_like_any_call(
    autojump_clock: MockClock, arguments: str
) -> None:
    async with open_host() as host:
        host.register(*world(16))
        view = show(host, LoadedTools())
        bad = call("tool_search")
        (end,) = await run(host, view, type(bad)(bad.id, bad.name, arguments))
    assert end.status is Status.INVALID_ARGUMENTS


async def test_two_conversations_load_each_for_itself(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(*world(20))
        ours, theirs = LoadedTools(), LoadedTools()
        await run(host, show(host, ours), call("tool_search", query="7", limit=1))
        ours.settle()
        theirs.settle()
        assert ours.keys == ("world.t07",)
        assert theirs.keys == ()
        other = Grant(tools=("world.t0*",), allow_tools=("world.*",))
        assert show(host, theirs, grant=other).search is None


async def test_there_is_no_search_where_nothing_is_deferred(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(*world(15))
        view = show(host, LoadedTools())
        for shown in (view, None):
            (end,) = await fan_out(
                host, call("tool_search", query="x"), grant=EVERYTHING, showing=shown
            )
            assert end.status is Status.DENIED
            assert "there is no tool 'tool_search'" in end.message


async def test_without_a_showing_nothing_is_deferred(
    autojump_clock: MockClock,
) -> None:  # the operator's own calls
    async with open_host() as host:
        host.register(*world(40))
        assert (await host.execute("world.t33", {"n": 1})).ok


# ------------------------------------------------------------------- its names


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("tool_search", {"group": "mine"}),
        ("find", {"expose_as": "tool_search"}),
        ("tool_search", {"group": "catalogue", "expose_as": "other"}),
    ],
)
async def test_its_names_are_taken(
    autojump_clock: MockClock, name: str, definition: dict[str, Any]
) -> None:  # A8, N16: a collision names both, and is settled by `expose_as`
    async with open_host() as host:
        with pytest.raises(NameCollision, match=r"catalogue\.tool_search"):
            host.register(fake(name, **definition))
        host.register(fake("tool_search", group="mine", expose_as="mine"))


async def test_a_server_cannot_pass_its_tool_off_as_the_search(
    autojump_clock: MockClock,
) -> None:
    async with open_host(naming=NamingStyle.BARE) as host:
        sly = [*world(16), fake("tool_search", group="world", external=True)]
        host.publish("world", Availability.READY, sly)
        assert len(host.snapshot.listings) == 16
        (collision,) = host.snapshot.collisions
        assert collision.left_out == ("world.tool_search",)
        assert collision.kept == "catalogue.tool_search"


# ---------------------------------------------------------------- loaded tools


class ShelfMachine(RuleBasedStateMachine):
    """Against a list of (key, when used), in the order of loading."""

    def __init__(self) -> None:
        super().__init__()
        self.shelf = LoadedTools(capacity=3)
        self.model: list[list[Any]] = []
        self.round: set[tuple[int, str]] = set()  # uses before loads, by key
        self.now = 0

    @rule(key=st.sampled_from("abcdef"))
    def load(self, key: str) -> None:
        self.shelf.load(key)
        self.round.add((2, key))

    @rule(key=st.sampled_from("abcdef"))
    def use(self, key: str) -> None:
        self.shelf.use(key)
        if key in self.keys():
            self.round.add((1, key))

    @rule()
    def settle(self) -> None:
        self.shelf.settle()
        for _, key in sorted(self.round):
            self.now += 1
            if key in self.keys():
                self.model[self.keys().index(key)][1] = self.now
            else:
                self.model.append([key, self.now])
        while len(self.model) > 3:
            self.model.remove(min(self.model, key=lambda one: one[1]))
        self.round.clear()

    def keys(self) -> list[str]:
        return [key for key, _ in self.model]

    @invariant()
    def same(self) -> None:
        assert list(self.shelf.keys) == self.keys()


TestShelf = ShelfMachine.TestCase


def test_a_shelf_keeps_fifteen() -> None:
    shelf = LoadedTools()
    for n in range(40):
        shelf.load(f"{n:02}")
        shelf.settle()
    assert shelf.keys[0] == "25"
    assert len(shelf.keys) == LOADED == 15


async def test_what_a_search_answers_can_be_told_to_a_model(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(*world(20, description="x" * 100_000))
        view = show(host, LoadedTools())
        (end,) = await run(host, view, call("tool_search", query="t01 t02", limit=10))
    assert len(json.dumps(end.data)) < 10 * 3000
