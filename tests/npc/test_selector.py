"""The selector: what the rules need to remember, per session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.actors import Topic, spawn
from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.host import open_host
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.npc.selection import Selection, SelectionRules, Situation, select
from glyphoxa_trio.npc.selector import Selector
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.settings import Services, SessionSettings
from glyphoxa_trio.npc.turn.tiers import Tiers
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.tier import Tier

FAST, STANDARD, DEEP = Tier


class Seats:
    """As many NPCs as are spoken to, at one selector."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.tiers: dict[str, Tiers] = {}
        self.depth = 0

    async def select(
        self, text: str, session: str = "Bob", *, commit: bool = True, **more: Any
    ) -> Selection:
        npc = NpcConfig(name="Bo", budget_tier=DEEP)
        settings = SessionSettings(npc=npc, grant=Grant(npc="Bo"))
        if session not in self.tiers:
            memory = NpcMemory(settings, "call", SessionKey(session))
            self.tiers[session] = Tiers(self.services, memory, lambda: self.depth)
        tiers = self.tiers[session]
        _, selection = await tiers.tier_of(text, settings, commit=commit, **more)
        return selection


@asynccontextmanager
async def open_selector() -> AsyncIterator[Seats]:
    async with open_host() as host, trio.open_nursery() as nursery:
        yield Seats(
            Services(
                host=host,
                links=lambda *_: None,  # type: ignore[arg-type]
                selector=spawn(nursery, Selector(SelectionRules()).run),
                events=Topic(),
            )
        )
        nursery.cancel_scope.cancel()


async def tier(seats: Seats, text: str, **more: Any) -> Tier:
    return (await seats.select(text, **more)).tier


async def test_rapid_talk_stays_fast_after_the_first_turn(
    autojump_clock: MockClock,
) -> None:
    # G18
    async with open_selector() as ref:
        assert [await tier(ref, "hi") for _ in range(4)] == [STANDARD, FAST, FAST, FAST]


async def test_a_second_deep_turn_must_wait_thirty_seconds(
    autojump_clock: MockClock,
) -> None:
    # G18: demoted to STANDARD, which does not start the interval anew
    async with open_selector() as ref:
        found = []
        for pause in (0, 10, 19.5, 0.5, 29.5, 0.5):
            await trio.sleep(pause)
            found.append(await tier(ref, "think carefully"))
        assert found == [DEEP, STANDARD, STANDARD, DEEP, STANDARD, DEEP]


async def test_a_deep_turn_by_override_counts_as_a_deep_turn(
    autojump_clock: MockClock,
) -> None:
    # D2: an override of FAST is one, None is none
    async with open_selector() as ref:
        assert await tier(ref, "hi", override=DEEP) is DEEP
        assert await tier(ref, "think carefully", override=FAST) is FAST
        assert await tier(ref, "think carefully", override=None) is STANDARD


async def test_a_partial_transcript_leaves_no_trace(autojump_clock: MockClock) -> None:
    # G18, D2
    async with open_selector() as ref:
        for partial in ("think", "think care", "think carefully"):
            await tier(ref, partial, commit=False)
        assert await tier(ref, "hi", commit=False) is STANDARD  # still the first turn
        assert await tier(ref, "think carefully", commit=False) is DEEP
        assert await tier(ref, "think carefully") is DEEP
        assert await tier(ref, "think carefully", commit=False) is STANDARD


async def test_sessions_know_nothing_of_each_other(autojump_clock: MockClock) -> None:
    # D2
    async with open_selector() as ref:
        assert await tier(ref, "think carefully", session="Bob") is DEEP
        assert await tier(ref, "think carefully", session="Ann") is DEEP
        assert await tier(ref, "think carefully", session="Bob") is STANDARD
        assert await tier(ref, "hi", session="Cid") is STANDARD


asked = st.tuples(
    st.floats(0, 40),
    st.sampled_from("ABC"),
    st.sampled_from(["hi", "think carefully", "who is she"]),
    st.sampled_from([None, None, *Tier]),
    st.integers(0, 4),
    st.booleans(),
)


@given(st.lists(asked, max_size=20))
def test_the_actor_agrees_with_the_rules_and_a_diary(
    script: list[tuple[float, str, str, Tier | None, int, bool]],
) -> None:
    # G18, D2: the model is a list of everything that was committed.
    async def main() -> None:
        diary: list[tuple[str, float, Tier]] = []
        async with open_selector() as seats:
            for pause, session, text, override, depth, commit in script:
                await trio.sleep(pause)
                now = trio.current_time()
                mine = [(at, chosen) for who, at, chosen in diary if who == session]
                deep = [at for at, chosen in mine if chosen is DEEP]
                expected = select(
                    SelectionRules(),
                    Situation(
                        text=text,
                        npc="Bo",
                        override=override,
                        queue_depth=depth,
                        first_turn=not mine,
                        since_deep=now - deep[-1] if deep else None,
                    ),
                )
                seats.depth = depth
                assert expected == await seats.select(
                    text, session, override=override, commit=commit
                )
                if commit:
                    diary.append((session, now, expected.tier))

    trio.run(main, clock=MockClock(autojump_threshold=0))
