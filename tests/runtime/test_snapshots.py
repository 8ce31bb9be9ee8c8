"""Sessions that are kept: as bytes, or set aside because too many are open.

Its holder must notice nothing. So the same scenario is played twice, once
with room for everybody and once with room for one, and both have to be the same in all
that a model is told and in every event.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Session, Tier, open_runtime, tool
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.config.cost import CostConfig, Price
from glyphoxa_trio.config.sessions import SessionsConfig
from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.npc import Npc, Sentence, ToolStarted, TurnDone, TurnEnd, TurnEvent
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.npc.scene import NobodyAddressed
from glyphoxa_trio.providers.llm import Finished, LLMRequest, Usage
from glyphoxa_trio.runtime import (
    Environment,
    MemoryStore,
    Runtime,
    SessionEnded,
    SessionSnapshot,
    SnapshotRefused,
    StoreFull,
    TooManySessions,
)
from glyphoxa_trio.secret import Secret

from ..npc.support import HANG, ScriptedLLM, call

RUN = "0123456789abcdef0123456789abcdef"
CONFIG = Config(
    npcs=(
        NpcConfig(
            name="Bo",
            personality="You speak with {caller_name}, call {call_id}.",
            greeting="Hail, {caller_name}!",
            fallback=("Hm?", "What?", "Pardon?"),
            tools=("*",),
        ),
        NpcConfig(name="Ann", fallback=("Eh?", "So?"), tools=("*",)),
    ),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
    cost=CostConfig(prices={"scripted": Price(input=1.0, output=1.0)}, per_npc=0.03),
)


def with_room(most: int, **more: Any) -> Config:
    return attrs.evolve(CONFIG, sessions=SessionsConfig(most=most, **more))


def play(request: LLMRequest) -> list[Any]:
    last = request.messages[-1]
    if last.role == "tool":
        return [f"It says {last.content[:60]}."]
    if "toss" in last.content:
        return [call("toss")]
    if "write" in last.content:
        return ["So be it. ", call("write")]
    if "nothing" in last.content:
        return []
    used = Finished(usage=Usage(input_tokens=1000))
    return [f"You said {last.content}. ", 1.0, "And there is more. ", used]


def tools() -> tuple[Any, ...]:
    tossed = 0

    @tool(read_only=True)
    async def toss() -> str:
        """Toss a coin."""
        nonlocal tossed
        tossed += 1
        return f"a {tossed}"

    @tool(read_only=False)
    async def write() -> str:
        """Write it down."""
        await trio.sleep(3.0)
        return "written"

    return (toss, write)


async def hear(session: Session, text: str, npc: str = "Bo") -> TurnDone:
    async with session.npc(npc).say(text, speaker="player") as turn:
        return await turn.finish()


SAID = ["hello", "toss", "nothing", "think carefully", "who is Bo"]
STEP = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(SAID)),
    st.tuples(st.just("leave"), st.sampled_from(["hello", "write it"])),
    st.tuples(st.just("overhear"), st.sampled_from(["the key", "the mat"])),
    st.tuples(st.just("situate"), st.sampled_from(["It rains.", "It burns."])),
    st.tuples(st.just("introduce"), st.sampled_from(["Ann", "Eve"])),
    st.tuples(st.just("introduce all"), st.sampled_from(["Dan", "Cyd"])),
    st.tuples(st.just("elevate"), st.just("")),
    st.tuples(st.just("greet"), st.just("")),
    st.tuples(st.just("wait"), st.sampled_from(["5", "40"])),
    st.tuples(st.just("scene"), st.sampled_from(["hello", "Ann, toss", "Bo, so?"])),
    st.tuples(st.just("scene tell"), st.sampled_from(["An inn.", "A ruin."])),
    st.tuples(st.just("mute"), st.just("")),
    st.tuples(st.just("puppet"), st.just("")),
    st.tuples(st.just("end"), st.just("")),
)
EVENING = st.lists(
    st.tuples(STEP, st.sampled_from("abc"), st.sampled_from(["Bo", "Ann"])),
    max_size=20,
)
Between = Callable[[Runtime, Session], Any]


async def take(step: tuple[str, str], session: Session, npc: Npc) -> None:
    """Run one step of a scenario, to its end."""
    what, text = step
    match what:
        case "say":
            async with npc.say(text) as turn:
                await turn.finish()
        case "leave":  # once a sentence was heard
            async with npc.say(text) as turn:
                async for event in turn:
                    wanted = ToolStarted if "write" in text else Sentence
                    if isinstance(event, wanted):
                        break
            await trio.sleep(4)  # so that a call that goes on has ended
        case "overhear":
            await npc.overhear("Dan", text)
        case "situate":
            await npc.set_scene(text)
        case "introduce":
            await npc.set_variables({"caller_name": text})
        case "introduce all":
            await session.set_variables({"caller_name": text})
        case "elevate":
            await npc.elevate(Tier.DEEP, seconds=20)
        case "greet":
            async with npc.greet() as turn:
                await turn.finish()
        case "wait":
            await trio.sleep(float(text))
        case "scene":
            async with session.scene().say(text) as turn:
                await turn.finish()
            await wait_all_tasks_blocked()  # everybody has heard it
        case "scene tell":
            await session.scene().tell(text)
        case "mute":
            await session.scene().mute("Ann")
            await session.scene().unmute("Ann")
        case "puppet":
            await session.scene().puppet(npc.name)


def evening(
    steps: list[tuple[tuple[str, str], str, str]],
    config: Config,
    between: Callable[[Runtime, Session], Any] | None = None,
) -> tuple[list[Any], list[TurnEvent], list[Any]]:
    """What models were told, what happened, and what sessions came to."""
    llm, heard = ScriptedLLM(play), list[TurnEvent]()
    ends: list[Any] = []

    async def main() -> None:
        async with open_runtime(
            config, llm=llm, tools=tools(), environment=Environment(run=RUN)
        ) as runtime:
            with runtime.events.tap(heard.append):
                held: dict[tuple[str, str], Npc] = {}
                for step, id_, name in steps:
                    session = runtime.session(id_)
                    # The handle of the first time is as good as any other.
                    npc = held.setdefault((id_, name), session.npc(name))
                    if step[0] == "end":
                        ends.append((session.cost, session.variables))
                        await session.end()
                        held = {x: y for x, y in held.items() if x[0] != id_}
                    else:
                        try:
                            await take(step, session, npc)
                        except NobodyAddressed as error:
                            ends.append(str(error))
                        if between is not None:
                            await between(runtime, session)
                            held = {x: y for x, y in held.items() if x[0] != id_}
                for id_ in "abc":
                    session = runtime.session(id_)
                    ends.append((session.cost, session.variables))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return [(x.messages, x.tools) for x in llm.requests], heard, ends


@settings(max_examples=min(50, settings().max_examples))
@given(EVENING)
def test_nobody_notices_that_a_session_was_set_aside(
    steps: list[tuple[tuple[str, str], str, str]],
) -> None:
    assert evening(steps, with_room(1)) == evening(steps, with_room(1000))


@settings(max_examples=min(50, settings().max_examples))
@given(EVENING)
def test_a_session_goes_on_from_its_bytes(
    steps: list[tuple[tuple[str, str], str, str]],
) -> None:
    """After each step it is ended, and begun again from what was kept of it."""
    key = Secret("of the guild")

    async def again(runtime: Runtime, session: Session) -> None:
        kept = await session.snapshot()
        assert (kept.id, kept.tenant) == (session.id, "")
        await session.end()
        restored = runtime.session(session.id, restore=kept.to_bytes(key))
        same = attrs.evolve(await restored.snapshot(), taken_at=kept.taken_at)
        assert same == kept

    config = with_room(1000, key=key)
    assert evening(steps, config, again) == evening(steps, config)


async def test_more_tables_than_there_is_room_for(autojump_clock: MockClock) -> None:
    llm = ScriptedLLM(lambda request: [0.1, f"Aye, {request.messages[-1].content}."])
    store = MemoryStore()
    seen: list[TurnDone] = []

    async def table(number: int) -> None:
        session = runtime.session(f"table-{number}")
        npc = session.npc("Bo")
        for turn in range(3):
            async with npc.say(f"line {number}.{turn}") as said:
                seen.append(await said.finish())
            await trio.sleep(number % 7)

    async with open_runtime(with_room(30), llm=llm, session_store=store) as runtime:
        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(table, number)
                if number % 20 == 19:  # more than that would speak at once
                    await trio.sleep(0.5)
        assert len(runtime.sessions) == 30
        assert len(store) == 30
        for number in range(60):
            done = await hear(runtime.session(f"table-{number}"), "And now?")
            assert done.turn == 4
            told = "\n".join(x.content for x in llm.requests[-1].messages)
            assert [f"line {number}.{turn}" in told for turn in range(3)] == [True] * 3
            assert told.count("line ") == 2 * 3  # and nobody else's
    assert {x.end for x in seen} == {TurnEnd.COMPLETED}
    assert store.size > 0


async def test_none_is_set_aside_in_which_something_goes_on(
    autojump_clock: MockClock,
) -> None:
    asked = trio.Event()

    async def approver(call: Any) -> bool:
        asked.set()
        await trio.sleep(5)
        return True

    llm = ScriptedLLM(lambda r: [HANG] if r.messages[-1].content == "hang" else play(r))
    config = with_room(1)
    async with open_runtime(
        config, llm=llm, tools=tools(), approver=approver
    ) as runtime:
        one = runtime.session("one")
        async with one.npc("Bo").say("hang"):
            await wait_all_tasks_blocked()
            with pytest.raises(TooManySessions, match="1 session is open: end some"):
                runtime.session("two")
        async with one.npc("Bo").say("write it") as turn:
            async for event in turn:
                if isinstance(event, ToolStarted):
                    break
            await trio.sleep(0.1)
        # The turn is over, and its call goes on.
        with pytest.raises(TooManySessions):
            runtime.session("two")
        await trio.sleep(4)
        runtime.session("two")
        assert [x.id for x in runtime.sessions] == ["two"]
        # Nobody has heard the rest of what was said: that may still come.
        async with runtime.session("two").npc("Bo").say("hello") as turn:
            await trio.sleep(5)
            with pytest.raises(TooManySessions):
                runtime.session("three")
            await turn.finish()
        runtime.session("three")


async def test_what_is_heard_late_of_an_earlier_turn_is_kept(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM(lambda request: ["One. ", "Two. ", "Three."])
    async with open_runtime(with_room(1), llm=llm) as runtime:
        one = runtime.session("one")
        slow = one.npc("Bo").say("hello", speaker="Ann")
        async with slow:
            await trio.sleep(1)
            async with one.npc("Bo").say("hello", speaker="Dan") as turn:
                await turn.finish()
            with pytest.raises(TooManySessions):
                runtime.session("two")
            await slow.finish()
        runtime.session("two")
        await hear(one, "So?")
        told = [x.content for x in llm.requests[-1].messages if x.role == "assistant"]
        assert told[-2:] == ["One. Two. Three."] * 2


async def test_what_was_ended_is_not_woken(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    async with open_runtime(
        with_room(1), llm=ScriptedLLM(play), session_store=store
    ) as runtime:
        one = runtime.session("one", variables={"caller_name": "Eve"})
        npc, scene = one.npc("Bo"), one.scene()
        await hear(one, "hello")
        spent = one.cost
        assert spent.cost > 0
        runtime.session("two")
        assert len(store) == 1
        assert one.cost == spent
        assert one.variables == {"caller_name": "Eve"}
        await one.end()
        assert len(store) == 0
        assert one.ended
        for say in (npc.say("hello"), scene.say("hello")):
            with pytest.raises(Exception, match=r"stopped|ended"):
                async with say:
                    pass
        with pytest.raises(SessionEnded):
            await one.snapshot()
        assert (await hear(runtime.session("one"), "hello")).turn == 1


async def test_a_snapshot_while_a_turn_runs_has_what_was_before_it(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM(lambda r: [HANG] if r.messages[-1].content == "hang" else play(r))
    async with open_runtime(with_room(9), llm=llm, tools=tools()) as runtime:
        one = runtime.session("one")
        bo = one.npc("Bo")
        await hear(one, "hello")
        await bo.overhear("Dan", "the key is under the mat")
        async with bo.say("write it") as turn:
            async for event in turn:
                if isinstance(event, ToolStarted):
                    break
            await trio.sleep(0.1)
            # Its call has begun: what comes of it is in no snapshot.
            while_it_writes = await one.snapshot()
        await trio.sleep(4)
        async with bo.say("hang"):
            await wait_all_tasks_blocked()
            while_it_hangs = await one.snapshot()

        for number, (kept, texts, not_told) in enumerate(
            [
                (while_it_writes, ["hello", "under the mat"], ["write it", "written"]),
                (while_it_hangs, ["hello", "under the mat", "written"], ["hang"]),
            ]
        ):
            again = runtime.session(f"again {number}", restore=kept.to_bytes())
            done = await hear(again, "So?")
            told = "\n".join(x.content for x in llm.requests[-1].messages)
            assert all(text in told for text in texts), told
            assert not any(text in told for text in not_told), told
            assert done.turn == kept.npcs["Bo"].turns + 1


async def test_what_nobody_knows_of_a_call_is_said(autojump_clock: MockClock) -> None:
    """A call goes on when its turn was interrupted; its end is another process's."""
    llm = ScriptedLLM(play)
    async with open_runtime(with_room(9), llm=llm, tools=tools()) as runtime:
        one = runtime.session("one")
        async with one.npc("Bo").say("write it") as turn:
            async for event in turn:
                if isinstance(event, ToolStarted):
                    break
        kept = await one.snapshot()
        await hear(runtime.session("two", restore=kept), "So?")
        told = "\n".join(x.content for x in llm.requests[-1].messages)
        assert "its outcome is unknown" in told
        assert '"effect":"unknown"' in told.replace(" ", "")
        await hear(one, "So?")  # which is not over yet, where it goes on
        await trio.sleep(4)
        await hear(one, "And now?")
        told = "\n".join(x.content for x in llm.requests[-1].messages)
        assert "nobody knows" not in told
        assert "write: " in told


async def test_moments_go_on_in_another_run(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An elevation of 60 seconds has 20 left after a break of 40, on any clock."""
    now = 1_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    kept = b""
    ceilings = []
    for passed in (0.0, 39.0, 41.0):
        now = 1_000_000.0 + passed
        async with open_runtime(CONFIG, llm=ScriptedLLM(play)) as runtime:
            await trio.sleep(17)
            if not kept:
                session = runtime.session("one")
                await session.npc("Bo").elevate(Tier.DEEP, seconds=40)
                kept = (await session.snapshot()).to_bytes()
                continue
            session = runtime.session("one", restore=kept)
            ceilings.append(await session.npc("Bo").tier_for("think carefully"))
    assert ceilings == [Tier.DEEP, Tier.FAST]


@pytest.mark.parametrize("keys", [(None, "new"), ("old", "new"), ("old", None)])
async def test_another_key_loses_no_session_that_is_set_aside(
    keys: tuple[str | None, str | None], autojump_clock: MockClock
) -> None:
    before, after = (None if key is None else Secret(key) for key in keys)
    llm = ScriptedLLM(play)
    async with open_runtime(with_room(1, key=before), llm=llm) as runtime:
        await hear(runtime.session("one"), "hello")
        runtime.session("two")
        await runtime.reload(with_room(1, key=after))
        assert (await hear(runtime.session("one"), "hello")).turn == 2
        assert (await hear(runtime.session("two"), "hello")).turn == 1
        assert (await hear(runtime.session("one"), "hello")).turn == 3


async def test_greetings_are_said_once(autojump_clock: MockClock) -> None:
    llm = ScriptedLLM(play)
    async with open_runtime(with_room(1), llm=llm) as runtime:
        async with runtime.session("one").npc("Bo").greet() as turn:
            assert (await turn.finish()).text == "Hail, there!"
        runtime.session("two")
        async with runtime.session("one").npc("Bo").greet() as turn:
            assert (await turn.finish()).text == ""


# What is refused.


async def kept_session(**settings: Any) -> tuple[bytes, Config]:
    config = with_room(9, **settings)
    async with open_runtime(config, llm=ScriptedLLM(play)) as runtime:
        session = runtime.session("one", tenant="guild")
        await hear(session, "Our secret.")
        return (await session.snapshot()).to_bytes(config.sessions.key), config


def forged(data: bytes, **changed: Any) -> bytes:
    """The same with other fields, and a checksum that fits."""
    head, _, body = data.partition(b"\n")
    other = json.dumps({**json.loads(body), **changed}).encode()
    words = head.split(b" ")
    words[2] = hashlib.sha256(other).hexdigest().encode()
    return b" ".join(words) + b"\n" + other


def unsigned(data: bytes) -> bytes:
    head, _, body = data.partition(b"\n")
    return b" ".join([*head.split(b" ")[:3], b"-"]) + b"\n" + body


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda x: b"", "no snapshot of a session"),
        (lambda x: b"\n", "no snapshot of a session"),
        (lambda x: b"PK\x03\x04" * 100, "no snapshot of a session"),
        (lambda x: x.replace(b"session 1 ", b"session x "), "no snapshot"),
        (lambda x: x.replace(b"session 1 ", b"session 2 "), "of version 2"),
        (lambda x: x.replace(b"secret", b"s3cret"), "damaged"),
        (lambda x: x[:-1], "damaged"),
        (lambda x: x.split(b"\n")[0], "no snapshot of a session"),
        (lambda x: forged(x, npcs=[]), "not made with this sessions.key"),
        (lambda x: x.split(b"\n")[0] + b"\n{}", "damaged"),
        (lambda x: unsigned(x), "not made with this sessions.key"),
        (lambda x: x + b" " * 64 * 1024 * 1024, "has more than"),
    ],
)
async def test_what_is_no_snapshot_is_refused(
    spoil: Callable[[bytes], bytes], said: str, autojump_clock: MockClock
) -> None:
    data, config = await kept_session(key=Secret("of the guild"))
    async with open_runtime(config, llm=ScriptedLLM(play)) as runtime:
        with pytest.raises(SnapshotRefused, match=said) as refused:
            runtime.session("one", tenant="guild", restore=spoil(data))
        assert "secret" not in str(refused.value)
        assert runtime.sessions == ()
        again = runtime.session("one", tenant="guild", restore=data)
        assert (await hear(again, "hello")).turn == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"npcs": []},
        {"npcs": {"Bo": {}}},
        {"npcs": {"Bo": {"turns": "many", "opening": {"call_id": "x"}}}},
        {"clock": "now"},
        {"variables": 7},
        {"scenes": [{"spoken_to": [["a"]]}]},
    ],
)
async def test_what_does_not_fit_is_refused(
    changed: dict[str, Any], autojump_clock: MockClock
) -> None:
    data, _ = await kept_session()
    with pytest.raises(SnapshotRefused, match="cannot be read"):
        SessionSnapshot.from_bytes(forged(data, **changed))


async def test_a_snapshot_of_others_is_refused(autojump_clock: MockClock) -> None:
    data, config = await kept_session()
    async with open_runtime(config, llm=ScriptedLLM(play)) as runtime:
        for tenant in (None, "thieves"):
            with pytest.raises(SnapshotRefused, match="belongs to another tenant"):
                runtime.session("one", tenant=tenant, restore=data)
        first = runtime.session("one", tenant="guild", restore=data)
        with pytest.raises(SnapshotRefused, match="guild/one exists: end it first"):
            runtime.session("one", tenant="guild", restore=data)
        assert (await hear(first, "hello")).turn == 2
    other = attrs.evolve(config, sessions=SessionsConfig(key=Secret("another")))
    async with open_runtime(other, llm=ScriptedLLM(play)) as runtime:
        with pytest.raises(SnapshotRefused, match="not made with this"):
            runtime.session("one", tenant="guild", restore=data)


@given(st.binary(max_size=80), st.integers(0, 400), st.integers(0, 255))
def test_no_bytes_do_anything_else(garbage: bytes, at: int, byte: int) -> None:
    """Cut, changed in one place, or anything at all: it is refused, or the same."""
    kept = SessionSnapshot(
        id="one", tenant="", variables={}, taken_at=1.0, run=RUN, clock=2.0, npcs={}
    )
    data = kept.to_bytes()
    changed = data[:at] + bytes([byte]) + data[at + 1 :]
    for odd in (garbage, data[:at], changed, b"glyphoxa-session 1 " + garbage):
        with suppress(SnapshotRefused):
            assert SessionSnapshot.from_bytes(odd) == kept


def test_a_snapshot_does_not_show_what_was_said() -> None:
    kept = SessionSnapshot(
        id="one",
        tenant="",
        variables={"name": "Secretive"},
        taken_at=1.0,
        run=RUN,
        clock=2.0,
        npcs={},
    )
    assert "Secretive" not in repr(kept)


# Stores.


async def test_a_full_store_ends_nothing(autojump_clock: MockClock) -> None:
    store = MemoryStore(most=1)
    async with open_runtime(
        with_room(1), llm=ScriptedLLM(play), session_store=store
    ) as runtime:
        await hear(runtime.session("one"), "hello")
        await hear(runtime.session("two"), "hello")
        with pytest.raises(StoreFull, match="1 session is set aside"):
            runtime.session("three")
        assert (await hear(runtime.session("two"), "hello")).turn == 2
        await runtime.session("one").end()
        assert (await hear(runtime.session("three"), "hello")).turn == 1


@attrs.define(eq=False)
class SlowStore(MemoryStore):
    """As one on a disk, or on another machine."""

    seconds: float = 1.0
    lost: bool = False
    error: Exception | None = None

    async def get(self, key: SessionKey) -> bytes | None:
        await trio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return None if self.lost else await super().get(key)

    async def forget(self, key: SessionKey) -> None:
        await trio.sleep(self.seconds)
        await super().forget(key)


async def test_a_slow_store_is_asked_once(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with open_runtime(
        with_room(2), llm=ScriptedLLM(play), tools=tools(), session_store=store
    ) as runtime:
        one = runtime.session("one")
        await hear(one, "hello")
        runtime.session("two"), runtime.session("three")
        found: list[TurnDone] = []

        async def speak(npc: str) -> None:
            found.append(await hear(one, "toss", npc))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(speak, "Bo")
            nursery.start_soon(speak, "Ann")
        assert sorted((x.npc, x.turn) for x in found) == [("Ann", 1), ("Bo", 2)]
        assert {x.end for x in found} == {TurnEnd.COMPLETED}


async def test_a_slow_store_forgets_nothing_that_is_put_there_next(
    autojump_clock: MockClock,
) -> None:
    store = SlowStore()
    async with open_runtime(
        with_room(1), llm=ScriptedLLM(play), session_store=store
    ) as runtime:
        one = runtime.session("one")
        await hear(one, "hello")
        runtime.session("two")

        async def crowd() -> None:
            """Set the first aside as soon as that is possible."""
            for number in range(100):
                await trio.sleep(0.05)
                with suppress(TooManySessions):
                    runtime.session(f"another {number}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(crowd)
            assert (await hear(one, "hello")).turn == 2
        await trio.sleep(10)
        assert (await hear(one, "hello")).turn == 3

        # Nor does the end of one session take what another of its name has left.
        runtime.session("four")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.end)
            await trio.sleep(0.5)
            with pytest.raises(SessionEnded):
                runtime.session("one")
        again = runtime.session("one")
        assert (await hear(again, "hello")).turn == 1
        runtime.session("five")
        await trio.sleep(10)
        assert (await hear(again, "hello")).turn == 2


async def test_a_store_that_hangs_holds_nobody_up_for_long(
    autojump_clock: MockClock,
) -> None:
    store = SlowStore()
    async with open_runtime(
        with_room(1), llm=ScriptedLLM(play), session_store=store
    ) as runtime:
        one = runtime.session("one")
        await hear(one, "hello")
        runtime.session("two")
        store.seconds = 1e9
        began = trio.current_time()
        with pytest.raises(SnapshotRefused, match="its store failed: TooSlowError"):
            await one.snapshot()
        async with one:  # leaving it is shielded
            pass
        assert trio.current_time() - began == 20.0
        assert [x.text for x in runtime.warnings] == [
            "the store of sessions did not drop one: TooSlowError: "
        ]


async def test_a_store_that_takes_nothing_ends_nothing(
    autojump_clock: MockClock,
) -> None:
    class Broken(MemoryStore):
        def put(self, key: SessionKey, snapshot: bytes) -> None:
            raise OSError("disk on fire")

    async with open_runtime(
        with_room(1), llm=ScriptedLLM(play), session_store=Broken()
    ) as runtime:
        await hear(runtime.session("one"), "hello")
        with pytest.raises(StoreFull, match="cannot be set aside: OSError: disk on"):
            runtime.session("two")
        assert (await hear(runtime.session("one"), "hello")).turn == 2


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        ({"seconds": 60.0}, DeadlineExceeded, "not awake within 5"),
        ({"lost": True}, SnapshotRefused, "its store has lost it"),
        ({"error": OSError("disk on fire")}, SnapshotRefused, "disk on fire"),
    ],
)
async def test_a_store_that_fails_harms_nobody_else(
    spoil: dict[str, Any],
    error: type[Exception],
    said: str,
    autojump_clock: MockClock,
) -> None:
    store = SlowStore()
    async with open_runtime(
        with_room(1), llm=ScriptedLLM(play), session_store=store
    ) as runtime:
        one = runtime.session("one")
        await hear(one, "hello")
        two = runtime.session("two")
        for name, value in spoil.items():
            setattr(store, name, value)
        with pytest.raises(error, match=said):
            await hear(one, "hello")
        assert (await hear(two, "hello")).turn == 1
        store.seconds, store.lost, store.error = 0.0, False, None
        assert (await hear(one, "hello")).turn == 2
