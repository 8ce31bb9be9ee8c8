"""Models of an embedder delay no turn, whatever they shield themselves from."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.npc import ModelFailed, TurnDone, TurnEnd
from glyphoxa_trio.providers.foreign import FAREWELL, MOMENT, MOST_LEFT, Foreign
from glyphoxa_trio.providers.llm import (
    ErrorKind,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    TextChunk,
)

REQUEST = LLMRequest(messages=())


@attrs.define(eq=False)
class Link:
    """Says its ``steps``: texts, errors, and seconds that it takes; ``deaf`` ones it
    takes whoever cancels it, and so does its end."""

    steps: tuple[Any, ...]
    deaf: bool = False
    hang_up: float = 0.0
    label: str = "theirs"
    ended: list[tuple[float, str]] = attrs.field(factory=list)

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        how = "well"
        try:
            async with aclosing(self._events()) as events:
                yield events
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.hang_up)
            self.ended.append((trio.current_time(), how))

    async def _events(self) -> AsyncGenerator[LLMEvent]:
        for step in self.steps:
            if isinstance(step, str):
                yield TextChunk(step)
            elif isinstance(step, Exception):
                raise step
            else:
                with trio.CancelScope(shield=self.deaf):
                    await trio.sleep(step)
        yield Finished()


@asynccontextmanager
async def foreign(link: Link, *warnings_: list[str]) -> AsyncGenerator[Foreign]:
    (warnings,) = warnings_ or ([],)
    async with trio.open_nursery() as nursery:
        yield Foreign(link, nursery, warnings.append)
        nursery.cancel_scope.cancel()


async def heard(link: Foreign, most: int = 99) -> list[Any]:
    found: list[Any] = []
    async with link.stream(REQUEST) as events:
        async for event in events:
            found.append(event.text if isinstance(event, TextChunk) else "over")
            if len(found) == most:
                break
    return found


async def test_a_kind_link_is_as_it_was(autojump_clock: MockClock) -> None:
    link = Link(("Well", 0.5, " met."))
    async with foreign(link) as it:
        assert it.label == "theirs"
        assert await heard(it) == ["Well", " met.", "over"]
        assert await heard(it, most=1) == ["Well"]  # left in good order, and at once
    assert link.ended == [(0.5, "well"), (0.5, "well")]


@pytest.mark.parametrize(
    "error", [LLMError(ErrorKind.OVERLOADED, "busy"), KeyError("x")]
)
async def test_its_error_comes_where_it_was(
    error: Exception, autojump_clock: MockClock
) -> None:
    # However long it takes to be hung up on then.
    link = Link(("Well", error), hang_up=9)
    async with foreign(link) as it:
        found: list[Any] = []
        with pytest.raises(type(error)):
            async with it.stream(REQUEST) as events:
                found.extend([event async for event in events])
        assert trio.current_time() == MOMENT
    assert link.ended == [(9.0, "well")]


async def test_an_error_at_its_beginning_is_told(autojump_clock: MockClock) -> None:
    class Broken(Link):
        @asynccontextmanager
        async def stream(
            self, request: LLMRequest
        ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
            raise LLMError(ErrorKind.AUTHENTICATION, "no key")
            yield self._events()

    async with foreign(Broken(())) as it:
        with pytest.raises(LLMError, match="no key"):
            await heard(it)


async def test_who_leaves_waits_for_its_farewell_a_second_at_most(
    autojump_clock: MockClock,
) -> None:
    link = Link(("Well",), hang_up=30)
    warnings: list[str] = []
    async with foreign(link, warnings) as it:
        assert await heard(it) == ["Well", "over"]
        assert trio.current_time() == FAREWELL
        assert len(warnings) == 1
        assert warnings[0].startswith("theirs: a request to it does not stop when")
        for _ in range(MOST_LEFT - 1):
            with trio.move_on_after(0.25):
                async with it.stream(REQUEST) as events:
                    await anext(events)
                    await trio.sleep_forever()
        # Cancelled, it takes not even that second.
        took = FAREWELL + (0.25 + MOMENT) * (MOST_LEFT - 1)
        assert trio.current_time() == pytest.approx(took)
        await trio.sleep(FAREWELL)
        with pytest.raises(LLMError, match="8 earlier requests to theirs") as refused:
            await heard(it)
        assert refused.value.kind is ErrorKind.OVERLOADED
        await trio.sleep(60)
        assert await heard(it) == ["Well", "over"]
        assert len(warnings) == 1


@pytest.mark.parametrize("end", [SystemExit(3), GeneratorExit(), BaseException()])
async def test_a_link_that_asks_the_program_to_end_has_failed(
    end: BaseException, autojump_clock: MockClock
) -> None:
    class Ends(Link):
        @asynccontextmanager
        async def stream(
            self, request: LLMRequest
        ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
            raise end
            yield self._events()

    async with foreign(Ends(())) as it:
        with pytest.raises(LLMError) as failed:
            await heard(it)
    assert failed.value.kind is ErrorKind.MALFORMED


@pytest.mark.parametrize("hang_up", [0.0, 12.0])
async def test_a_turn_ends_in_its_time_whatever_the_link_shields(
    hang_up: float, autojump_clock: MockClock
) -> None:
    config = Config(
        npcs=(NpcConfig(name="Bo"),), turn=TurnConfig(model_total=4.0, first_token=3.0)
    )
    link = Link(("Well. ", 12.0, "met."), deaf=True, hang_up=hang_up)
    async with open_runtime(config, llm=link) as runtime:
        events: list[Any] = []
        began = trio.current_time()
        async with runtime.npc("Bo").say("Hello") as turn:
            events.extend([event async for event in turn])
        assert trio.current_time() - began == pytest.approx(4.0 + MOMENT)
        failed = [x for x in events if isinstance(x, ModelFailed)]
        assert [x.kind for x in failed] == [ErrorKind.TURN]
        (done,) = [x for x in events if isinstance(x, TurnDone)]
        assert done.end is TurnEnd.FAILED
        assert done.text == "Well."
        began = trio.current_time()
        with trio.move_on_after(1):
            async with runtime.npc("Bo").say("Hello again") as turn:
                async for _ in turn:
                    break
        assert trio.current_time() - began <= 1 + MOMENT


async def test_one_that_does_not_stop_when_its_turn_leaves_it_is_told_of(
    autojump_clock: MockClock,
) -> None:  # before, only one that was read to its end was
    warnings: list[str] = []
    async with foreign(Link((30.0,), deaf=True), warnings) as it:
        with trio.move_on_after(3.0):
            await heard(it)
        assert trio.current_time() == pytest.approx(3.0 + MOMENT)
        await trio.sleep(2 * FAREWELL)
        assert len(warnings) == 1
