"""A second model when the first fails: who goes on, with what, and when the first is
asked again. Two models that a test plays; times are exact."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import Backoff
from glyphoxa_trio.config.voices import S2SConfig
from glyphoxa_trio.npc import ModelFailed, ModelSwitched, TurnEnd
from glyphoxa_trio.npc.s2s import LiveSettings, RealtimeConversation
from glyphoxa_trio.npc.s2s.choice import Choices, ModelChoice
from glyphoxa_trio.providers.chain import ModelCandidate
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    S2S,
    Capabilities,
    LinkClosed,
    Respond,
    SendText,
    TranscriptLine,
)

from ..support import Table, ask, open_table
from .support import ANSWERS, ASKS, Links, lost
from .test_turns import BOB, Model

BACKOFF = Backoff(first=0.5, ceiling=4.0, max_restarts=3, jitter=0.0)
ASKED_AT_ONE_RATE = attrs.evolve(ANSWERS, input_rate=24_000)
WIRES = pytest.mark.parametrize(
    ("one", "other"),
    [(ASKS, ASKED_AT_ONE_RATE), (ASKED_AT_ONE_RATE, ASKS)],
    ids=["asks-answers", "answers-asks"],
)


def refused(kind: ErrorKind = ErrorKind.OVERLOADED, **more: Any) -> LinkClosed:
    return LinkClosed(kind, "no", **{"retryable": False, **more})


@attrs.define
class Two:
    """The table, and the links of both models."""

    table: Table
    first: Links
    second: Links
    warnings: list[str]

    def switches(self) -> list[tuple[str, str, str]]:
        found = self.table.events.all(ModelSwitched)
        return [(x.model, x.instead_of, x.reason) for x in found]


@asynccontextmanager
async def two_models(
    one: Capabilities = ASKS, other: Capabilities = ASKS, **first: Any
) -> AsyncIterator[Two]:
    answers: list[Any] = [([f"Answer {i}."], []) for i in range(9)]
    links = Links(one, on_send=Model(*answers), **first)
    spare = Links(other, on_send=Model(*answers))
    warnings: list[str] = []
    live = RealtimeConversation(
        provider=links,
        voice="marin",
        choices=Choices(
            [
                ModelChoice(
                    ModelCandidate("one", links, warnings.append), links, "marin"
                ),
                ModelChoice(
                    ModelCandidate("two", spare, warnings.append), spare, "Puck", "en"
                ),
            ]
        ),
        settings=LiveSettings(backoff=BACKOFF),
    )
    s2s = S2SConfig(route=False)
    async with open_table([], npc=BOB, live=live, s2s=s2s) as table:
        yield Two(table, links, spare, warnings)
    assert [*links.faults, *spare.faults] == []


@WIRES
async def test_one_that_cannot_be_opened_is_answered_for_by_the_next_at_once(
    one: Capabilities, other: Capabilities, autojump_clock: MockClock
) -> None:
    began = trio.current_time()
    async with two_models(one, other, refusals=deque([refused()])) as two:
        heard = await ask(two.table.npc, "Well?")
        assert (heard.done.text, heard.done.end) == ("Answer 0.", TurnEnd.COMPLETED)
        assert trio.current_time() == began  # nobody waited
        assert two.switches() == [("two", "one", "overloaded: no")]
        assert heard.of(ModelFailed) == []
        (link,) = two.second.opened
        assert (link.setup.voice, link.setup.language) == ("Puck", "en")
        # It is asked as its wire wants to be asked, whatever the first one wanted.
        assert len(link.all(Respond)) == other.asks_for_responses
        assert two.warnings == ["scripted at home: overloaded: no"]


@WIRES
async def test_one_that_ends_for_good_is_followed_by_the_next_with_its_history(
    one: Capabilities, other: Capabilities, autojump_clock: MockClock
) -> None:
    async with two_models(one, other) as two:
        assert (await ask(two.table.npc, "Who are you?")).done.text == "Answer 0."
        two.first.last.push(refused(ErrorKind.AUTHENTICATION))
        await wait_all_tasks_blocked()
        heard = await ask(two.table.npc, "And now?")
        assert heard.done.text == "Answer 0."
        assert two.switches() == [("two", "one", "authentication: no")]
        (link,) = two.second.opened
        assert link.setup.history == (
            TranscriptLine("user", "Who are you?"),
            TranscriptLine("assistant", "Answer 0."),
        )
        assert link.setup.handle is None


async def test_a_turn_that_runs_is_told_to_the_next_one(
    autojump_clock: MockClock,
) -> None:
    async with two_models() as two:
        await ask(two.table.npc, "Who are you?")
        two.first.on_send = lambda link, command: (
            link.push(refused()) if isinstance(command, Respond) else None
        )
        two.first.last.on_send = two.first.on_send
        heard = await ask(two.table.npc, "And now?")
        assert (heard.done.text, heard.done.end) == ("Answer 0.", TurnEnd.COMPLETED)
        assert heard.only(ModelSwitched).model == "two"
        (link,) = two.second.opened
        assert [x.line.text for x in link.all(SendText)] == ["And now?"]


async def test_a_socket_that_is_only_lost_is_opened_at_the_same_model(
    autojump_clock: MockClock,
) -> None:
    async with two_models() as two:
        await ask(two.table.npc, "Who are you?")
        two.first.last.push(lost(1001))
        await wait_all_tasks_blocked()
        assert (await ask(two.table.npc, "And now?")).done.text == "Answer 1."
        assert (len(two.first.opened), two.second.opened) == (2, [])
        assert two.switches() == []


async def test_the_first_is_asked_again_while_nobody_speaks(
    autojump_clock: MockClock,
) -> None:
    async with two_models(refusals=deque([refused(), refused()])) as two:
        await ask(two.table.npc, "Well?")
        began = trio.current_time()
        await trio.sleep(29.9)
        assert len(two.first.tried) == 1
        await trio.sleep(0.2)  # in vain: the other one serves on
        assert two.first.tried[1] == began + 30
        assert not two.second.last.closed
        assert (await ask(two.table.npc, "And?")).done.text == "Answer 1."
        await trio.sleep(60)
        assert two.first.tried[2] == pytest.approx(began + 60, abs=1)
        assert two.second.last.closed
        assert (await ask(two.table.npc, "So?")).done.text == "Answer 0."
        assert two.first.last.setup.voice == "marin"
        assert two.first.last.setup.history[0] == TranscriptLine("user", "Well?")
        assert len(two.switches()) == 1
        await trio.sleep(300)
        assert len(two.first.tried) == 3  # and stays


async def test_when_all_fail_the_turn_fails_and_the_next_one_tries_again(
    autojump_clock: MockClock,
) -> None:
    async with two_models(refusals=deque([refused(), refused()])) as two:
        two.second.refusals.append(refused(ErrorKind.RATE_LIMITED))
        heard = await ask(two.table.npc, "Well?")
        assert heard.done.end is TurnEnd.FAILED
        assert heard.only(ModelFailed).kind is ErrorKind.RATE_LIMITED
        assert (len(two.first.tried), len(two.second.tried)) == (1, 1)
        await trio.sleep(40)
        assert (await ask(two.table.npc, "Well?")).done.text == "Answer 0."
        assert len(two.second.opened) == 1


async def test_one_that_fails_everybody_is_not_asked_by_anybody(
    autojump_clock: MockClock,
) -> None:
    links, spare = Links(), Links()
    candidate: ModelCandidate[S2S] = ModelCandidate("one", links)
    of = [
        ModelChoice(candidate, links),
        ModelChoice(ModelCandidate("two", spare), spare),
    ]
    for number in range(7):
        found = Choices(of).pick(trio.current_time())
        if number >= 5:  # five in a row were enough
            assert found is not None
            assert found[0] == 1
            continue
        assert found is not None
        assert found[0] == 0
        Choices(of).failed(0, found[1], refused(), trio.current_time())
    assert Choices(of).back_at(1, trio.current_time()) == trio.current_time() + 10
