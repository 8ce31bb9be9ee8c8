"""The catalogue against a dict, and its snapshots against time (G1, D5, D13)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from glyphoxa_trio.host import Catalogue, Snapshot, UnknownTool
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.gate import Availability
from glyphoxa_trio.tools.naming import BadName, NameCollision, NamingStyle
from glyphoxa_trio.tools.schema import BadSchema
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier

from .fakes import fake

READY, RESTARTING, DOWN = Availability
GROUPS = ("dice", "world", "clock")


def estimate(
    seconds: float, source: EstimateSource = EstimateSource.DECLARED
) -> Estimate:
    return Estimate(
        seconds=seconds,
        tier=DEFAULT_LIMITS.tier_of(seconds),
        source=source,
        p50=None,
        p99=None,
        samples=0,
        degraded=None,
        tier_by_number=None,
    )


def reckon(definition: ToolDefinition) -> Estimate:
    return estimate(definition.estimated_duration or 2.0)


def catalogue(*tools: Tool, naming: NamingStyle = NamingStyle.DOUBLE) -> Catalogue:
    made = Catalogue(reckon, naming)
    made.register(tools)
    return made


def names(snapshot: Snapshot) -> list[str]:
    return [listing.exposed for listing in snapshot.listings]


@attrs.define
class Entry:
    """What the model knows of one tool."""

    tool: Tool
    estimate: Estimate
    availability: Availability = READY

    @property
    def exposed(self) -> str:
        definition = self.tool.definition
        if definition.expose_as:
            return definition.expose_as
        if definition.external:
            return f"mcp__{definition.group}__{definition.name}"
        return definition.name


def tools_of(groups: st.SearchStrategy[str]) -> st.SearchStrategy[Tool]:
    """Few names, so that they collide: within a group, by plain name, by alias."""
    return st.builds(
        fake,
        st.sampled_from(["look", "roll", "tell"]),
        group=groups,
        external=st.booleans(),
        estimated_duration=st.sampled_from([0.1, 1.0, 2.0]),
        expose_as=st.sampled_from([None, None, None, "look", "alias"]),
    )


def clash(model: dict[str, Entry], fresh: list[Entry]) -> bool:
    """Two under one key, or two tools of ours under one name."""
    entries = [*model.values(), *fresh]
    ours = [e.exposed for e in entries if not e.tool.definition.external]
    keys = {e.tool.key for e in entries}
    return len(keys) < len(entries) or len(set(ours)) < len(ours)


def left_out(model: dict[str, Entry]) -> set[str]:
    """The keys of servers' tools whose name is not theirs alone."""
    names = Counter(e.exposed for e in model.values())
    return {
        key
        for key, e in model.items()
        if e.tool.definition.external and names[e.exposed] > 1
    }


def contents(snapshot: Snapshot) -> tuple[Any, ...]:
    """Copies, so that a snapshot that changed would differ."""
    return (
        tuple(map(attrs.evolve, snapshot.listings)),
        dict(snapshot.by_exposed),
        dict(snapshot.by_key),
    )


class CatalogueMachine(RuleBasedStateMachine):
    """The model is a dict by key; a snapshot never changes once it is out."""

    def __init__(self) -> None:
        super().__init__()
        self.catalogue = Catalogue(reckon)
        self.model: dict[str, Entry] = {}
        self.seen: list[tuple[Snapshot, tuple[Any, ...]]] = []

    def entry(self, tool: Tool) -> Entry:
        return Entry(tool, reckon(tool.definition))

    @rule(tools=st.lists(tools_of(st.sampled_from(GROUPS)), max_size=3))
    def register(self, tools: list[Tool]) -> None:
        fresh = [self.entry(tool) for tool in tools]
        if clash(self.model, fresh):
            before = self.catalogue.current
            with pytest.raises(NameCollision):
                self.catalogue.register(tools)
            assert self.catalogue.current is before
            return
        self.catalogue.register(tools)
        self.model |= {entry.tool.key: entry for entry in fresh}

    @rule(data=st.data(), availability=st.sampled_from(Availability))
    def replace(self, data: st.DataObject, availability: Availability) -> None:
        group = data.draw(st.sampled_from(GROUPS))
        tools = data.draw(st.lists(tools_of(st.just(group)), max_size=3))
        others = {
            key: entry
            for key, entry in self.model.items()
            if entry.tool.definition.group != group
        }
        fresh: list[Entry] = []
        for tool in tools:
            known = self.model.get(tool.key)
            kept = known is not None and known.tool.definition == tool.definition
            number = known.estimate if kept and known else reckon(tool.definition)
            fresh.append(Entry(tool, number, availability))
        if clash(others, fresh):
            before = self.catalogue.current
            with pytest.raises(NameCollision):
                self.catalogue.replace(group, tools, availability)
            assert self.catalogue.current is before
            return
        self.catalogue.replace(group, tools, availability)
        self.model = others | {entry.tool.key: entry for entry in fresh}

    @rule(name=st.sampled_from([*GROUPS, "dice.look", "world.roll", "nothing"]))
    def deregister(self, name: str) -> None:
        gone = [
            key
            for key, entry in self.model.items()
            if name in (key, entry.tool.definition.group)
        ]
        assert sorted(self.catalogue.deregister(name)) == sorted(gone)
        for key in gone:
            del self.model[key]

    @rule(group=st.sampled_from(GROUPS), availability=st.sampled_from(Availability))
    def set_availability(self, group: str, availability: Availability) -> None:
        self.catalogue.set_availability(group, availability)
        for entry in self.model.values():
            if entry.tool.definition.group == group:
                entry.availability = availability

    @rule(
        key=st.sampled_from(["dice.look", "world.roll", "clock.tell", "no.tool"]),
        seconds=st.sampled_from([0.1, 0.4, 1.0, 2.0]),
    )
    def set_estimate(self, key: str, seconds: float) -> None:
        measured = estimate(seconds, EstimateSource.MEASURED)
        self.catalogue.set_estimate(key, measured)
        if key in self.model and key not in left_out(self.model):
            self.model[key].estimate = measured

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        current = self.catalogue.current
        assert {
            listing.key: (
                listing.tool,
                listing.exposed,
                listing.estimate,
                listing.availability,
            )
            for listing in current.offered
        } == {
            key: (entry.tool, entry.exposed, entry.estimate, entry.availability)
            for key, entry in self.model.items()
        }
        assert len(current.offered) == len(self.model)
        assert {x.key for x in current.left_out} == left_out(self.model)
        named = [key for one in current.collisions for key in one.left_out]
        assert sorted(named) == sorted(left_out(self.model))

    @invariant()
    def both_indexes_agree_with_the_list(self) -> None:
        current = self.catalogue.current
        assert current.by_key == {x.key: x for x in current.listings}
        assert current.by_exposed == {x.exposed: x for x in current.listings}
        for listing in current.listings:
            assert current.find(listing.exposed) is listing
            assert current.find(listing.key) is listing

    @invariant()
    def the_tools_of_a_tier_are_a_prefix_of_those_of_a_slower_one(self) -> None:
        current = self.catalogue.current
        keys = [(x.estimate.tier, x.key) for x in current.listings]
        assert keys == sorted(keys)
        for tier in Tier:
            fit = [x for x in current.listings if x.estimate.tier <= tier]
            assert fit == list(current.listings[: len(fit)])

    @invariant()
    def a_change_is_a_new_snapshot(self) -> None:
        current = self.catalogue.current
        if not self.seen or self.seen[-1][0] is not current:
            assert all(old.revision < current.revision for old, _ in self.seen)
            self.seen.append((current, contents(current)))

    def teardown(self) -> None:
        for snapshot, was in self.seen:
            assert contents(snapshot) == was


TestCatalogue = CatalogueMachine.TestCase


def test_two_tools_of_ours_with_one_name_are_refused_and_change_nothing() -> None:
    made = catalogue(fake("look", group="dice"))
    before = made.current
    with pytest.raises(NameCollision, match=r"dice\.look and world\.look"):
        made.register([fake("roll", group="world"), fake("look", group="world")])
    assert made.current is before


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (fake("look", expose_as="not a name"), BadName),
        (fake("look", parameters={"type": "object", "required": 5}), BadSchema),
    ],
)
def test_a_tool_that_is_no_good_keeps_the_others_out_too(
    bad: Tool, error: type[Exception]
) -> None:
    made = catalogue()
    with pytest.raises(error):
        made.register([fake("roll"), bad])
    assert made.current.listings == ()


def tools_of_servers(*keys: str, **rest: Any) -> list[Tool]:
    """Of servers with these keys, which may all come to one name."""
    return [
        fake(name, group=group, external=True, **rest)
        for group, _, name in (key.partition(".") for key in keys)
    ]


def test_two_tools_of_servers_with_one_name_are_left_out_and_no_others() -> None:
    made = catalogue(naming=NamingStyle.SINGLE)
    made.replace("a", tools_of_servers("a.b_c", "a.other"))
    assert names(made.current) == ["mcp_a_b_c", "mcp_a_other"]
    made.replace("a_b", tools_of_servers("a_b.c", "a_b.more"))
    assert names(made.current) == ["mcp_a_other", "mcp_a_b_more"]
    (one,) = made.current.collisions
    assert (one.name, one.left_out, one.kept) == ("mcp_a_b_c", ("a.b_c", "a_b.c"), None)
    with pytest.raises(UnknownTool, match=r"a\.b_c and a_b\.c .* expose_as"):
        made.current.find("a.b_c")
    # Whichever goes, the other one is back.
    made.deregister("a")
    assert made.current.find("mcp_a_b_c").key == "a_b.c"
    made.replace("a", tools_of_servers("a.b_c"))
    made.replace("a_b", tools_of_servers("a_b.renamed"))
    assert made.current.find("mcp_a_b_c").key == "a.b_c"
    assert made.current.collisions == ()


def test_two_tools_of_one_server_cost_it_only_these_two() -> None:
    made = catalogue()
    made.replace("s", tools_of_servers("s.get user", "s.get_user", "s.put", "s.take"))
    assert names(made.current) == ["mcp__s__put", "mcp__s__take"]


@pytest.mark.parametrize("ours_first", [True, False])
def test_no_server_takes_the_name_of_a_tool_of_ours(ours_first: bool) -> None:
    made = catalogue(naming=NamingStyle.BARE)
    ours = [fake("roll", group="dice")]
    if ours_first:
        made.register(ours)
    made.replace("casino", tools_of_servers("casino.roll", "casino.deal"))
    if not ours_first:
        made.register(ours)
    assert made.current.find("roll").key == "dice.roll"
    assert names(made.current) == ["deal", "roll"]
    (one,) = made.current.collisions
    assert (one.left_out, one.kept) == (("casino.roll",), "dice.roll")
    made.deregister("dice")
    assert made.current.find("roll").key == "casino.roll"


SERVERS = ("a", "a_b", "a_b_c", "x")


@given(
    data=st.data(),
    naming=st.sampled_from(NamingStyle),
    offers=st.fixed_dictionaries(
        {
            server: st.lists(
                st.sampled_from(["b_c", "c", "b c", "b_c_d", "d", "tool_search"]),
                unique=True,
                max_size=4,
            )
            for server in SERVERS
        }
    ),
)
def test_any_order_of_publishing_gives_the_same_catalogue(
    data: st.DataObject, naming: NamingStyle, offers: dict[str, list[str]]
) -> None:  # A8, N16
    def filled(order: list[str]) -> Snapshot:
        made = Catalogue(reckon, naming)
        for server in order:
            if server == "ours":
                made.register([fake("d", group="dice")])
                continue
            keys = [f"{server}.{name}" for name in offers[server]]
            made.replace(server, tools_of_servers(*keys))
        return made.current

    every = ["ours", *SERVERS]
    one = filled(every)
    # Some come twice: they were restarted, or renamed a tool and thought better.
    again = data.draw(st.lists(st.sampled_from(SERVERS), max_size=3))
    other = filled([*data.draw(st.permutations(every)), *again])
    assert names(one) == names(other)
    assert [x.key for x in one.listings] == [x.key for x in other.listings]
    assert [x.key for x in one.left_out] == [x.key for x in other.left_out]
    assert one.collisions == other.collisions
    lost = {x.key for x in one.left_out}
    assert lost == {key for c in one.collisions for key in c.left_out}
    assert all(len(c.left_out) + (c.kept is not None) > 1 for c in one.collisions)


def test_a_measured_tool_moves_to_its_place() -> None:
    made = catalogue(fake("a"), fake("b"), fake("c", estimated_duration=1.0))
    assert names(made.current) == ["a", "b", "c"]
    made.set_estimate("fake.a", estimate(1.2, EstimateSource.MEASURED))
    assert names(made.current) == ["b", "a", "c"]
    made.set_estimate("fake.a", estimate(2.0, EstimateSource.MEASURED))
    assert names(made.current) == ["b", "c", "a"]


def test_an_estimate_that_is_not_news_is_no_new_snapshot() -> None:
    made = catalogue(fake("look"))
    before = made.current
    made.set_estimate("fake.look", before.by_key["fake.look"].estimate)
    made.set_estimate("fake.gone", estimate(1))
    assert made.current is before


def test_a_tool_that_did_not_change_keeps_its_estimate_and_its_schema() -> None:
    made = catalogue(fake("look", group="world"), fake("roll", group="world"))
    made.set_estimate("world.look", estimate(0.2, EstimateSource.MEASURED))
    old = made.current.by_key
    made.replace(
        "world",
        [
            fake("look", group="world"),
            fake("roll", group="world", description="another"),
        ],
        RESTARTING,
    )
    new = made.current.by_key
    assert new["world.look"].estimate.source is EstimateSource.MEASURED
    assert new["world.look"].schema is old["world.look"].schema
    assert new["world.look"].tool is not old["world.look"].tool  # the new handler
    assert new["world.roll"].schema is not old["world.roll"].schema
    assert {listing.availability for listing in new.values()} == {RESTARTING}


def test_a_name_that_is_free_again_is_given_back() -> None:
    # A tool replaced by a server may take the name that its own old tool had.
    made = catalogue(fake("look", group="world"))
    made.replace("world", [fake("peek", group="world", expose_as="look")])
    assert made.current.find("look").key == "world.peek"


@pytest.mark.parametrize(
    ("style", "name"),
    [
        (NamingStyle.DOUBLE, "mcp__world__look"),
        (NamingStyle.SINGLE, "mcp_world_look"),
        (NamingStyle.BARE, "look"),
    ],
)
def test_the_naming_is_the_catalogues(style: NamingStyle, name: str) -> None:
    made = catalogue(fake("look", group="world", external=True), naming=style)
    assert names(made.current) == [name]


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    made = catalogue(fake("look_around"))
    with pytest.raises(UnknownTool, match="no tool 'look_arond', did you mean look_a"):
        made.current.find("look_arond")
    with pytest.raises(UnknownTool, match=r"no tool 'xyzzy'$"):
        made.current.find("xyzzy")


def test_a_snapshot_cannot_be_changed() -> None:
    snapshot = catalogue(fake("look")).current
    with pytest.raises(TypeError):
        snapshot.by_key["x"] = snapshot.listings[0]  # type: ignore[index]  # that is it
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        snapshot.revision = 7  # type: ignore[misc]  # that is it
