"""Sessions: many over the same characters, and none knows of another."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Session, Tier, open_runtime, tool
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.config.cost import CostConfig, Price
from glyphoxa_trio.config.sessions import SessionsConfig
from glyphoxa_trio.npc import TierSelected, Turn, TurnDone, TurnEnd, TurnEvent
from glyphoxa_trio.npc.cost import Spent
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, NpcId, SessionKey
from glyphoxa_trio.providers.llm import Finished, LLMRequest, Usage
from glyphoxa_trio.runtime import SessionEnded, TooManySessions
from glyphoxa_trio.runtime.session_state import SessionState, SessionStates
from glyphoxa_trio.tools.definition import CallContext

from ..npc.support import HANG, ScriptedLLM, call

BO = NpcConfig(
    name="Bo",
    personality="You speak with {caller_name}, call {call_id}.",
    greeting="Hail, {caller_name}!",
    tools=("*",),
)
CONFIG = Config(
    npcs=(BO, NpcConfig(name="Ann", tools=("*",))),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
)


def said_in(request: LLMRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def echo(request: LLMRequest) -> list[Any]:
    """The model repeats what it was told last."""
    return [f"You said {request.messages[-1].content}."]


async def hear(session: Session, text: str, npc: str = "Bo") -> TurnDone:
    async with session.npc(npc).say(text, speaker="player") as turn:
        return await turn.finish()


async def test_twenty_tables_speak_to_one_character_and_none_hears_another(
    autojump_clock: MockClock,
) -> None:  # D29
    llm = ScriptedLLM(lambda request: [0.1, *echo(request)])
    seen: list[TurnEvent] = []

    async def play(number: int) -> None:
        secret = f"secret-{number:02}-"
        async with runtime.session(f"table-{number}") as session:
            for turn in range(1, 4):
                done = await hear(session, f"{secret}{turn}")
                assert done.turn == turn
                assert done.session == session.id
                assert secret in done.text

    async with open_runtime(CONFIG, llm=llm) as runtime:
        with runtime.events.tap(seen.append):
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(play, number)
        assert runtime.sessions == ()
    assert len(llm.requests) == 60
    for request in llm.requests:
        assert len(set(re.findall(r"secret-\d\d", said_in(request)))) == 1
    ends = Counter(x.id for x in seen if isinstance(x, TurnDone))
    assert ends == {SessionKey(f"table-{n}").npc("Bo"): 3 for n in range(20)}


async def test_the_session_of_whoever_names_none(autojump_clock: MockClock) -> None:
    async with open_runtime(CONFIG, llm=ScriptedLLM(echo)) as runtime:
        async with runtime.npc("Bo").say("One.") as turn:
            done = await turn.finish()
        assert (done.turn, done.session, done.tenant) == (1, "default", "")
        assert (await hear(runtime.session(), "Two.")).turn == 2
        assert (await hear(runtime.session("default"), "Three.")).turn == 3
        assert runtime.sessions == (DEFAULT_SESSION,)


async def test_what_is_known_of_a_session_is_known_in_no_other(
    autojump_clock: MockClock,
) -> None:  # A32, A33
    llm = ScriptedLLM(echo)
    async with open_runtime(CONFIG, llm=llm) as runtime:
        first = runtime.session("one", variables={"caller_name": "Ann"})
        cyd = {"caller_name": "Cyd"}
        second = runtime.session("two", tenant="guild", variables=cyd)
        ids = set()
        selected: list[TierSelected] = []
        for session, name in ((first, "Ann"), (second, "Cyd")):
            async with session.npc("Bo").greet() as turn:
                assert (await turn.finish()).text == f"Hail, {name}!"
            with runtime.events.tap(
                lambda x: selected.append(x) if isinstance(x, TierSelected) else None
            ):
                await hear(session, "Well met.")
            opening = llm.requests[-1].messages[0].content
            assert f"You speak with {name}, call " in opening
            ids.add(opening.partition("call ")[2])
        assert len(ids) == 2

        assert {x.reason for x in selected} == {"the first turn"}
        await first.npc("Bo").elevate(Tier.DEEP, seconds=60)
        await first.npc("Bo").overhear("Dan", "The key is under the mat.")
        heard: list[TierSelected] = []
        with runtime.events.tap(
            lambda x: heard.append(x) if isinstance(x, TierSelected) else None
        ):
            await hear(first, "So?")
            assert "under the mat" in said_in(llm.requests[-1])
            await hear(second, "So?")
            assert "under the mat" not in said_in(llm.requests[-1])
        assert [x.ceiling for x in heard] == [Tier.DEEP, Tier.FAST]
        assert [x.id for x in heard] == [
            SessionKey("one").npc("Bo"),
            SessionKey("two", "guild").npc("Bo"),
        ]

        # Also to those whom nobody has spoken to yet.
        await first.set_variables({"caller_name": "Eve"})
        await hear(first, "And now?")
        assert "You speak with Eve" in llm.requests[-1].messages[0].content
        assert first.variables == {"caller_name": "Eve"}
        assert second.variables == {"caller_name": "Cyd"}


async def test_tenants_may_have_sessions_of_the_same_id(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM(echo)
    async with open_runtime(CONFIG, llm=llm) as runtime:
        ours = runtime.session("42", tenant="us")
        theirs = runtime.session("42", tenant="them")
        await hear(ours, "Our secret.")
        done = await hear(theirs, "Hello.")
        assert (done.turn, done.tenant) == (1, "them")
        assert "Our secret" not in said_in(llm.requests[-1])
        await theirs.end()
        assert (await hear(ours, "Again.")).turn == 2


async def test_tools_know_whose_call_it_is_and_answers_are_cached_apart(
    autojump_clock: MockClock,
) -> None:
    asked: list[tuple[str, str, str]] = []

    @tool(read_only=True, cacheable_seconds=60, per_npc=True)
    async def recall(context: CallContext) -> str:
        """What you know."""
        asked.append((context.tenant, context.session, context.npc))
        return f"what {context.session} knows"

    def play(request: LLMRequest) -> list[Any]:
        if request.messages[-1].role == "tool":
            return [f"It is {request.messages[-1].content}."]
        return [call("recall")]

    async with open_runtime(CONFIG, llm=ScriptedLLM(play), tools=[recall]) as runtime:
        keys = (("", "one"), ("", "two"), ("guild", "two"))
        for tenant, id_ in keys:
            session = runtime.session(id_, tenant=tenant)
            for _ in range(2):  # the second time it is known
                assert id_ in (await hear(session, "Well?")).text
            await hear(session, "Well?", "Ann")
    assert asked == [(*key, npc) for key in keys for npc in ("Bo", "Ann")]


async def test_what_it_costs_is_its_own(autojump_clock: MockClock) -> None:
    used = Usage(input_tokens=1_000_000)
    llm = ScriptedLLM(lambda request: ["Well.", Finished(usage=used)])
    config = attrs.evolve(
        CONFIG,
        cost=CostConfig(prices={"scripted": Price(input=1.0, output=1.0)}, per_npc=1.5),
    )
    async with open_runtime(config, llm=llm) as runtime:
        one, two = runtime.session("one"), runtime.session("two")
        ends = [(await hear(one, "Well?")).end for _ in range(3)]
        assert ends == [TurnEnd.COMPLETED, TurnEnd.COMPLETED, TurnEnd.SHED]
        assert (await hear(two, "Well?")).end is TurnEnd.COMPLETED
        assert (one.cost.cost, two.cost.cost) == (2.0, 1.0)
        await one.end()
        assert runtime.cost.total.cost == 3.0
        assert runtime.cost.npcs["Bo"].cost == 3.0
        assert (await hear(runtime.session("one"), "Well?")).end is TurnEnd.COMPLETED


async def test_ending_one_interrupts_it_and_writes_go_on_in_silence(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []

    @tool(read_only=True)
    async def look() -> str:
        """Look around."""
        try:
            await trio.sleep(2.0)
        finally:
            log.append("looked")
        return "nothing"

    @tool(read_only=False)
    async def write() -> str:
        """Write it down."""
        await trio.sleep(1.0)
        log.append("written")
        return "written"

    llm = ScriptedLLM(lambda request: [call("look"), call("write")])
    ends: list[TurnDone] = []
    async with open_runtime(CONFIG, llm=llm, tools=[look, write]) as runtime:
        session = runtime.session("one")
        scene = session.scene()

        async def listen(speaker: str) -> None:
            async with session.npc("Bo").say("Write!", speaker=speaker) as turn:
                ends.append(await turn.finish())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, "a")
            await trio.sleep(0.1)
            nursery.start_soon(listen, "b")  # waits its turn
            await wait_all_tasks_blocked()
            began = trio.current_time()
            await session.end()
            assert trio.current_time() - began < 0.5
        assert sorted((x.end, x.outcomes != ()) for x in ends) == [
            (TurnEnd.INTERRUPTED, False),
            (TurnEnd.INTERRUPTED, True),
        ]
        assert log == ["looked"]
        await trio.sleep(2.0)
        assert log == ["looked", "written"]

        assert session.ended
        with pytest.raises(SessionEnded, match="the session one has ended"):
            session.npc("Bo")
        with pytest.raises(SessionEnded):
            session.scene()
        with pytest.raises(SessionEnded, match="has ended"):
            await scene.say("Bo?").__aenter__()
        await session.end()  # once more changes nothing

        # Another one of that id knows nothing of it.
        again = runtime.session("one")
        assert not again.ended
        async with again.npc("Bo").greet() as turn:
            done = await turn.finish()
        assert (done.turn, done.text) == (1, "Hail, there!")
        chosen: list[str] = []
        with runtime.events.tap(
            lambda x: chosen.append(x.reason) if isinstance(x, TierSelected) else None
        ):
            async with again.npc("Bo").say("Well met.") as turn:
                await turn.__anext__()
        assert chosen == ["the first turn"]


async def test_a_scene_is_of_its_session(autojump_clock: MockClock) -> None:
    llm = ScriptedLLM(echo)
    async with open_runtime(CONFIG, llm=llm) as runtime:
        one, two = runtime.session("one"), runtime.session("two")
        assert one.scene() is one.scene()
        assert one.scene() is not two.scene()
        async with one.scene().say("Bo, the key is under the mat.") as turn:
            done = await turn.finish()
        assert (done.npc, done.session) == ("Bo", "one")
        await hear(one, "What is new?", "Ann")
        assert "under the mat" in said_in(llm.requests[-1])
        await hear(two, "What is new?", "Ann")
        assert "under the mat" not in said_in(llm.requests[-1])


async def test_a_reload_reaches_all_of_them(autojump_clock: MockClock) -> None:
    llm = ScriptedLLM(echo)
    async with open_runtime(CONFIG, llm=llm) as runtime:
        sessions = [runtime.session(str(n)) for n in range(3)]
        for session in sessions:
            await hear(session, "Hello.")
        later = attrs.evolve(BO, personality="You are older.")
        await runtime.reload(attrs.evolve(CONFIG, npcs=(later,)))
        for session in sessions:
            assert (await hear(session, "Hello again.")).turn == 2
            opening = llm.requests[-1].messages[0].content
            assert "You are older." in opening
            with pytest.raises(Exception, match="no NPC 'Ann'"):
                session.npc("Ann")


@pytest.mark.parametrize(
    ("id_", "tenant", "error", "said"),
    [
        ("", None, ValueError, "the id of a session must be 1 to 200"),
        (" ", None, ValueError, "the id of a session"),
        ("a\nb", None, ValueError, "the id of a session"),
        ("x" * 201, None, ValueError, "the id of a session"),
        (7, None, TypeError, "id must be text"),
        ("one", 7, TypeError, "tenant must be text"),
        ("one", "\x00", ValueError, "the tenant of a session"),
    ],
)
async def test_what_names_no_session_is_refused(
    id_: Any, tenant: Any, error: type[Exception], said: str
) -> None:
    async with open_runtime(CONFIG, llm=ScriptedLLM(echo)) as runtime:
        with pytest.raises(error, match=said):
            runtime.session(id_, tenant=tenant)
        assert runtime.sessions == ()


async def test_variables_of_a_session_that_is_there_are_not_changed_in_passing() -> (
    None
):
    async with open_runtime(CONFIG, llm=ScriptedLLM(echo)) as runtime:
        runtime.session("one", variables={"caller_name": "Ann"})
        runtime.session("one", variables={"caller_name": "Ann"})
        runtime.session("one")
        with pytest.raises(
            ValueError, match="the session one exists with other variables"
        ):
            runtime.session("one", variables={"caller_name": "Eve"})


async def test_there_are_only_so_many() -> None:
    tables = SessionStates(lambda: 2, lambda table: False)
    first = tables.sit(SessionKey("1"), {})
    tables.sit(SessionKey("2"), {})
    assert tables.sit(SessionKey("1"), {}) is first
    with pytest.raises(TooManySessions, match="2 sessions are open: end some"):
        tables.sit(SessionKey("3"), {})
    tables.end(first)
    tables.sit(SessionKey("3"), {})


KNOWN = st.lists(
    st.tuples(
        st.sampled_from(["ask for", "use", "hold", "let go", "rest", "end"]),
        st.sampled_from("abc"),
    ),
    max_size=20,
)


@given(KNOWN)
def test_what_is_kept_elsewhere_is_known_as_long_as_it_is_open_or_held(
    steps: list[tuple[str, str]],
) -> None:
    """The model: the names that are open, in order, those that were only asked for, and
    what the program holds."""

    def rest(state: SessionState) -> bool:
        state.rest(Spent(), None)
        return True

    async def main() -> None:
        states = SessionStates(lambda: 2, rest, durable=True)
        open_, asked = list[str](), set[str]()
        held = dict[str, SessionState]()
        for what, name in steps:
            await trio.sleep(1)
            key = SessionKey(name)
            match what:
                case "ask for" | "use" | "hold":
                    state = states.sit(key, {})
                    if held.get(name, state) is not state:
                        raise AssertionError("two of one name")
                    if name not in open_ and name not in held:
                        asked.add(name)
                    if what == "hold":
                        held[name] = state
                    if what == "use":
                        if state.resting:
                            state.begin()
                            states.wake(state)
                        asked.discard(name)
                        open_ = [*(x for x in open_ if x != name), name][-2:]
                    elif name in open_:
                        open_ = [*(x for x in open_ if x != name), name]
                    del state
                case "let go":
                    held.pop(name, None)
                case "rest":
                    states.rest_unused(trio.current_time() + 1)
                    open_, asked = [], set()
                case "end":
                    if (ends := states.get(key)) is not None:
                        states.end(ends)
                    del ends
                    held.pop(name, None)
                    asked.discard(name)
                    open_ = [x for x in open_ if x != name]
            assert [x.key.id for x in states.open] == open_
            known = {x for x in "abc" if states.get(SessionKey(x)) is not None}
            assert known == {*open_, *asked, *held}
            assert states.resting == len(known) - len(open_)

    trio.run(main, clock=MockClock(autojump_threshold=0))


IDS = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=4)
KEYS = st.builds(SessionKey, IDS, st.just("") | IDS)


@given(st.builds(NpcId, IDS, KEYS), st.builds(NpcId, IDS, KEYS))
def test_no_two_npcs_have_the_same_text(one: NpcId, other: NpcId) -> None:
    assert (one.text == other.text) == (one == other)
    assert (one.session.text == other.session.text) == (one.session == other.session)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["say", "say", "say", "introduce", "elevate", "end", "leave", "restore"]
        ),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["", "guild"]),
        st.sampled_from(["Bo", "Ann"]),
    ),
    max_size=25,
)


@given(STEPS, st.sampled_from([1, 2, 100]))
def test_sessions_are_what_a_dictionary_says(
    steps: list[tuple[str, str, str, str]], most: int
) -> None:
    """Whatever is done in one, and however few have room: turn numbers, names and
    histories are its own."""
    config = attrs.evolve(CONFIG, sessions=SessionsConfig(most=most))

    async def main() -> None:
        llm = ScriptedLLM(
            lambda r: (
                ["Well.\n", HANG] if r.messages[-1].content == "wait" else ["Well."]
            )
        )
        turns: dict[tuple[str, str], Counter[str]] = {}
        names: dict[tuple[str, str], str] = {}
        said: dict[tuple[str, str, str], list[str]] = {}
        async with open_runtime(config, llm=llm) as runtime:
            for number, (step, id_, tenant, npc) in enumerate(steps):
                key = (id_, tenant)
                session = runtime.session(id_, tenant=tenant or None)
                known = turns.setdefault(key, Counter())
                lines = said.setdefault((*key, npc), [])
                match step:
                    case "say":
                        known[npc] += 1
                        lines.append(f"line {number:02}.")
                        done = await hear(session, lines[-1], npc)
                        assert (done.turn, done.session, done.tenant) == (
                            known[npc],
                            *key,
                        )
                        told = said_in(llm.requests[-1])
                        others = [x for y in said.values() if y is not lines for x in y]
                        assert all(line in told for line in lines[-5:])
                        assert not any(line in told for line in others)
                        if npc == "Bo":
                            assert f"You speak with {names.get(key, 'there')}," in told
                    case "introduce":
                        names[key] = f"name{number}"
                        await session.set_variables({"caller_name": names[key]})
                    case "elevate":
                        await session.npc(npc).elevate(Tier.DEEP, seconds=5)
                    case "restore":
                        kept = (await session.snapshot()).to_bytes()
                        await session.end()
                        runtime.session(id_, tenant=tenant or None, restore=kept)
                    case "leave":
                        known[npc] += 1
                        async with session.npc(npc).say("wait") as turn:
                            await turn.__anext__()
                        lines.clear()
                        await session.end()
                        turns.pop(key), names.pop(key, None)
                        for place in [x for x in said if x[:2] == key]:
                            del said[place]
                    case "end":
                        await session.end()
                        turns.pop(key), names.pop(key, None)
                        for place in [x for x in said if x[:2] == key]:
                            del said[place]
                there = {(x.id, x.tenant) for x in runtime.sessions}
                assert there <= turns.keys()
                assert len(there) + runtime.set_aside == len(turns)
                assert len(there) <= most

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_all_answers_of_a_session_are_interrupted_and_no_others(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM(lambda request: ["Well. ", 3.0, "At last."])
    ends: dict[str, TurnEnd] = {}

    async def listen(name: str, turn: Turn) -> None:
        async with turn:
            ends[name] = (await turn.finish()).end

    async with open_runtime(CONFIG, llm=llm) as runtime:
        table, other = runtime.session("table"), runtime.session("other")
        assert await table.interrupt() is False
        async with trio.open_nursery() as nursery:
            bo, scene = table.npc("Bo"), table.scene("Ann")
            nursery.start_soon(listen, "npc", bo.say("Hail", speaker="one"))
            nursery.start_soon(listen, "scene", scene.say("Hail", speaker="two"))
            nursery.start_soon(listen, "other", other.npc("Bo").say("Hail"))
            await trio.sleep(1)
            assert await table.interrupt(speaker="three") is False
            assert await table.interrupt(speaker="one") is True
            await trio.sleep(1)
            assert ends == {"npc": TurnEnd.INTERRUPTED}
            assert await table.interrupt() is True
        assert ends == {
            "npc": TurnEnd.INTERRUPTED,
            "scene": TurnEnd.INTERRUPTED,
            "other": TurnEnd.COMPLETED,
        }
