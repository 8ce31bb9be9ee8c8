"""An NPC with more tools than its model should be shown: found, loaded, called.

Rows N24, N25, N26, A9, A37, A38. Times are virtual and exact.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.npc import (
    Fallback,
    FellBack,
    ToolsShown,
    ToolStarted,
    TurnEnd,
)
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.gate import Grant, Reason
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

from .support import Heard, Ran, Reply, ask, call, open_table, protocol_faults

FAST, STANDARD, DEEP = Tier
SLOWLY = "think carefully"  # DEEP, where the ceiling allows it
ALL = Grant(npc="Bob", tools=("*",), allow_tools=("*.*",))
PLACES = ["harbour", "tavern", "temple", "market", "castle"]


def external(ran: Ran, count: int = 20, **more: Any) -> list[Tool]:
    """go_00 … of a server: each leads somewhere."""
    fields: dict[str, Any] = {"group": "world", "external": True} | more
    return [
        ran.tool(
            f"go_{n:02}",
            0.125,
            description=f"Go to the {PLACES[n % 5]} number {n}.",
            parameters={
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
            },
            **fields,
        )
        for n in range(count)
    ]


def system(request: LLMRequest) -> str:
    assert [message.role for message in request.messages].count("system") == 1
    assert request.messages[0].role == "system"
    return request.messages[0].content


def find(query: str, **more: Any) -> Any:
    return call("tool_search", json.dumps({"query": query, **more}))


async def test_a_model_finds_loads_and_calls_a_tool_in_one_turn(
    autojump_clock: MockClock,
) -> None:  # N25, N26
    ran = Ran()
    go = "mcp__world__go_07"
    script: list[Reply] = [
        [find("temple number 7", limit=1)],
        [call(go, '{"n": 7}')],
        ["You are there."],
        ["Again?"],
    ]
    tools = [ran.tool("own"), *external(ran)]
    async with open_table(script, *tools, grant=ALL) as table:
        heard = await ask(table.npc, SLOWLY)
        again = await ask(table.npc, SLOWLY)
    assert heard.done.text == "You are there."
    assert [o.status for o in heard.done.outcomes] == [Status.OK] * 2
    assert ran.began == [("go_07", 0)]
    assert table.llm.shown() == [
        ["own", "tool_search"],
        ["own", "tool_search", go],
        ["own", "tool_search", go],
        ["own", "tool_search", go],  # and for the rest of the conversation
    ]
    spec = table.llm.requests[1].tools[-1]
    assert spec.description == "Go to the temple number 7."
    assert spec.parameters["required"] == ["n"]
    told = table.llm.told(1)[-1]
    assert told[0] == "tool"
    assert json.loads(told[1])["data"]["tools"][0]["parameters"] == spec.parameters
    shown, *_ = heard.of(ToolsShown)
    assert shown.shown == ("own", "tool_search")
    assert len(shown.deferred) == 20
    assert [len(event.deferred) for event in again.of(ToolsShown)] == [19]
    started = [event.tool for event in heard.of(ToolStarted)]
    assert started == ["catalogue.tool_search", "world.go_07"]
    assert heard.done.timings.tools == 0.125  # searching costs no tool time
    faults = [protocol_faults(request.messages) for request in table.llm.requests]
    assert faults == [[]] * 4


async def test_the_summary_is_in_the_one_system_prompt_and_stays_as_it_is(
    autojump_clock: MockClock,
) -> None:  # N25: what a prompt cache begins with
    ran = Ran()
    npc = NpcConfig(name="Bob", budget_tier=DEEP, greeting="Well met.")
    script: list[Reply] = [[find("temple")], ["There."], ["Bye."]]
    async with open_table(script, *external(ran), grant=ALL, npc=npc) as table:
        await ask(table.npc, SLOWLY)
        await ask(table.npc, SLOWLY)
    first, *others = map(system, table.llm.requests)
    assert "You are Bob" in first
    assert "- mcp__world__go_19 (world): Go to the castle number 19." in first
    assert others == [first, first]
    assert (
        first.index("You are Bob") < first.index("tool_search") < first.index("go_00")
    )


async def test_fifteen_are_all_shown_and_nothing_is_said_of_it(
    autojump_clock: MockClock,
) -> None:  # N24
    ran = Ran()
    script: list[Reply] = [["Hm."]]
    tools = [ran.tool("own"), *external(ran, 15)]
    async with open_table(script, *tools, grant=ALL) as table:
        heard = await ask(table.npc, SLOWLY)
    assert len(table.llm.shown()[0]) == 16
    assert "tool_search" not in table.llm.shown()[0]
    assert "tool_search" not in system(table.llm.requests[0])
    assert heard.only(ToolsShown).deferred == ()


async def test_the_threshold_is_the_operators(autojump_clock: MockClock) -> None:
    ran = Ran()
    for threshold, shown in {2: ["tool_search"], 3: 3, 0: ["tool_search"]}.items():
        async with open_table(
            [["Hm."]], *external(ran, 3), grant=ALL, defer_threshold=threshold
        ) as table:
            await ask(table.npc, SLOWLY)
        names = table.llm.shown()[0]
        assert (names if threshold < 3 else len(names)) == shown


async def test_a_tool_called_without_loading_is_answered_with_its_schema(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    go = "mcp__world__go_03"
    script: list[Reply] = [
        [call(go, '{"place": "market"}')],
        [call(go, '{"n": 3}', id="b")],
        ["There."],
    ]
    async with open_table(script, *external(ran), grant=ALL) as table:
        heard = await ask(table.npc, SLOWLY)
    blind, seeing = heard.done.outcomes
    assert (blind.status, seeing.status) == (Status.SKIPPED, Status.OK)
    answer = json.loads(table.llm.told(1)[-1][1])
    assert answer["status"] == "skipped"
    assert answer["data"]["parameters"]["required"] == ["n"]
    assert table.llm.shown() == [["tool_search"], *[["tool_search", go]] * 2]
    assert len(ran.began) == 1
    assert heard.done.end is TurnEnd.COMPLETED
    assert heard.of(FellBack) == []


async def test_what_is_loaded_in_a_round_is_there_in_the_next_and_not_before(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    go = "mcp__world__go_07"
    script: list[Reply] = [
        [find("go_07"), call(go, '{"n": 1}')],
        [call(go, '{"n": 1}')],
        ["There."],
    ]
    async with open_table(script, *external(ran), grant=ALL) as table:
        heard = await ask(table.npc, SLOWLY)
    assert [o.status for o in heard.done.outcomes] == [
        Status.OK,
        Status.SKIPPED,
        Status.OK,
    ]


async def test_what_an_npc_may_not_use_is_neither_told_nor_found(
    autojump_clock: MockClock,
) -> None:  # A9, A37, A38: tier and grant, the same gate as ever
    ran = Ran()
    tools = [
        *external(ran),
        *external(ran, 3, group="vault"),
        ran.tool("travel", 3.0, group="world", external=True),
    ]
    some = Grant(npc="Bob", tools=("world.*",), allow_tools=("*.*",))
    script: list[Reply] = [
        [find("vault"), call("mcp__vault__go_01", '{"n": 1}'), find("travel")],
        ["No."],
    ]
    async with open_table(script, *tools, grant=some) as table:
        heard = await ask(table.npc, "remember?")  # STANDARD
    prompt = system(table.llm.requests[0])
    assert "vault" not in prompt
    assert "travel" not in prompt
    vault, denied, travel = heard.done.outcomes
    assert (vault.data["tools"], travel.data["tools"]) == ([], [])
    assert denied.status is Status.DENIED
    assert denied.data is None
    assert ran.began == []
    hidden = dict(heard.of(ToolsShown)[0].hidden)
    assert hidden["mcp__world__travel"].reason is Reason.OVER_TIER


async def test_what_no_longer_fits_the_turn_is_not_told_any_more(
    autojump_clock: MockClock,
) -> None:  # D4
    ran = Ran()
    slow = external(ran, 16, estimated_duration=1.0)
    wait = ran.tool("wait", 3.5)
    script: list[Reply] = [
        [call("wait")],
        [find("harbour"), call("mcp__world__go_00", '{"n": 0}')],
        ["Too late."],
    ]
    async with open_table(script, wait, *slow, grant=ALL) as table:
        heard = await ask(table.npc, SLOWLY)
    assert "mcp__world__go_00" in system(table.llm.requests[0])
    assert "mcp__world__" not in system(table.llm.requests[1])
    assert table.llm.shown() == [["wait", "tool_search"], [], []]
    assert [o.status for o in heard.done.outcomes[1:]] == [
        Status.DENIED,  # there is no search where there is nothing to find
        Status.SKIPPED,
    ]
    assert ran.began == [("wait", 0)]


async def test_two_npcs_load_each_for_itself(autojump_clock: MockClock) -> None:
    ran = Ran()
    script: list[Reply] = [[find("go_07", limit=1)], ["There."]]
    async with open_table(script, *external(ran), grant=ALL) as one:
        await ask(one.npc, SLOWLY)
    async with open_table([["Hm."]], *external(ran), grant=ALL) as other:
        await ask(other.npc, SLOWLY)
    assert one.llm.shown()[-1] == ["tool_search", "mcp__world__go_07"]
    assert other.llm.shown() == [["tool_search"]]


async def test_the_fifteen_used_last_stay_loaded(autojump_clock: MockClock) -> None:
    ran = Ran()

    def go(n: int) -> str:
        return f"mcp__world__go_{n:02}"

    def blind(*numbers: int) -> Reply:
        return [call(go(n), '{"n": 1}') for n in numbers]

    script: list[Reply] = [
        blind(*range(15)),
        [*blind(0), "I use the first.", *blind(15)],
        ["Well."],
    ]
    async with open_table(script, *external(ran), grant=ALL) as table:
        await ask(table.npc, SLOWLY)
    # The first was used since, so the second had to go.
    assert table.llm.shown()[-1] == [
        "tool_search",
        *(go(n) for n in (0, *range(2, 15), 15)),
    ]
    assert [name for name, _ in ran.began] == ["go_00"]


async def test_a_model_that_only_searches_comes_to_an_end(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    script: list[Reply] = [[find(f"x{n}")] for n in range(5)]
    async with open_table(script, *external(ran), grant=ALL) as table:
        heard = await ask(table.npc, SLOWLY)
    assert heard.only(FellBack).reason is Fallback.ROUNDS_EXHAUSTED
    assert table.llm.requests[-1].tools_forbidden


async def test_another_configuration_may_have_another_threshold(
    autojump_clock: MockClock,
) -> None:  # D16
    ran = Ran()
    script: list[Reply] = [["One."], ["Two."], ["Three."]]
    async with open_table(script, *external(ran), grant=ALL) as table:
        await ask(table.npc, SLOWLY)
        await table.reload(defer_threshold=20)
        await ask(table.npc, SLOWLY)
        await table.reload(grant=ALL)
        await ask(table.npc, SLOWLY)
    assert [len(names) for names in table.llm.shown()] == [1, 20, 20]


async def test_what_is_taken_away_in_a_turn_is_not_found_in_it(
    autojump_clock: MockClock,
) -> None:  # D16, A38: while the model was still writing
    ran = Ran()
    script: list[Reply] = [[2.0, find("temple", limit=10)], ["Hm."]]
    async with open_table(script, *external(ran), grant=ALL) as table:
        less = Grant(npc="Bob", tools=("*_02", "*_07"), allow_tools=("*.*",))
        async with trio.open_nursery() as nursery:
            heard = Heard()
            nursery.start_soon(partial(ask, table.npc, SLOWLY, heard=heard))
            await trio.sleep(1)
            await table.reload(grant=less)
    (outcome,) = heard.done.outcomes
    names = [tool["name"] for tool in outcome.data["tools"]]
    assert names == ["mcp__world__go_02", "mcp__world__go_07"]
