"""Calls that another process makes, or that are made for one. Virtual time, exact."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import (
    AnswerElsewhere,
    CatalogueEntry,
    Sampled,
    ToolHost,
    open_host,
)
from glyphoxa_trio.tools.cache import CacheKey
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolDefinition,
    ToolUnavailable,
)
from glyphoxa_trio.tools.history import ToolPlace
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.window import SampleKind

from .fakes import Does, Log, fake, fan_out, statuses

LOOK = ToolPlace("local", "", "fake.look")
FAR = AnswerElsewhere(ToolResult(text=("far",)), 10)


@attrs.define
class Other:
    """The other process: it answers after ``takes`` seconds, or says that it will not.

    ``asked``: which calls it was asked for, and when.
    """

    takes: float = 0.1
    answer: AnswerElsewhere | None = FAR
    asked: list[tuple[CacheKey, float]] = attrs.field(factory=list)

    def shares(self, listing: CatalogueEntry, key: CacheKey, _: CallContext) -> bool:
        return listing.definition.read_only

    async def ask(
        self, listing: CatalogueEntry, key: CacheKey, context: CallContext
    ) -> AnswerElsewhere | None:
        self.asked.append((key, trio.current_time()))
        await trio.sleep(self.takes)
        return self.answer


def look(log: Log, seconds: float = 0.2, **more: Any) -> Tool:
    fields = {"read_only": True, "cacheable": 20, **more}
    return fake("look", seconds, log=log, **fields)


def sampled(host: ToolHost, stack: ExitStack) -> list[Any]:
    found: list[Any] = []

    def note(event: object) -> None:
        if isinstance(event, Sampled):
            found.append((event.sample.kind, event.sample.seconds))

    stack.enter_context(host.events.tap(note))
    return found


async def test_an_answer_of_another_process_is_cached_as_long_as_it_is_valid(
    autojump_clock: MockClock,
) -> None:
    log, other = Log(), Other()
    async with open_host() as host:
        host.register(look(log))
        with host.sharing_calls(other), ExitStack() as stack:
            samples = sampled(host, stack)
            (first,) = await fan_out(host, "look", tenant="guild")
            assert (first.message, first.elapsed, first.cached) == ("far", 0.1, False)
            await trio.sleep(9.5)
            (again,) = await fan_out(host, "look", tenant="guild")
            assert again.cached
            await trio.sleep(1)
            await fan_out(host, "look", tenant="guild")
            assert [x for _, x in other.asked] == [0, 10.6]
            assert {x.scope for x, _ in other.asked} == {"guild"}
            assert (log.began, samples) == ([], [])
        await trio.sleep(20)
        (own,) = await fan_out(host, "look")  # nobody is asked any more
        assert own.message == "look"


async def test_without_an_answer_the_call_is_made_here_and_measured_by_itself(
    autojump_clock: MockClock,
) -> None:
    log, other = Log(), Other(answer=None)
    async with open_host() as host:
        host.register(look(log))
        with host.sharing_calls(other), ExitStack() as stack:
            samples = sampled(host, stack)
            ends = await fan_out(host, "look", "look")
            assert [x.message for x in ends] == ["look", "look"]
            assert [x.elapsed for x in ends] == pytest.approx([0.3, 0.3])
            assert log.began == [("look", 0.1)]
            await wait_all_tasks_blocked()
            assert samples == [(SampleKind.OK, pytest.approx(0.2))]


async def test_a_caller_that_leaves_while_another_process_is_asked_says_nothing(
    autojump_clock: MockClock,
) -> None:
    log, other = Log(), Other(takes=5)
    async with open_host() as host:
        host.register(look(log))
        with host.sharing_calls(other), ExitStack() as stack:
            samples = sampled(host, stack)
            ends = await fan_out(host, "look", within=0.3)
            assert statuses(ends) == ["timeout"]
            assert trio.current_time() == 0.3
            await wait_all_tasks_blocked()
            assert (log.began, samples) == ([], [])


async def test_a_call_that_began_late_has_not_had_its_whole_limit(
    autojump_clock: MockClock,
) -> None:
    log, other = Log(), Other(answer=None)
    async with open_host() as host:
        host.register(look(log, 3, max_duration=0.4))
        with host.sharing_calls(other), ExitStack() as stack:
            samples = sampled(host, stack)
            ends = await fan_out(host, "look", within=2)
            assert statuses(ends) == ["timeout"]
            assert trio.current_time() == 0.4
            await wait_all_tasks_blocked()
            assert samples == [(SampleKind.CENSORED, pytest.approx(0.3))]


async def test_an_answer_that_a_write_here_has_outdated_is_not_cached(
    autojump_clock: MockClock,
) -> None:
    log, other = Log(), Other(takes=0.3)
    async with open_host() as host:
        host.register(look(log), fake("write", 0.1))
        with host.sharing_calls(other):
            await fan_out(host, "look", "write")
            await fan_out(host, "look", "write")
        assert len(other.asked) == 2


async def test_calls_that_tell_of_the_tool_or_are_not_cached_are_made_here(
    autojump_clock: MockClock,
) -> None:
    log, other = Log(), Other()
    on_trial = look(log, estimated_duration=None)
    now = fake("now", 0.1, read_only=True, log=log)
    bad = fake("bad", 0.1, Does.CRASH, read_only=True, cacheable=9, log=log)
    async with open_host() as host:
        host.register(on_trial, now, bad)
        for _ in range(5):  # its breaker opens
            await fan_out(host, "bad")
        with host.sharing_calls(other):
            await trio.sleep(40)
            ends = await fan_out(host, "look", "now", "bad")
            assert statuses(ends) == ["ok", "ok", "crashed"]
            assert other.asked == []


async def test_another_process_s_call_is_shared_with_those_made_here(
    autojump_clock: MockClock,
) -> None:
    log, other = Log(), Other()
    async with open_host() as host, trio.open_nursery() as nursery:
        host.register(look(log))
        nursery.start_soon(fan_out, host, "look")
        await wait_all_tasks_blocked()
        with host.sharing_calls(other):
            with host.call_for_others(LOOK, "{}", tenant="", within=5) as call:
                assert not call.is_cached
                assert await call.answer() == AnswerElsewhere(
                    ToolResult(text=("look",)), 20
                )
            await trio.sleep(5)
            with host.call_for_others(LOOK, " {} ", tenant="", within=5) as call:
                assert call.is_cached
                assert (await call.answer()).valid_for == 15
            with host.call_for_others(LOOK, "{}", tenant="guild", within=5) as call:
                assert not call.is_cached  # it is not the guild's
                await call.answer()
        assert log.began == [("look", 0), ("look", 5.2)]
        assert other.asked == []  # whoever is asked makes the call


async def test_two_processes_that_ask_each_other_do_not_wait_for_each_other(
    autojump_clock: MockClock,
) -> None:
    log, other = Log(), Other(takes=50)
    async with open_host() as host, trio.open_nursery() as nursery:
        host.register(look(log))
        with host.sharing_calls(other):
            nursery.start_soon(fan_out, host, "look")
            await wait_all_tasks_blocked()
            with host.call_for_others(LOOK, "{}", tenant="", within=5) as call:
                await call.answer()
        assert log.began == [("look", 0)]


async def test_a_failure_is_no_answer_and_nobody_waits_longer_than_asked_for(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(look(log, 3))
        with host.call_for_others(LOOK, "{}", tenant="", within=0.5) as call:
            with pytest.raises(ToolUnavailable, match="in time"):
                await call.answer()
        assert trio.current_time() == 0.5
        await wait_all_tasks_blocked()
        assert log.cancelled == [("look", 0.5)]
        host.deregister("fake.look")
        broken = fake("look", 0.1, Does.SAY_NO, read_only=True, cacheable=20, log=log)
        host.register(broken)
        with host.call_for_others(LOOK, "{}", tenant="", within=0.5) as call:
            with pytest.raises(ToolUnavailable, match="failed"):
                await call.answer()


@pytest.mark.parametrize(
    ("more", "place", "arguments"),
    [
        ({}, ToolPlace("the moon", "", "fake.look"), "{}"),
        ({}, ToolPlace("local", "", "fake.rob"), "{}"),
        ({"read_only": False, "idempotent": True}, LOOK, "{}"),
        ({"per_npc": True}, LOOK, "{}"),
        ({"cacheable": 0}, LOOK, "{}"),
        ({"estimated_duration": None}, LOOK, "{}"),
        ({}, LOOK, "not JSON"),
        ({"parameters": {"type": "object", "required": ["x"]}}, LOOK, "{}"),
    ],
)
async def test_what_is_not_the_same_here_or_has_effects_is_not_called_for_others(
    autojump_clock: MockClock, more: Mapping[str, Any], place: ToolPlace, arguments: str
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(look(log, **more))
        with pytest.raises(ToolUnavailable):
            host.call_for_others(place, arguments, tenant="", within=5)
        assert log.began == []


async def test_a_session_s_own_connection_and_a_thread_make_no_calls_for_others(
    autojump_clock: MockClock,
) -> None:
    definition = ToolDefinition(
        name="look", group="fake", read_only=True, cacheable=9, estimated_duration=0.1
    )

    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        return ToolResult()

    whole = Tool(definition=definition, handler=handler)
    per_session = attrs.evolve(whole, per_session=True)
    for tool in (per_session, attrs.evolve(whole, blocking=True)):
        async with open_host() as host:
            host.register(tool)
            with pytest.raises(ToolUnavailable, match="not shared"):
                host.call_for_others(LOOK, "{}", tenant="", within=5)
