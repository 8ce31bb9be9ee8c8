"""One session, and several processes that claim it one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.memory.errors import HeldElsewhere
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.npc import ToolStarted, TurnKept
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import NotClaimed, Session, SessionEnded
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.outcome import Status

from ..npc.support import ScriptedLLM, call
from .test_snapshots import play, with_room
from .test_turn_keeper import run


async def say(session: Session, text: str, id_: str = "") -> None:
    async with session.npc("Bo").say(text, id=id_) as turn:
        await turn.finish()


async def test_a_released_session_goes_on_elsewhere(autojump_clock: MockClock) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as first, run(store, llm) as second:
        session = first.session("table")
        hold = await session.claim()
        assert (hold.epoch, hold.said) == (1, ())
        assert await session.claim() == hold  # it has it
        await say(session, "hello", "u1")
        await say(session, "nothing")
        await say(session, "hello again", "u2")
        with pytest.raises(HeldElsewhere) as told:
            await second.session("table").claim()
        assert told.value.epoch == 1
        await session.release()
        with pytest.raises(SessionEnded):
            session.npc("Bo")
        other = second.session("table")
        hold = await other.claim()
        assert (hold.epoch, hold.said) == (2, ("u1", "u2"))
        await say(other, "who is Bo")
    told_now = [x.content for x in llm.requests[-1].messages]
    assert [x for x in told_now if "hello" in str(x)]


async def test_it_comes_back_to_who_released_it(autojump_clock: MockClock) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as runtime:
        async with trio.open_nursery() as nursery:
            for epoch in (1, 2, 3):
                session = runtime.session("table")
                hold = await session.claim()
                assert hold.epoch == epoch
                assert hold.said == tuple(f"u{n}" for n in range(1, epoch))
                await say(session, "hello", f"u{epoch}")
                nursery.start_soon(session.release)
                await wait_all_tasks_blocked()  # it is not written yet


@pytest.mark.parametrize("at_once", [True, False])
async def test_more_sessions_than_may_wait_are_given_back_whole(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    monkeypatch.setattr("glyphoxa_trio.runtime.journal_writer.MOST_WAITING", 8)
    store, llm = InMemory(), ScriptedLLM(play)
    names = [f"table {n}" for n in range(100)]
    async with run(store, llm) as first:
        for name in names:
            await first.session(name).claim()
            await say(first.session(name), "hello", name)
        for name in names:
            await first.session(name).set_variables({"seen": name})  # not written yet
        if at_once:
            async with trio.open_nursery() as nursery:
                for name in names:
                    nursery.start_soon(first.session(name).release)
    assert not [x for x in first.warnings if "memory" in x.text]
    async with run(store, llm) as second:
        for name in names:
            session = second.session(name)
            hold = await session.claim()
            assert (hold.epoch, hold.said) == (2, (name,))
            assert session.variables["seen"] == name


async def test_a_release_waits_for_nothing_that_comes_after_it(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as runtime, trio.open_nursery() as nursery:
        session = runtime.session("table")
        await session.claim()

        async def never_stops(other: Session) -> None:
            while True:
                await say(other, "nothing")
                await trio.sleep(0.02)

        for name in ("one", "two", "three"):
            nursery.start_soon(never_stops, runtime.session(name))
        await trio.sleep(0.1)
        assert runtime._cast.remembering is not None
        journal: Any = runtime._cast.remembering.memory.journal
        journal.seconds = 0.05  # something is always being written
        with trio.fail_after(0.5):
            await session.release()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["end", "release", "drop"])
async def test_a_session_that_begins_while_one_of_its_name_ends_has_a_claim_of_its_own(
    autojump_clock: MockClock, how: str
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as runtime, run(store, llm) as other:
        first = runtime.session("table")
        await say(first, "hello")
        await runtime.kept()
        async with trio.open_nursery() as nursery:
            ends: dict[str, Callable[[], Awaitable[None]]] = {
                "end": first.end,
                "release": first.release,
                "drop": partial(first.release, write=False),
            }

            @nursery.start_soon
            async def _() -> None:
                async with first.npc("Bo").say("hello again") as turn:
                    await turn.finish()

            await trio.sleep(0.5)
            over = trio.Event()

            @nursery.start_soon
            async def _() -> None:
                await ends[how]()
                over.set()

            while not first.ended:
                await trio.lowlevel.checkpoint()
            assert not over.is_set()
            second = runtime.session("table", players={"player": "discord:17"})
            await say(second, "and now")
            words = [str(x.content) for x in llm.requests[-1].messages]
            knows = any("hello" in x for x in words)
            assert knows is (how != "end")
        await say(second, "still here")
        await runtime.kept()
        # It is kept, and nobody else can have it until it is over.
        with pytest.raises(HeldElsewhere) as held:
            await other.session("table").claim()
        assert held.value.epoch == 2
        lines = await store.transcripts.recent(CampaignKey("table"), GAME_MASTER)
        said = {x.line.text: x.line.player for x in lines if x.line.player}
        assert said["still here"] == "discord:17"
        assert said["hello"] == "player"
        await second.release()
        hold = await other.session("table").claim()
        assert hold.epoch == 3


async def test_who_lost_it_writes_nothing_more(autojump_clock: MockClock) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    kept: list[bool] = []

    def note(event: object) -> None:
        if isinstance(event, TurnKept):
            kept.append(event.kept)

    async with run(store, llm) as first, run(store, llm) as second:
        session = first.session("table")
        lost: list[bool] = []
        await session.claim(on_lost=lambda: lost.append(True))
        await say(session, "hello", "u1")
        await first.kept()
        other = second.session("table")
        for wrong in (0, 2):
            with pytest.raises(HeldElsewhere):
                await other.claim(steal_from=wrong)
        hold = await other.claim(steal_from=1)
        assert (hold.epoch, hold.said) == (2, ("u1",))
        await say(other, "hello", "u2")
        with first.events.tap(note):
            await say(session, "nothing", "u3")
            await first.kept()
        assert kept == [False]
        assert lost == [True]
        await session.release(write=False)
        await other.release()
        hold = await first.session("table").claim()
        assert (hold.epoch, hold.said) == (3, ("u1", "u2"))


@pytest.mark.parametrize(
    ("claims", "hears", "after"),
    [(True, 0.03, 0.03), (True, 0.5, 0.15), (False, 0.03, 0.02)],
    ids=["heard", "not heard", "not claimed"],
)
async def test_a_turn_is_written_when_it_was_heard_if_others_may_claim_its_session(
    autojump_clock: MockClock, claims: bool, hears: float, after: float
) -> None:
    kept: list[float] = []

    def note(event: object) -> None:
        if isinstance(event, TurnKept):
            kept.append(trio.current_time())

    async with run(InMemory(), ScriptedLLM(play)) as runtime:
        session = runtime.session("table")
        if claims:
            await session.claim()
        with runtime.events.tap(note):
            async with session.npc("Bo").say("hello") as turn:
                turn.acknowledge()
                events = [event async for event in turn]
                ended = trio.current_time()
                await trio.sleep(hears)
                turn.acknowledge(*events)
                await runtime.kept()
    assert kept == [pytest.approx(ended + after, abs=0.011)]


async def test_what_had_begun_an_effect_is_known_to_all_who_come_later(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as first, run(store, llm) as second:
        session = first.session("table")
        await session.claim()
        await say(session, "hello", "u1")
        await first.kept()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, session, "write it", "u2")
            await _begun(first)
            hold = await second.session("table").claim(steal_from=1)
            await session.release(write=False)
        assert set(hold.said) == {"u1", "u2"}
        for epoch in (3, 4):
            await second.session("table").release()
            hold = await second.session("table").claim()
            assert (hold.epoch, set(hold.said)) == (epoch, {"u1", "u2"})


async def test_no_snapshot_of_before_hides_that_an_effect_has_begun(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with (
        run(store, llm) as first,
        run(store, llm) as second,
        run(store, llm) as third,
    ):
        session = first.session("table")
        await session.claim()
        await say(session, "hello", "u1")
        await session.release()
        session = second.session("table")
        await session.claim()  # the first that is written of it is a snapshot
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, session, "write it", "u2")
            await _begun(second)
            await trio.sleep(0.05)  # and it was not written yet
            hold = await third.session("table").claim(steal_from=2)
            await session.release(write=False)
        assert set(hold.said) == {"u1", "u2"}


async def _begun(runtime: Runtime) -> None:
    """Return when a tool runs."""
    begun = trio.Event()

    def note(event: object) -> None:
        if isinstance(event, ToolStarted):
            begun.set()

    with runtime.events.tap(note):
        await begun.wait()


async def test_a_release_in_a_turn_keeps_what_was_said(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as first, run(store, llm) as second:
        session = first.session("table")
        await session.claim()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, session, "toss", "u1")
            await _begun(first)
            await session.release()
        hold = await second.session("table").claim()
        assert hold.said == ("u1",)


async def outcomes(session: Session, text: str) -> list[tuple[str | None, Status]]:
    """Say it, and return the calls that its turn made."""
    async with session.npc("Bo").say(text) as turn:
        done = await turn.finish()
    return [(x.tool, x.status) for x in done.outcomes]


async def test_nothing_is_changed_that_cannot_be_written_down_first(
    autojump_clock: MockClock,
) -> None:
    def by_key(request: LLMRequest) -> list[Any]:
        if request.messages[-1].content == "key":
            return [call("custom.write")]
        return play(request)

    store, llm = InMemory(), ScriptedLLM(by_key)
    written = 0

    @tool(read_only=False)
    async def write() -> str:
        """Write it down."""
        nonlocal written
        written += 1
        return "written"

    async with run(store, llm, own=[write]) as first, run(store, llm) as second:
        session = first.session("table")
        await session.claim()
        assert await outcomes(session, "write it") == [("custom.write", Status.OK)]
        journal: Any = first._cast.remembering.memory.journal  # type: ignore[union-attr]
        journal.away = True
        refused = [("custom.write", Status.UNAVAILABLE)]
        assert await outcomes(session, "write it") == refused
        # What nobody claimed goes on as it always did: the table matters more.
        assert await outcomes(session, "key") == refused  # by another of its names
        unclaimed = first.session("other")
        assert await outcomes(unclaimed, "write it") == [("custom.write", Status.OK)]
        journal.away = False
        await trio.sleep(6)  # until it is tried again
        assert await outcomes(session, "write it") == [("custom.write", Status.OK)]
        await second.session("table").claim(steal_from=1)
        assert await outcomes(session, "write it") == refused
        assert written == 3


async def test_who_is_told_to_write_nothing_writes_nothing(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as first, run(store, llm) as second:
        session = first.session("table")
        await session.claim()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, session, "toss", "u1")
            await _begun(first)
            await session.release(write=False)
        await first.kept()
        hold = await second.session("table").claim(steal_from=1)
        assert (hold.epoch, hold.said) == (2, ())


async def test_without_memory_or_a_claim_there_is_nothing_to_hold(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM(play)
    async with open_runtime(with_room(10), llm=llm) as runtime:
        session = runtime.session("table")
        with pytest.raises(NotClaimed, match="memory"):
            await session.claim()
        await session.release()
        assert session.ended
    store = InMemory()
    async with run(store, llm) as first, run(store, llm) as second:
        await first.session("table").claim()
        session = second.session("table")
        await say(session, "hello")  # goes on, and is not kept
        with pytest.raises(NotClaimed, match="end it first"):
            await session.claim()
        await session.release(write=False)
        with pytest.raises(HeldElsewhere):
            await second.session("table").claim()


Do = Callable[[Any], Awaitable[None]]
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["claim", "steal", "say", "write", "release", "drop"]),
    ),
    max_size=12,
)


async def at_random(steps: list[tuple[int, str]]) -> None:
    """Two processes and one session, beside a model that is an epoch and a list."""
    store, llm = InMemory(), ScriptedLLM(play)
    epoch, said, owner = 0, list[str](), None
    async with run(store, llm) as one, run(store, llm) as two:
        runtimes = [one, two]
        holds: dict[int, tuple[Session, int]] = {}
        for number, (at, what) in enumerate(steps):
            held = holds.get(at)
            match what:
                case "claim" | "steal" if held is None:
                    session = runtimes[at].session("table")
                    steal = epoch if what == "steal" else None
                    if steal is None and owner not in (None, at):
                        with pytest.raises(HeldElsewhere) as told:
                            await session.claim()
                        assert told.value.epoch == epoch
                        continue
                    hold = await session.claim(steal_from=steal)
                    epoch, owner = epoch + 1, at
                    assert hold.epoch == epoch
                    assert list(hold.said) == said
                    holds[at] = session, epoch
                case "say" | "write" if held is not None:
                    text = "write it" if what == "write" else "hello"
                    await say(held[0], text, f"u{number}")
                    await runtimes[at].kept()
                    if held[1] == epoch:
                        said.append(f"u{number}")
                case "release" if held is not None:
                    await held[0].release()
                    del holds[at]
                    if held[1] == epoch:
                        owner = None
                case "drop" if held is not None:
                    await held[0].release(write=False)
                    del holds[at]


@given(STEPS)
def test_whoever_has_it_knows_all_that_was_kept(steps: list[tuple[int, str]]) -> None:
    trio.run(at_random, steps, clock=MockClock(autojump_threshold=0))


async def test_a_callback_that_fails_loses_nothing_but_itself(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)

    def fails() -> None:
        raise ValueError("no")

    async with run(store, llm) as first, run(store, llm) as second:
        session = first.session("table")
        await session.claim(on_lost=fails)
        await say(session, "hello")
        await second.session("table").claim(steal_from=1)
        await say(session, "nothing")
        await first.kept()
        await say(first.session("another"), "hello")
        await first.kept()
    lines = await store.transcripts.recent(CampaignKey("another"), GAME_MASTER)
    assert lines
