"""Chains of models: the one that answers, and when. Times are virtual and exact.

A model is a list of replies, one for each round that it is asked: a number of seconds
until it answers, `HANG`, or an error and the seconds until then.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.chain import Chain, ModelCandidate, ModelStatistics
from glyphoxa_trio.providers.llm import (
    LLM,
    ErrorKind,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    Message,
    Switched,
    TextChunk,
)
from glyphoxa_trio.tools.breaker import Breaker, BreakerState

HANG: Final = inf
ASK = LLMRequest(messages=(Message(role="user", content="hello"),))
CLOSED, OPEN, TRIAL = BreakerState


@attrs.frozen
class Fails:
    """An error after so many seconds; ``words`` before it."""

    kind: ErrorKind = ErrorKind.OVERLOADED
    after: float = 0.0
    words: int = 0


Reply = float | Fails


@attrs.define(eq=False)
class Scripted:
    """The last reply repeats. ``asked`` has the times, ``open`` what goes on."""

    name: str
    replies: Sequence[Reply]
    pause: float = 0.0  # between its two words
    asked: list[float] = attrs.field(factory=list)
    open: int = 0

    @property
    def label(self) -> str:
        return f"{self.name} at home"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        reply = self.replies[min(len(self.asked), len(self.replies) - 1)]
        self.asked.append(trio.current_time())
        self.open += 1
        events = self._play(reply)
        try:
            yield events
        finally:
            await events.aclose()
            self.open -= 1

    async def _play(self, reply: Reply) -> AsyncGenerator[LLMEvent]:
        words = 2
        if isinstance(reply, Fails):
            words = reply.words
        else:
            await trio.sleep(reply)
        for _ in range(words):
            yield TextChunk(self.name)
            await trio.sleep(self.pause)
        if isinstance(reply, Fails):
            await trio.sleep(reply.after)
            raise LLMError(reply.kind, "no")
        yield Finished()


@attrs.define(eq=False)
class Table:
    """A chain of these models, asked by somebody who waits 5 seconds."""

    models: list[Scripted]
    candidates: list[ModelCandidate[LLM]]
    chain: Chain
    warnings: list[str]

    async def ask(
        self, *, first_token: float = 5.0
    ) -> list[LLMEvent] | LLMError | None:
        """The events; None if nothing came in time."""
        with trio.CancelScope(deadline=trio.current_time() + first_token) as patience:
            try:
                async with self.chain.stream(ASK) as events:
                    patience.deadline = inf
                    return [event async for event in events]
            except LLMError as error:
                return error
        return None

    async def said(self, **more: float) -> str:
        """Which model has answered; what it failed with; nothing."""
        match await self.ask(**more):
            case LLMError(kind=kind):
                return str(kind)
            case None:
                return ""
            case events:
                words = [x.text for x in events if isinstance(x, TextChunk)]
                assert len(words) == 2
                assert isinstance(events[-1], Finished)
                return words[0]

    @property
    def states(self) -> list[BreakerState]:
        return [each.breaker.state for each in self.candidates]


def table(
    *replies: Sequence[Reply], threshold: int = 5, pause: float = 10.0, word: float = 0
) -> Table:
    warnings: list[str] = []
    models = [Scripted(chr(97 + at), script, word) for at, script in enumerate(replies)]
    candidates = [
        ModelCandidate[LLM](
            model.name, model, warnings.append, Breaker(threshold, pause)
        )
        for model in models
    ]
    return Table(models, candidates, Chain(candidates), warnings)


# Who answers.


async def test_while_the_first_one_answers_nobody_else_is_asked(
    autojump_clock: MockClock,
) -> None:
    here = table([1.0], [0.0])
    events = await here.ask()
    assert events == [TextChunk("a"), TextChunk("a"), Finished()]
    assert (trio.current_time(), here.models[1].asked) == (1.0, [])


async def test_the_next_one_is_asked_at_once_and_that_is_said_first(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails(after=0.5)], [1.0])
    events = await here.ask()
    assert isinstance(events, list)
    assert events[0] == Switched(model="b", instead_of="a", reason="overloaded: no")
    assert events[1:] == [TextChunk("b"), TextChunk("b"), Finished()]
    assert here.models[1].asked == [0.5]
    assert trio.current_time() == 1.5
    assert here.models[0].open == 0


@pytest.mark.parametrize("kind", ErrorKind)
async def test_whatever_it_fails_with_the_next_one_is_asked(
    kind: ErrorKind, autojump_clock: MockClock
) -> None:
    here = table([Fails(kind)], [0.0])
    assert await here.said() == "b"


async def test_of_several_that_failed_all_reasons_are_told(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails()], [Fails(ErrorKind.RATE_LIMITED)], [0.0])
    events = await here.ask()
    assert isinstance(events, list)
    assert events[0] == Switched(
        model="c", instead_of="a", reason="overloaded: no; b: rate_limited: no"
    )


async def test_when_all_fail_it_is_the_failure_of_the_last_with_all_reasons(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails()], [Fails(ErrorKind.AUTHENTICATION)])
    error = await here.ask()
    assert isinstance(error, LLMError)
    assert error.kind is ErrorKind.AUTHENTICATION
    assert error.detail == "overloaded: no; b: authentication: no"


async def test_after_its_first_event_a_model_has_the_round(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails(words=1)], [0.0])
    heard: list[LLMEvent] = []
    with pytest.raises(LLMError, match="overloaded: no"):
        async with here.chain.stream(ASK) as events:
            while True:
                heard.append(await anext(events))
    assert heard == [TextChunk("a")]
    assert here.models[1].asked == []
    assert here.candidates[0].statistics().failed == {ErrorKind.OVERLOADED: 1}


async def test_a_stream_that_ends_with_no_event_is_a_failure(
    autojump_clock: MockClock,
) -> None:
    class Empty(Scripted):
        async def _play(self, reply: Reply) -> AsyncGenerator[LLMEvent]:
            return
            yield

    here = table([0.0], [0.0])
    here.candidates[0].model = Empty("a", [0.0])
    assert await here.said() == "b"


async def test_a_bug_is_not_a_failure_of_the_model(autojump_clock: MockClock) -> None:
    class Broken(Scripted):
        async def _play(self, reply: Reply) -> AsyncGenerator[LLMEvent]:
            raise KeyError(reply)
            yield

    here = table([0.0], [0.0])
    here.candidates[0].model = Broken("a", [0.0])
    with pytest.raises(KeyError):
        await here.ask()
    assert here.models[1].asked == []


# Time.


async def test_one_that_hangs_takes_half_of_the_time(autojump_clock: MockClock) -> None:
    here = table([HANG], [1.0])
    assert await here.said() == "b"
    assert here.models[1].asked == [2.5]
    assert trio.current_time() == 3.5
    assert here.models[0].open == 0
    assert here.warnings == ["a at home: first_token: it sent nothing within 2.5 s"]


async def test_of_three_that_hang_the_first_has_most(autojump_clock: MockClock) -> None:
    here = table([HANG], [HANG], [HANG])
    assert await here.said() == ""
    assert [model.asked for model in here.models] == [[0.0], [2.5], [3.75]]
    assert trio.current_time() == 5.0
    # Also the last one, which was cut by the asker's own clock.
    kinds = [each.statistics().failed for each in here.candidates]
    assert kinds == [{ErrorKind.FIRST_TOKEN: 1}] * 3


async def test_a_first_event_in_the_moment_its_time_is_over_comes_too_late(
    autojump_clock: MockClock,
) -> None:
    here = table([2.5], [0.0])
    assert await here.said() == "b"


async def test_the_time_of_a_turn_may_be_shorter_than_that(
    autojump_clock: MockClock,
) -> None:
    here = table([HANG], [0.25])
    assert await here.said(first_token=1.0) == "b"
    assert here.models[1].asked == [0.5]


async def test_an_asker_without_a_deadline_waits_as_long_as_a_turn_would(
    autojump_clock: MockClock,
) -> None:
    here = table([HANG], [60.0])
    assert await here.said(first_token=inf) == "b"
    assert here.models[1].asked == [2.5]


async def test_once_it_has_begun_only_the_asker_has_a_limit(
    autojump_clock: MockClock,
) -> None:
    here = table([1.0], [0.0], word=30.0)
    assert await here.said() == "a"
    assert trio.current_time() == 61.0


async def test_who_cannot_be_followed_has_all_the_time(
    autojump_clock: MockClock,
) -> None:
    here = table([4.0], [Fails()], threshold=1)
    here.candidates[1].breaker.record(
        here.candidates[1].breaker.begin(0.0) or pytest.fail("closed"),
        ok=False,
        now=0.0,
    )
    assert await here.said() == "a"
    assert trio.current_time() == 4.0


async def test_leaving_hangs_up_and_says_nothing_of_the_model(
    autojump_clock: MockClock,
) -> None:
    here = table([HANG], [0.0])
    for after in (0.0, 1.0):
        with trio.move_on_after(60) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(here.said)
                await trio.sleep(after)
                scope.cancel()
    assert here.models[0].open == 0
    assert here.candidates[0].statistics().failed == {}
    assert here.models[1].asked == []


async def test_leaving_in_the_middle_says_nothing_either(
    autojump_clock: MockClock,
) -> None:
    here = table([0.0], [0.0])
    async with here.chain.stream(ASK) as events:
        await anext(events)
    now = here.candidates[0].statistics()
    assert (now.answered, now.failed, here.models[0].open) == (0, {}, 0)


# Breakers.


async def test_after_five_rounds_that_failed_it_is_passed_over_for_ten_seconds(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails()] * 5 + [0.0], [0.0])
    for _ in range(5):
        assert await here.said() == "b"
    assert here.states == [OPEN, CLOSED]
    events = await here.ask()
    assert isinstance(events, list)
    assert events[0] == Switched(
        model="b",
        instead_of="a",
        reason="unavailable: it keeps failing, next attempt in 10.0 s",
    )
    await trio.sleep(10)
    assert await here.said() == "a"  # the trial
    assert here.states == [CLOSED, CLOSED]
    assert len(here.models[0].asked) == 6
    assert here.warnings == [
        "a at home: overloaded: no",
        "a at home: it keeps failing, and is not asked for 10 s",
    ]
    assert here.candidates[0].statistics() == ModelStatistics(
        name="a",
        label="a at home",
        breaker=CLOSED,
        answered=1,
        failed={ErrorKind.OVERLOADED: 5},
        passed_over=1,
    )


async def test_while_one_round_tries_it_the_others_go_elsewhere(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails(), 1.0], [0.0], threshold=1)
    assert await here.said() == "b"
    await trio.sleep(10)
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await here.said())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
    assert sorted(answers) == ["a", "b", "b"]
    assert answers[-1] == "a"
    assert here.states == [CLOSED, CLOSED]


async def test_a_trial_that_its_asker_leaves_is_made_by_the_next_round(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails(), HANG, 0.0], [0.0], threshold=1)
    await here.said()
    await trio.sleep(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.said)
        await trio.sleep(1)
        assert here.states == [TRIAL, CLOSED]
        nursery.cancel_scope.cancel()
    assert here.states == [OPEN, CLOSED]
    assert await here.said() == "a"


async def test_a_request_that_is_not_taken_is_told_and_opens_nothing(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails(ErrorKind.BAD_REQUEST)], [0.0])
    for _ in range(10):
        assert await here.said() == "b"
    assert here.states == [CLOSED, CLOSED]
    assert here.warnings == ["a at home: bad_request: no"]


async def test_a_failure_is_told_once_until_it_is_another_or_was_over(
    autojump_clock: MockClock,
) -> None:
    no, key = Fails(), Fails(ErrorKind.AUTHENTICATION)
    here = table([no, no, key, key, 0.0, key], [0.0])
    for _ in range(6):
        await here.said()
    assert here.warnings == [
        "a at home: overloaded: no",
        "a at home: authentication: no",
        "a at home: authentication: no",
    ]


async def test_when_nobody_may_be_asked_that_is_said_at_once(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails()], [Fails()], threshold=1, pause=7.0)
    await here.ask()
    error = await here.ask()
    assert isinstance(error, LLMError)
    assert error.detail == (
        "unavailable: it keeps failing, next attempt in 7.0 s;"
        " b: unavailable: it keeps failing, next attempt in 7.0 s"
    )
    assert [len(model.asked) for model in here.models] == [1, 1]
    assert trio.current_time() == 0.0


async def test_chains_that_share_a_model_share_what_is_known_of_it(
    autojump_clock: MockClock,
) -> None:
    here = table([Fails()], [0.0], threshold=1)
    other = Scripted("o", [Fails()])
    beside = Chain([ModelCandidate("o", other), here.candidates[0], here.candidates[1]])
    await here.said()
    async with beside.stream(ASK) as events:
        first = await anext(events)
    assert isinstance(first, Switched)
    assert "a: unavailable" in first.reason
    assert len(here.models[0].asked) == 1


def test_it_is_called_by_all_its_models() -> None:
    here = table([0.0], [0.0])
    assert here.chain.label == "a at home, else b at home"
    with pytest.raises(ValueError, match="Length"):
        Chain([])


# Against the dumbest model: a list of failures in a row, and a time.

SOMETIMES = st.one_of(
    st.sampled_from([0.25, 1.0, 3.0, HANG]),
    st.builds(
        Fails,
        st.sampled_from([ErrorKind.OVERLOADED, ErrorKind.BAD_REQUEST]),
        st.sampled_from([0.0, 0.5, 3.0]),
    ),
)
ROUNDS = st.lists(
    st.tuples(st.sampled_from([0.0, 2.0, 6.0]), st.tuples(*[SOMETIMES] * 3)),
    max_size=12,
)


@attrs.define
class Dumb:
    """One model, as one would write it down on paper."""

    in_a_row: int = 0
    shut_until: float = -inf
    shut: bool = False

    def asked(self, now: float) -> bool:
        return not self.shut or now >= self.shut_until

    def ended(self, now: float, ok: bool) -> None:
        self.in_a_row = 0 if ok else self.in_a_row + 1
        if ok:
            self.shut = False
        elif self.shut or self.in_a_row >= 2:
            self.shut, self.shut_until = True, now + 4.0


@given(ROUNDS)
def test_any_rounds_go_where_the_dumbest_model_says(
    rounds: list[tuple[float, tuple[Reply, ...]]],
) -> None:
    paper = [Dumb(), Dumb(), Dumb()]
    expected: list[tuple[str, float]] = []
    now = 0.0
    scripts: list[list[Reply]] = [[], [], []]
    for pause, replies in rounds:
        now += pause
        end, answer = now + 5.0, "nobody"
        for at, reply in enumerate(replies):
            if not paper[at].asked(now):
                continue
            scripts[at].append(reply)
            follows = any(each.asked(now) for each in paper[at + 1 :])
            limit = now + (end - now) / 2 if follows else end
            fails = isinstance(reply, Fails)
            takes = reply.after if isinstance(reply, Fails) else reply
            if now + takes >= limit:
                now = limit
                paper[at].ended(now, ok=False)
                if not follows:
                    answer = "late"
                    break
            elif not fails:
                now += takes
                paper[at].ended(now, ok=True)
                answer = "abc"[at]
                break
            else:
                now += takes
                if isinstance(reply, Fails) and reply.kind is ErrorKind.BAD_REQUEST:
                    paper[at].shut_until = min(paper[at].shut_until, now)
                else:
                    paper[at].ended(now, ok=False)
        expected.append((answer, now))

    async def main() -> list[tuple[str, float]]:
        here = table(*[script or [0.0] for script in scripts], threshold=2, pause=4.0)
        seen: list[tuple[str, float]] = []
        for pause, _ in rounds:
            await trio.sleep(pause)
            said = await here.said()
            answer = said if said in ("a", "b", "c") else "nobody" if said else "late"
            seen.append((answer, trio.current_time()))
        assert [len(x.asked) for x in here.models] == [len(x) for x in scripts]
        assert not any(model.open for model in here.models)
        return seen

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == expected
