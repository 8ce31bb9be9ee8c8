"""A recorded session played again: the same events, to the byte; else the difference.

Most of it runs on virtual time with made-up servers, whose chance comes from a seed.
At the end are real processes, with real servers and the real clock.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import trio

from glyphoxa_trio import tool
from glyphoxa_trio.config import Config, parse
from glyphoxa_trio.config.overrides import ToolOverride
from glyphoxa_trio.config.sessions import SessionsConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Moment, Npc
from glyphoxa_trio.observability.recording.format import (
    BadRecording,
    Recorded,
    read_recording,
    recorded,
)
from glyphoxa_trio.observability.recording.kinds import KINDS
from glyphoxa_trio.observability.recording.lines import LineOutput
from glyphoxa_trio.observability.recording.recording import recorder_of
from glyphoxa_trio.observability.stepping import SteppingClock
from glyphoxa_trio.providers.chain import Chain, ModelCandidate
from glyphoxa_trio.providers.llm import (
    LLM,
    ErrorKind,
    Finished,
    LLMError,
    LLMRequest,
    Usage,
    Verbatim,
    Waiting,
)
from glyphoxa_trio.runtime import Environment, Runtime, open_runtime
from glyphoxa_trio.simulation import virtual
from glyphoxa_trio.simulation.clock import ExactClock
from glyphoxa_trio.simulation.promises.fake_world import Act, Ending, FakeWorld
from glyphoxa_trio.simulation.replay.again import replay
from glyphoxa_trio.simulation.replay.diff import difference
from glyphoxa_trio.tools.outcome import Media, ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier
from tests.cli.support import (
    LIMIT,
    PATIENT,
    reports,
    run,
    seer,
    terminal,
    written,
)
from tests.npc.support import HANG, Reply, ScriptedLLM, Step

SEER = {
    "name": "consult",
    "description": "Ask the seer.",
    "inputSchema": {
        "type": "object",
        "properties": {"question": {"type": "string"}},
        "required": ["question"],
    },
    "annotations": {"readOnlyHint": True},
}
LEDGER = {
    "name": "pay",
    "description": "Pay somebody.",
    "inputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}}},
}
OFFERS = {"seer": (SEER,), "ledger": (LEDGER,)}


BO = {"name": "Bo", "tools": ["dice", "seer", "ledger"], "budget_tier": "deep"}
YSOLDE = {"name": "Ysolde", "tools": ["seer"], "budget_tier": "standard"}
CASCADE = {"engine": "sentence_cascade", "cascade_mode": "always"}


def table(**more: Any) -> Config:
    """Two NPCs, two servers; no disk and no threads."""
    data: dict[str, Any] = {
        "npcs": [BO, YSOLDE],
        "mcp": {
            "remember": False,
            "servers": [
                {"name": "seer", "command": "x", "estimated_duration_ms": 300},
                {"name": "ledger", "command": "x", "estimated_duration_ms": 100},
            ],
        },
        "calibration": {"at_start": False},
        "trust": {"mode": "full"},
        "turn": {"listener_ms": 3000},
    }
    return parse(data | more, source=Path("table.yaml"), env={})


def taking(seconds: float) -> Callable[[str, Mapping[str, Any]], Act]:
    return lambda key, arguments: Act(Ending.ANSWER, seconds)


def record(
    play: Callable[[Runtime], Awaitable[None]],
    *,
    llm: Any = None,
    config: Config | None = None,
    scenery: FakeWorld | None = None,
    seed: int = 0,
    **options: Any,
) -> bytes:
    """A session on virtual time, written down."""
    file = io.BytesIO()
    made_up = scenery or FakeWorld(taking(0.25), OFFERS)

    async def main() -> None:
        lines = LineOutput(file)
        recorder = recorder_of(lines)
        async with open_runtime(
            config or table(),
            llm=llm,
            environment=recorder.environment(made_up.environment()),
            **options,
        ) as runtime:
            await play(runtime)
        assert recorder.failed == 0
        lines.end(trio.current_time(), "closed")

    virtual.run(main, seed=seed, clock=ExactClock())
    return file.getvalue()


async def listen(npc: Npc, text: str, **how: Any) -> None:
    async with npc.say(text, **how) as turn:
        await turn.finish()


def consult(number: int = 1, question: str = "Is he dead?") -> ToolCall:
    arguments = json.dumps({"question": question})
    return ToolCall(f"c{number}", "mcp__seer__consult", arguments)


def pay(number: int = 1, sum_: int = 3) -> ToolCall:
    return ToolCall(f"p{number}", "mcp__ledger__pay", json.dumps({"sum": sum_}))


def one_of(*replies: Reply) -> ScriptedLLM:
    return ScriptedLLM(replies)


def test_a_recorder_forgets_sessions_that_have_ended() -> None:
    async def main() -> None:
        recorder = recorder_of(LineOutput(io.BytesIO()))
        environment = recorder.environment(
            FakeWorld(taking(0.25), OFFERS).environment()
        )
        async with open_runtime(table(), environment=environment) as runtime:
            for number in range(50):
                async with runtime.session(f"{number}") as session:
                    await listen(session.npc("Bo"), "hello")
            assert len(recorder._hearing) <= 1  # of the session that ended last
        assert recorder.failed == 0

    virtual.run(main, seed=0, clock=ExactClock())


def read(data: bytes) -> Recorded:
    return recorded(data)


# The same.


def test_a_session_is_replayed_to_the_byte() -> None:
    llm = one_of([0.1, "One moment. ", 0.3, consult()], [0.2, "He is ", 0.1, "dead."])
    data = record(lambda runtime: listen(runtime.npc("Bo"), "Hail"), llm=llm)
    again = replay(read(data))
    assert again.same, "\n".join(again.difference)
    assert again.notes == ()
    kinds = [line["event"] for line in again.events]
    assert kinds[0] == "TierSelected"
    assert kinds[-1] == "TurnDone"
    done = again.events[-1]
    assert done["text"] == "One moment. He is dead."
    # To the last bit what the clock said, and not just about that.
    assert done["timings"]["tools"] == (0.1 + 0.3 + 0.25) - (0.1 + 0.3)


def _act(choice: random.Random) -> Act:
    seconds = choice.choice([0.0, 0.01, 0.3, 0.7, 2.0, 5.0])
    return Act(choice.choice(list(Ending)), seconds * choice.uniform(0.9, 1.1))


def _reply(choice: random.Random) -> list[Step]:
    steps: list[Step] = []
    for number in range(choice.randrange(5)):
        kind = choice.randrange(6)
        if kind == 0:
            steps.append(choice.uniform(0, 0.4))
        elif kind == 1:
            steps.append(consult(number, choice.choice("abc")))
        elif kind == 2:
            steps.append(pay(number, choice.randrange(3)))
        elif kind == 3:
            steps.append(ToolCall(f"x{number}", "no_such", "{"))
        else:
            steps.append(choice.choice(["Well. ", "So be it. ", "Hm", " and then."]))
    return steps


async def _player(runtime: Runtime, choice: random.Random, name: str) -> None:
    for _ in range(choice.randrange(1, 4)):
        await trio.sleep(choice.choice([0.0, 0.1, 1.7]) * choice.random())
        npc = runtime.npc(choice.choice(["Bo", "Ysolde"]))
        how = choice.randrange(8)
        try:
            if how == 0:
                await npc.interrupt()
            elif how == 1:
                await npc.elevate(Tier.DEEP, seconds=choice.uniform(0.1, 3))
            else:
                await _talk(npc, choice, name)
        except GlyphoxaError:
            pass  # a full queue; it is in the recording, too


async def _talk(npc: Npc, choice: random.Random, name: str) -> None:
    """Listen in one of the ways in which people do, and perhaps not to the end."""
    patience = choice.choice([9.0, 0.4, 0.05]) * choice.uniform(0.8, 1.2)
    words = choice.choice(["hello", "think carefully", "who is that"])
    tier = choice.choice([None, None, Tier.FAST, Tier.DEEP])
    most = choice.choice([99, 99, 4])
    pause = choice.choice([0.0, 0.0, 0.2])
    with trio.move_on_after(patience):
        async with npc.say(words, speaker=name, tier=tier) as turn:
            async for _ in turn:
                await trio.sleep(pause * choice.random())
                most -= 1
                if not most:
                    break


def random_session(seed: int) -> bytes:
    choice = random.Random(seed)
    scenery = FakeWorld(lambda key, arguments: _act(choice), OFFERS)

    def answer(request: LLMRequest) -> Reply:
        return _reply(choice)

    async def accidents(runtime: Runtime) -> None:
        for _ in range(choice.randrange(3)):
            await trio.sleep(choice.uniform(0, 2))
            server = scenery.server(choice.choice(["seer", "ledger"]))
            choice.choice([server.die, server.freeze, server.thaw])()

    async def play(runtime: Runtime) -> None:
        async with trio.open_nursery() as nursery:
            for name in ("Anna", "Berta", "Cora")[: choice.randrange(1, 4)]:
                nursery.start_soon(_player, runtime, choice, name)
            nursery.start_soon(accidents, runtime)
        await trio.sleep(choice.choice([0.0, 0.5, 40.0]))

    return record(
        play,
        llm=ScriptedLLM(answer),
        config=table(
            npcs=[BO, YSOLDE | CASCADE] if seed % 5 in (0, 4) else [BO, YSOLDE],
            turn={"listener_ms": 3000, "silence_ms": 900, "opener_ms": 300},
            filler={"after_ms": 150, "thresholds": {"standard_ms": 50, "deep_ms": 50}},
        ),
        scenery=scenery,
        seed=seed,
    )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
# Each of these shows a race that is decided on purpose: what is heard by the time of a
# request, what is done at one instant with an answer, what a call says of its tool.
@example(171)
@example(23)
@example(217)
@example(2016)
def test_whatever_happens_in_a_session_is_replayed_to_the_byte(seed: int) -> None:
    recording = read(random_session(seed))
    first, second = replay(recording), replay(recording)
    assert first.same, "\n".join(first.difference)
    assert first.notes == ()
    assert first.as_bytes() == second.as_bytes()


async def _guest(runtime: Runtime, choice: random.Random, name: str) -> None:
    """Somebody who goes from table to table."""
    for _ in range(choice.randrange(2, 7)):
        await trio.sleep(choice.choice([0.0, 0.1, 1.7]) * choice.random())
        try:
            session = runtime.session(choice.choice("abc"))
            npc = session.npc(choice.choice(["Bo", "Ysolde"]))
            match choice.randrange(9):
                case 0:
                    await npc.overhear(name, choice.choice(["the key", "the mat"]))
                case 1:
                    await session.set_variables({"caller_name": name})
                case 2:
                    await npc.elevate(Tier.DEEP, seconds=choice.uniform(0.1, 3))
                case 3:
                    await session.end()
                case 4:
                    kept = (await session.snapshot()).to_bytes()
                    await session.end()
                    runtime.session(session.id, restore=kept)
                case 5:
                    scene = session.scene()
                    async with scene.say("Bo, hello", speaker=name) as turn:
                        await turn.finish()
                case _:
                    await _talk(npc, choice, name)
        except GlyphoxaError:
            pass  # a full queue, or the session has ended


def random_tables(seed: int) -> bytes:
    """Several tables over the same characters, with room for fewer."""
    choice = random.Random(seed)
    scenery = FakeWorld(lambda key, arguments: _act(choice), OFFERS)
    most = choice.choice([1, 2, 99])
    npcs = tuple(
        attrs.evolve(x, personality="You speak with {caller_name}, call {call_id}.")
        for x in table().npcs
    )
    config = attrs.evolve(table(), npcs=npcs, sessions=SessionsConfig(most=most))

    async def play(runtime: Runtime) -> None:
        async with trio.open_nursery() as nursery:
            for name in ("Anna", "Berta", "Cora")[: choice.randrange(1, 4)]:
                nursery.start_soon(_guest, runtime, choice, name)

    llm = ScriptedLLM(lambda request: _reply(choice))
    return record(play, llm=llm, config=config, scenery=scenery, seed=seed)


@given(st.integers(0, 2**32))
def test_whatever_happens_at_several_tables_is_replayed_to_the_byte(seed: int) -> None:
    recording = read(random_tables(seed))
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    assert again.notes == ()


KEPT = {
    **SEER,
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
    "_meta": {"cacheable_seconds": 60},
}


def crowded_session(seed: int) -> bytes:
    """The same question several times in one response, of a tool whose answers are kept
    and which breaks down now and then; another is on trial, and waits for a seat."""
    choice = random.Random(seed)
    offers = {"seer": (KEPT,), "ledger": (LEDGER,)}
    config = table()
    servers = tuple(
        attrs.evolve(x, estimated_duration=None) for x in config.mcp.servers
    )
    config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, servers=servers))

    def act(key: str, arguments: Mapping[str, Any]) -> Act:
        ending = choice.choice([Ending.ANSWER] * 2 + [Ending.SAY_NO, Ending.HANG])
        return Act(ending, choice.choice([0.0, 0.25, 0.75]))

    def calls() -> list[ToolCall]:
        asked = [consult(n, choice.choice("ab")) for n in range(choice.randint(1, 4))]
        return [*asked, *(pay(n, n) for n in range(choice.randint(0, 3)))]

    replies = [x for _ in range(8) for x in (calls(), ["Well."])]

    async def play(runtime: Runtime) -> None:
        async with trio.open_nursery() as nursery:
            for name in ("Bo", "Ysolde"):
                nursery.start_soon(ask, runtime.npc(name))

    async def ask(npc: Npc) -> None:
        for tier in (Tier.STANDARD, Tier.FAST, Tier.STANDARD, Tier.DEEP):
            await listen(npc, "hello", tier=tier)
            await trio.sleep(choice.choice([0.25, 4.0, 11.0]))

    scenery = FakeWorld(act, offers)
    return record(play, llm=one_of(*replies), config=config, scenery=scenery, seed=seed)


@settings(
    max_examples=settings().max_examples // 4,  # each of them is a whole scenario
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.integers(0, 2**32))
@example(891)  # a seat is given back, and what that call says is heard first
def test_equal_calls_seats_and_breakers_are_as_they_were(seed: int) -> None:
    recording = read(crowded_session(seed))
    first, second = replay(recording), replay(recording)
    assert first.same, "\n".join(first.difference)
    assert first.as_bytes() == second.as_bytes()


def test_a_ceiling_in_whole_seconds_is_the_same_in_a_replay() -> None:
    config = table()
    limits = attrs.evolve(config.tiers, standard_ceiling=2, deep_ceiling=5)
    llm = one_of([consult()], ["Well."])

    async def play(runtime: Runtime) -> None:
        await listen(runtime.npc("Bo"), "hello", tier=Tier.STANDARD)

    again = replay(
        read(record(play, llm=llm, config=attrs.evolve(config, tiers=limits)))
    )
    assert again.same, "\n".join(again.difference)


@pytest.mark.border
def test_two_replays_are_the_same_whatever_the_hash_seed_and_the_order_of_tasks() -> (
    None
):
    # A process of its own each: nothing may hang on identities or hashes.
    data = random_session(7)
    code = (
        "import sys; from glyphoxa_trio.observability.recording.format import recorded;"
        "from glyphoxa_trio.simulation.replay import replay;"
        "sys.stdout.buffer.write(replay(recorded(sys.stdin.buffer.read())).as_bytes())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=data,
            capture_output=True,
            check=True,
            timeout=LIMIT,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in range(3)
    }
    assert outputs == {replay(read(data)).as_bytes()}


@pytest.mark.parametrize(
    "seed",
    [
        *range(4),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 12)),
    ],
)
def test_a_run_that_was_killed_is_replayed_as_far_as_it_was_written(seed: int) -> None:
    data = random_session(seed)
    lines = data.splitlines(keepends=True)
    choice = random.Random(seed)
    for end in sorted(choice.sample(range(2, len(lines)), min(8, len(lines) - 2))):
        torn = lines[end][: choice.randrange(len(lines[end]) - 1)]
        recording = read(b"".join([*lines[:end], torn]))
        assert any("killed" in note for note in recording.notes)
        again = replay(recording)
        assert again.same, "\n".join(again.difference)


def test_a_recording_on_another_virtual_clock_is_the_same_but_for_rounding() -> None:
    llm = one_of([0.1, "One. ", 0.3, consult()], [0.7, "Two."])
    file = io.BytesIO()

    async def main() -> None:
        lines = LineOutput(file)
        world = recorder_of(lines).environment(
            FakeWorld(taking(1 / 3), OFFERS).environment()
        )
        async with open_runtime(table(), llm=llm, environment=world) as runtime:
            await listen(runtime.npc("Bo"), "Hail")
        lines.end(trio.current_time(), "closed")

    virtual.run(main)  # on trio's own
    recording = read(file.getvalue())
    assert recording.tolerance == 1e-6
    assert replay(recording).same


def test_probes_and_what_was_measured_before_count_as_they_did() -> None:
    config = table(calibration={"at_start": True})
    llm = one_of([consult()], ["Well."], [consult()], ["Well."])

    async def play(runtime: Runtime) -> None:
        await listen(runtime.npc("Bo"), "hello")  # the seer is still being measured
        await trio.sleep(30)
        await listen(runtime.npc("Bo"), "hello")

    here = {**SEER, "annotations": {"readOnlyHint": True, "openWorldHint": False}}
    scenery = FakeWorld(taking(0.44), {**OFFERS, "seer": (here,)})
    data = record(play, llm=llm, config=config, scenery=scenery)
    recording = read(data)
    # Five probes of each that only reads: the seer and four of our own.
    probes = [x for x in recording.of("call") if x.get("until") is not None]
    assert {x["tool"] for x in probes} > {"seer.consult", "dice.roll"}
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    # What it had measured decides: without that, the same session is another one.
    lines = data.splitlines(keepends=True)
    numbers = {x["call"] for x in probes}
    rest = [x for x in lines if _number_of(x, "call") not in numbers]
    assert not replay(read(b"".join(rest))).same


def _number_of(line: bytes, kind: str) -> int | None:
    number = json.loads(line).get(kind)
    return number if isinstance(number, int) else None


def test_samples_of_earlier_runs_are_part_of_a_recording() -> None:
    samples = [
        {"kind": "ok", "seconds": 0.7, "at": -5.0 - number, "probe": False}
        for number in range(5)
    ]
    llm = one_of([consult()], ["Well."])

    async def play(runtime: Runtime) -> None:
        await listen(runtime.npc("Bo"), "hello", tier=Tier.FAST)

    lines = record(play, llm=llm).splitlines(keepends=True)
    server = next(x for x in map(json.loads, lines) if x.get("tools") and "server" in x)
    origin = next(x["origin"] for x in server["tools"] if "origin" in x)
    key = f"{server['server']}.{server['tools'][0]['name']}"
    where = {"environment": "local", "origin": origin, "key": key}
    measured = [
        json.dumps({"kind": "measured", "at": 0.0, **where, "sample": x}).encode()
        + b"\n"
        for x in samples
    ]
    slow = replay(read(b"".join([lines[0], *measured, *lines[1:]])))
    # Five calls of 700 ms: too slow for a fast turn, so it is not even shown.
    shown = [x["shown"] for x in slow.events if x["event"] == "ToolsShown"]
    name = f"mcp__{server['server']}__{server['tools'][0]['name']}"
    assert name not in shown[0]


async def _with_partials(runtime: Runtime) -> None:
    npc = runtime.npc("Bo")
    for words in ("is he", "is he dead", "is he dead or not"):
        await npc.hearing(words)
        await trio.sleep(0.3)
    await listen(npc, "is he dead or not")


def test_what_was_begun_on_partial_transcripts_is_begun_again() -> None:
    config = table(speculation={"enabled": True, "after_ms": 100})
    llm = ScriptedLLM(lambda request: [0.4, "Ask the seer. ", 0.1, "I will not."])
    data = record(_with_partials, llm=llm, config=config)
    recording = read(data)
    assert len(recording.of("hearing")) == 3
    ends = [x["end"] for x in recording.of("event") if x["event"] == "SpeculationDone"]
    assert "adopted" in ends
    again = replay(recording)
    assert again.same, "\n".join(again.difference)


def test_who_answered_and_what_it_took_and_cost_is_as_it_was() -> None:
    down = LLMError(ErrorKind.OVERLOADED, "down")
    usage = Usage(input_tokens=100, output_tokens=10, cached_tokens=50, model="b")
    thought = Verbatim(model="b", content='[{"type": "thinking"}]')
    first = one_of([0.1, down], [HANG], [down])
    second = one_of(
        [0.2, "One moment. ", consult(), Finished(usage=usage, verbatim=thought)],
        ["He is dead.", Finished(usage=usage)],
    )
    links: list[LLM] = [first, second]
    chain = Chain(
        [ModelCandidate(x, link) for x, link in zip("ab", links, strict=True)]
    )
    cost = {"prices": {"b": {"input": 1e5, "output": 1e5, "cached": 0}}, "per_npc": 12}

    async def play(runtime: Runtime) -> None:
        await listen(runtime.npc("Bo"), "Hail")
        await listen(runtime.npc("Bo"), "And now?")  # turned away

    data = record(play, llm=chain, config=table(cost=cost))
    recording = read(data)
    kinds = [line["event"] for line in recording.of("event")]
    assert kinds.count("ModelSwitched") == kinds.count("UsageReported") == 2
    assert "Shed" in kinds
    assert second.requests[1].messages[-2].verbatim == thought
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    assert again.notes == ()


def test_who_waited_in_line_waits_again() -> None:
    # Longer than a model may be silent.
    in_line: Reply = [
        Waiting("all places are taken"),
        7.0,
        Waiting(),
        1.0,
        "He is dead.",
    ]
    whole: Reply = [Waiting(whole=True), 8.0, "He lives."]

    async def play(runtime: Runtime) -> None:
        await listen(runtime.npc("Bo"), "Hail")
        await listen(runtime.npc("Bo"), "And now?")

    recording = read(record(play, llm=one_of(in_line, whole)))
    texts = [x["text"] for x in recording.of("event") if x["event"] == "TurnDone"]
    assert texts == ["He is dead.", "He lives."]
    again = replay(recording)
    assert again.same, "\n".join(again.difference)


def test_what_was_told_of_scene_and_player_is_told_again() -> None:
    """And the DM's words, what was overheard, and what hooks knew, late or not."""
    named = attrs.evolve(
        table().npcs[0], greeting="Hail, {caller_name}!", personality="On {call_id}."
    )
    config = attrs.evolve(table(), npcs=(named, *table().npcs[1:]))

    async def hook(moment: Moment) -> str:
        await trio.sleep(0.06 if "late" in moment.text else 0.02)
        return f"It is {trio.current_time()}."

    async def play(runtime: Runtime) -> None:
        npc = runtime.npc("Bo")
        await npc.set_variables({"caller_name": "Aria", "caller_number": 555})
        await npc.set_scene("Night.", "Rain.")
        runtime.add_context(hook)
        async with npc.greet() as turn:
            await turn.finish()
        await npc.overhear("Cole", "Fire!", to="Ysolde")
        await listen(npc, "hello")
        async with npc.say("am I late", speaker="Cole") as turn:
            await turn.__anext__()
            assert not await npc.interrupt(speaker="Aria")
            async with npc.speak_as("Enough. Of this.") as words:
                await words.finish()
            await turn.finish()
        await listen(npc, "late")

    llm = ScriptedLLM(lambda request: [0.4, "Ask the seer. ", 0.1, "I will not."])
    data = record(play, llm=llm, config=config)
    again = replay(read(data))
    assert again.same, "\n".join(again.difference)
    assert again.notes == ()  # every model was asked the same
    events = [x["event"] for x in again.events]
    assert events.count("Scripted") == 2
    missed = [len(x["missed"]) for x in again.events if x["event"] == "ContextAdded"]
    assert missed == [0, 1]


def test_a_scene_is_replayed_without_one() -> None:
    """What a recording hears is what NPCs were told, in the order of the floor."""
    names = ("Bo", "Ysolde", "Cole")
    config = attrs.evolve(
        table(), npcs=tuple(attrs.evolve(table().npcs[0], name=x) for x in names)
    )

    async def play(runtime: Runtime) -> None:
        scene = runtime.scene()

        async def say(text: str, speaker: str, after: float) -> None:
            await trio.sleep(after)
            async with scene.say(text, speaker=speaker) as turn:
                await turn.finish()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, "Bo, hello", "a", 0.0)
            nursery.start_soon(say, "Ysolde, hello", "b", 0.1)
            nursery.start_soon(say, "Ysolde, who is it?", "c", 0.2)
            nursery.start_soon(say, "Cole, wait", "a", 0.3)  # instead of Bo
            await trio.sleep(1.0)
            await scene.tell("Night.")
            async with scene.speak_as("Bo", "Hush!") as turn:
                await turn.finish()
            await scene.mute("ysolde")
        async with scene.say("Bo?", speaker="a") as turn:
            await turn.finish()

    llm = ScriptedLLM(lambda request: [0.4, "Ask the seer. ", 0.1, "I will not."])
    recording = read(record(play, llm=llm, config=config))
    assert len(recording.of("overhear")) >= 10
    done = [x for x in recording.of("event") if x["event"] == "TurnDone"]
    ends = [(x["npc"], x["end"]) for x in done]
    assert ends[0] == ("Bo", "interrupted")  # its speaker went on to somebody else
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    assert again.notes == ()


def test_sessions_are_replayed_apart() -> None:
    npc = attrs.evolve(table().npcs[0], personality="You speak with {caller_name}.")
    config = attrs.evolve(table(), npcs=(npc,))

    async def play(runtime: Runtime) -> None:
        async def sit(number: int) -> None:
            await trio.sleep(number / 10)
            known = {"caller_name": f"player {number}"}
            session = runtime.session(f"t{number % 2}", tenant="x" * (number // 2))
            await session.set_variables(known)
            await listen(session.npc("Bo"), f"I am {number}")
            async with session.npc("Bo").say("And then?") as turn:
                await turn.__anext__()
                await session.end()
                await turn.finish()
            again = runtime.session(session.id, tenant=session.tenant, variables=known)
            await listen(again.npc("Bo"), f"{number} again")

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(sit, number)
            await listen(runtime.npc("Bo"), "hello")

    llm = ScriptedLLM(
        lambda r: [0.3, consult()] if r.messages[-1].role == "user" else [0.2, "So."]
    )
    recording = read(record(play, llm=llm, config=config))
    done = [x for x in recording.of("event") if x["event"] == "TurnDone"]
    found: Counter[tuple[Any, Any, int]] = Counter(
        (x.get("session"), x.get("tenant"), x["turn"]) for x in done
    )
    tables = [(f"t{n % 2}", "x" * (n // 2) or None) for n in range(4)]
    twice: dict[tuple[Any, Any, int], int] = {
        (*where, turn): 3 - turn for where in tables for turn in (1, 2)
    }
    assert found == {(None, None, 1): 1, **twice}
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    assert again.notes == ()


def test_a_reload_is_replayed() -> None:
    slower = attrs.evolve(table(), turn=attrs.evolve(table().turn, max_rounds=1))

    async def play(runtime: Runtime) -> None:
        await listen(runtime.npc("Bo"), "hello")
        await runtime.reload(slower)
        await listen(runtime.npc("Bo"), "hello")
        runtime.deregister("dice")
        await listen(runtime.npc("Bo"), "hello")

    llm = ScriptedLLM(lambda request: [0.1, consult()])
    recording = read(record(play, llm=llm))
    rounds = [x["rounds"] for x in recording.of("event") if x["event"] == "TurnDone"]
    assert rounds == [5, 2, 2]
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    shown = [x["shown"] for x in again.events if x["event"] == "ToolsShown"]
    assert "roll" in shown[0]
    assert "roll" not in shown[-1]


def test_a_reload_replaces_built_in_tools_that_are_listened_to() -> None:
    builtin = table().builtin
    dice = attrs.evolve(builtin.dice, tables={"omens": ("A crow.", "Two crows.")})
    other = attrs.evolve(table(), builtin=attrs.evolve(builtin, dice=dice))

    async def play(runtime: Runtime) -> None:
        before = runtime.host.snapshot.by_key["dice.roll_table"].definition
        done = await runtime.reload(other)
        assert done.groups == ("dice",)
        after = runtime.host.snapshot.by_key["dice.roll_table"].definition
        assert "omens" in json.dumps(dict(after.parameters))
        assert "omens" not in json.dumps(dict(before.parameters))
        await listen(runtime.npc("Bo"), "hello")

    omens = ToolCall("o", "roll_table", '{"table_name": "omens"}')
    quick = FakeWorld(taking(0.01), OFFERS)
    recording = read(record(play, llm=one_of([omens], ["So."]), scenery=quick))
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    outcome = next(x for x in again.events if x["event"] == "ToolFinished")["outcome"]
    assert outcome["status"] == "ok"


def test_an_image_in_an_answer_is_the_same_image_again() -> None:  # G13
    image = Media("image/png", bytes(range(256)) * 20)

    @tool(group="own", name="draw", read_only=True, estimated_duration_ms=10)
    async def draw() -> Any:
        """Draw it."""
        await trio.sleep(0.01)
        return ToolResult(structured={"path": "a.png"}, media=(image,))

    config = attrs.evolve(
        table(), npcs=(attrs.evolve(table().npcs[0], tools=("own.draw",)),)
    )
    config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, servers=()))
    file = io.BytesIO()

    async def main() -> None:
        lines = LineOutput(file)
        world = recorder_of(lines).environment(Environment())
        llm = one_of([ToolCall("d", "draw")], ["There."])
        async with open_runtime(
            config, tools=[draw], llm=llm, environment=world
        ) as runtime:
            await listen(runtime.npc("Bo"), "hello")
        lines.end(trio.current_time(), "closed")

    virtual.run(main, seed=0, clock=ExactClock())
    recording = read(file.getvalue())
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    ((seen,),) = (
        x["outcome"]["media"] for x in again.events if x["event"] == "ToolFinished"
    )
    assert seen["data"].startswith("5120 bytes, ")


async def _yes(request: object) -> bool:
    await trio.sleep(0.8)
    return True


def test_approvals_are_given_as_they_were() -> None:
    config = table(trust={"mode": "limited", "allow_tools": ["ledger.pay"]})
    config = attrs.evolve(
        config,
        npcs=tuple(attrs.evolve(x, tools=("seer.*", "ledger.*")) for x in config.npcs),
    )
    scenery = FakeWorld(taking(0.1), OFFERS)

    async def play(runtime: Runtime) -> None:
        bo = runtime.npc("Bo")
        await listen(bo, "hello", tier=Tier.DEEP)
        scenery.server("ledger").offer([{**LEDGER, "description": "Rob somebody."}])
        await trio.sleep(1)
        await listen(bo, "hello", tier=Tier.DEEP)
        runtime.host.approve("ledger.pay")
        await listen(bo, "hello", tier=Tier.DEEP)

    llm = ScriptedLLM(
        lambda request: (
            ["Done."]
            if request.messages[-1].role == "tool"
            else [0.2, consult(), pay(), "Wait. "]
        )
    )
    data = record(play, llm=llm, config=config, scenery=scenery, approver=_yes)
    recording = read(data)
    assert [x["yes"] for x in recording.of("approve")] == [True] * 3
    assert [x["tool"] for x in recording.of("approved")] == ["ledger.pay"]
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    # Held back in the second turn, and only there.
    ends = [
        (x["turn"], x["outcome"]["status"])
        for x in again.events
        if x["event"] == "ToolFinished" and x["outcome"]["tool"] == "ledger.pay"
    ]
    assert ends == [(1, "ok"), (2, "denied"), (3, "ok")]


def test_a_persons_word_for_a_tool_is_given_as_it_was() -> None:  # D13a
    config = table(trust={"mode": "limited"})
    config = attrs.evolve(
        config,
        npcs=tuple(attrs.evolve(x, tools=("ledger.*",)) for x in config.npcs),
    )
    scenery = FakeWorld(taking(0.1), OFFERS)

    async def play(runtime: Runtime) -> None:
        bo = runtime.npc("Bo")
        await listen(bo, "hello", tier=Tier.DEEP)
        runtime.host.approve("ledger.pay")  # it was not held back, only granted
        await listen(bo, "hello", tier=Tier.DEEP)

    llm = ScriptedLLM(
        lambda request: (
            ["Done."] if request.messages[-1].role == "tool" else [0.2, pay(), "Wait. "]
        )
    )
    recording = read(record(play, llm=llm, config=config, scenery=scenery))
    assert [x["tool"] for x in recording.of("approved")] == ["ledger.pay"]
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    ends = [
        (x["turn"], x["outcome"]["status"])
        for x in again.events
        if x["event"] == "ToolFinished" and x["outcome"]["tool"] == "ledger.pay"
    ]
    assert ends == [(1, "denied"), (2, "ok")]


@pytest.mark.alone
@pytest.mark.border
def test_threads_that_outlive_their_call_hold_neither_turn_nor_end() -> None:
    # On the real clock, so that there can be threads.
    release = threading.Event()

    @tool(group="bell", read_only=True, estimated_duration_ms=20, max_duration_ms=50)
    def ring() -> str:
        release.wait(LIMIT)
        return "dong"

    llm = ScriptedLLM(
        lambda request: (
            ["So."]
            if request.messages[-1].role == "tool"
            else [ToolCall("r", "ring", "{}")]
        )
    )
    config = parse(
        {
            "npcs": [{"name": "Bo", "tools": ["bell"]}],
            "mcp": {"remember": False},
            "calibration": {"at_start": False},
        },
        source=Path("bell.yaml"),
        env={},
    )
    file = io.BytesIO()

    async def main() -> None:
        lines = LineOutput(file)
        world = recorder_of(lines).environment()
        with trio.fail_after(LIMIT):
            async with open_runtime(
                config, llm=llm, tools=[ring], environment=world
            ) as runtime:
                for _ in range(3):
                    await listen(runtime.npc("Bo"), "hello")
                    await trio.sleep(0.15)  # then it counts as one that does not stop
        lines.end(trio.current_time(), "closed")

    try:
        trio.run(main, clock=SteppingClock())
    finally:
        release.set()
    recording = read(file.getvalue())
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    ends = [x["outcome"] for x in again.events if x["event"] == "ToolFinished"]
    # Two do not stop, so the third is refused: as without a recording.
    assert [x["status"] for x in ends] == ["timeout", "timeout", "unavailable"]
    assert "do not stop" in ends[-1]["message"]


# Another rule.


def _seer_session() -> bytes:
    llm = one_of([0.1, consult()], [0.2, "He is dead."])

    async def play(runtime: Runtime) -> None:
        await listen(runtime.npc("Bo"), "hello", tier=Tier.FAST)

    return record(play, llm=llm, scenery=FakeWorld(taking(0.4), OFFERS))


def changed(recording: Recorded, **tiers: float) -> Config:
    return attrs.evolve(
        recording.config, tiers=attrs.evolve(recording.config.tiers, **tiers)
    )


def test_a_changed_ceiling_shows_as_a_difference() -> None:
    recording = read(_seer_session())
    assert replay(recording, changed(recording)).same
    other = replay(recording, changed(recording, fast_ceiling=0.35))
    assert not other.same
    outcome = next(x for x in other.events if x["event"] == "ToolFinished")["outcome"]
    assert (outcome["status"], outcome["limit"]) == ("timeout", "turn")
    assert outcome["elapsed"] == 0.35 + 0.1 - 0.1
    text = "\n".join(other.difference)
    assert text.startswith("--- recorded\n+++ replayed\n")
    assert '"status": "ok"' in text
    assert '"status": "timeout"' in text
    # The model was told of another outcome, so what it says is what it would not.
    assert [x for x in other.notes if "what-if" in x] == list(other.notes)
    assert len(other.notes) == 1


def test_nobody_knows_how_long_a_call_takes_that_was_cut() -> None:
    llm = one_of([consult()], ["Nobody knows."])

    async def play(runtime: Runtime) -> None:
        await listen(runtime.npc("Bo"), "hello", tier=Tier.FAST)

    recording = read(record(play, llm=llm, scenery=FakeWorld(taking(3.0), OFFERS)))
    assert replay(recording).notes == ()
    longer = replay(recording, changed(recording, fast_ceiling=0.9))
    outcome = next(x for x in longer.events if x["event"] == "ToolFinished")["outcome"]
    assert outcome["elapsed"] == pytest.approx(0.9)
    assert any("cut after 500 ms in the recording" in x for x in longer.notes)
    shorter = replay(recording, changed(recording, fast_ceiling=0.4))
    assert not any("cut after" in x for x in shorter.notes)


def test_an_override_of_another_configuration_counts() -> None:
    recording = read(_seer_session())
    (seer, ledger) = recording.config.mcp.servers
    slow = attrs.evolve(seer, tools={"consult": ToolOverride(min_tier=Tier.DEEP)})
    mcp = attrs.evolve(recording.config.mcp, servers=(slow, ledger))
    other = replay(recording, attrs.evolve(recording.config, mcp=mcp))
    outcome = next(x for x in other.events if x["event"] == "ToolFinished")["outcome"]
    assert outcome["status"] == "skipped"
    assert "is too slow for a fast answer" in outcome["message"]


_CALLS = ("call", "sent", "answer")


def test_what_was_not_asked_in_the_recording_has_no_answer() -> None:
    lines = _seer_session().splitlines(keepends=True)
    without = [x for x in lines if json.loads(x)["kind"] not in _CALLS]
    other = replay(read(b"".join(without)))
    outcome = next(x for x in other.events if x["event"] == "ToolFinished")["outcome"]
    assert outcome["status"] == "unavailable"
    assert "the recording has no answer" in outcome["message"]
    assert "seer.consult is called as it was not" in other.notes[0]
    # Nor has a round that no model was asked in.
    silent = [x for x in lines if json.loads(x).get("request") != 2]
    other = replay(read(b"".join(silent)))
    assert [x["event"] for x in other.events][-1] == "TurnDone"
    assert other.events[-1]["error"].startswith("interrupted: the recording has no")


def test_order_matters_within_a_turn_and_not_between_two() -> None:
    def delta(text: str, npc: str = "Bo", at: float = 1.0) -> dict[str, Any]:
        event = {"event": "TextDelta", "npc": npc, "turn": 1, "text": text}
        return {"kind": "event", "at": at, **event}

    def started(name: str) -> dict[str, Any]:
        return {"kind": "event", "at": 1.0, "event": "ToolStarted", "npc": "Bo"} | {
            "turn": 1,
            "tool": name,
        }

    def same(one: list[Any], other: list[Any]) -> bool:
        return not list(difference(one, other))

    assert not same([delta("a"), delta("b")], [delta("b"), delta("a")])
    assert same([delta("a"), delta("b", "Ann")], [delta("b", "Ann"), delta("a")])
    assert same([started("x"), started("y")], [started("y"), started("x")])
    assert not same([started("x"), delta("a")], [delta("a"), started("x")])
    assert not same([delta("a")], [delta("a", at=1.0000001)])
    assert not list(difference([delta("a")], [delta("a", at=1.01)], tolerance=0.02))
    assert list(difference([delta("a")], [delta("a", at=1.03)], tolerance=0.02))
    late, soon = (delta(f"no answer after {x} ms") for x in (510, 500))
    assert not list(difference([late], [soon], tolerance=0.02))
    assert list(difference([late], [soon], tolerance=0.002))
    assert list(difference([delta("2 crows")], [delta("3 crows")], tolerance=9.0))


# Written by hand.

BY_HAND = """\
{"kind": "recording", "at": 0, "format": 1, "config": {"npcs": [{"name": "Bo", \
"tools": ["oracle.ask"]}], "mcp": {"servers": [{"name": "oracle", "command": "any"}]}, \
"trust": {"mode": "full"}}}
{"kind": "server", "at": 0, "server": "oracle", "state": "ready", "tools": [{"group": \
"oracle", "name": "ask", "external": true, "read_only": true, \
"estimated_duration": 0.3}]}
{"kind": "say", "at": 1, "say": 1, "npc": "Bo", "text": "hello"}
{"kind": "request", "at": 1, "request": 1, "npc": "Bo", "turn": 1, "round": 0}
{"kind": "model", "at": 1.25, "request": 1, "call": {"id": "a", "name": \
"mcp__oracle__ask"}}
{"kind": "model", "at": 1.25, "request": 1, "finished": {}}
{"kind": "call", "at": 1.25, "call": 1, "tool": "oracle.ask", "arguments": {}}
{"kind": "answer", "at": 9, "call": 1, "error": {"kind": "tool_error", "detail": "No."}}
{"kind": "end", "at": 12, "why": "closed"}
"""


def test_a_recording_can_be_written_by_hand() -> None:
    played = replay(read(BY_HAND.encode()))
    # No events were written down, so all of them are news.
    assert not played.same
    (outcome,) = (x["outcome"] for x in played.events if x["event"] == "ToolFinished")
    assert outcome["limit"] == "turn"  # the first turn is a fast one's: 500 ms
    assert outcome["elapsed"] == 0.5
    assert outcome["message"].startswith("no answer after 500 ms")


def test_the_page_has_that_recording_and_every_kind_of_line() -> None:
    page = (Path(__file__).parents[2] / "docs" / "recording.md").read_text()
    example = page.rsplit("```\n", 2)[1]
    assert example == BY_HAND
    for kind, keys in KINDS.items():
        assert f"`{kind}`" in page, kind
        for key in keys:
            assert f"`{key}`" in page, (kind, key)


# Real processes.


def show(folder: Path) -> Path:
    """A slow seer and a ledger of the examples, as the tavern has them."""
    servers = Path(__file__).parents[2] / "config" / "servers"
    return written(
        folder,
        npcs=[
            {
                "name": "Greymantle",
                "tools": ["oracle.consult", "oracle.vision"],
                "budget_tier": "standard",
            },
            {"name": "Bartok", "tools": ["dice", "ledger.open_tab"]},
        ],
        mcp={
            "servers": [
                {
                    "name": name,
                    "command": [sys.executable, str(servers / f"{name}.py")],
                    "env": env,
                }
                for name, env in (
                    ("oracle", {"ORACLE_DELAY": "0.7", "ORACLE_KEY": SECRET}),
                    ("ledger", {}),
                )
            ]
        },
        tiers={"fast": {"ceiling_ms": 400}, "standard": {"ceiling_ms": 1200}},
    )


SECRET = "hunter2-and-a-half"
LINES = f"""\
Consult the oracle: is the king dead?
@bartok open a tab for Anna
roll 1d20, and remember {SECRET}
/tier standard
@grey Consult the oracle: and the queen?
/tier fast
Consult the oracle: and the fool?
"""


@pytest.mark.long
def test_a_session_with_real_servers_is_replayed_ten_times_to_the_byte(
    tmp_path: Path,
) -> None:
    config = show(tmp_path)
    for number in (1, 2):  # the second knows what the first has measured
        # A machine that gives a process no time for a second makes no exact recording,
        # and says so: then it is recorded once more.
        for attempt in range(3):
            file = tmp_path / f"session{number}.{attempt}.jsonl"
            played = run("play", config, "--record", file, lines=LINES)
            assert (played.returncode, played.stderr) == (0, "")
            assert len(re.findall(r"oracle\.consult \d+ ms", played.stdout)) == 2
            assert file.stat().st_mode & 0o777 == 0o600
            assert SECRET.encode() not in file.read_bytes()
            recording = read_recording(file)
            if not recording.notes:
                break
        assert recording.notes == ()
        assert recording.tolerance == 0
        outputs = {replay(recording).as_bytes() for _ in range(10)}
        assert len(outputs) == 1
        again = replay(recording)
        assert again.same, "\n".join(again.difference)
        assert again.notes == ()
        assert len(again.events) > 40
    assert recording.of("measured")

    out = tmp_path / "events.jsonl"
    same = run("replay", file, "--events", out)
    assert same.returncode == 0, same.stdout + same.stderr
    assert f"same, {len(again.events)} events" in same.stdout
    assert same.stdout.count("oracle.consult ok ") == 2
    assert out.read_bytes() == again.as_bytes()
    other = run("replay", file, "--set", "tiers.standard.ceiling_ms=600")
    assert other.returncode == 1, other.stdout
    assert "\n+++ replayed\n" in other.stdout
    assert "not the same" in other.stdout
    # The same, written as a file.
    data = json.loads(config.read_text())
    data["tiers"]["standard"]["ceiling_ms"] = 600
    config.write_text(json.dumps(data))
    filed = run("replay", file, "--config", config)
    assert filed.returncode == 1
    assert [x for x in filed.stdout.splitlines() if x.startswith("+{")] == [
        x for x in other.stdout.splitlines() if x.startswith("+{")
    ]


PROMPT = "\nyou to Bo> "


@pytest.mark.border
def test_ctrl_c_at_a_terminal_is_replayed(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    with reports(tmp_path) as told:
        config = written(
            tmp_path,
            npcs=[{"name": "Bo", "tools": ["seer.whisper", "seer.ponder"]}],
            mcp={"servers": [seer(told.path)]},
            tiers=PATIENT,
            calibration={"at_start": False},
        )
        with terminal("play", config, "--record", file) as table:
            told.expect("started")
            table.expect(PROMPT)
            table.type("/servers\n")
            table.expect(PROMPT)
            while "seer [ready]" not in table.screen:
                table.type("/servers\n")
                table.expect(PROMPT)
            table.type("ponder, seer\n")
            told.expect("called ponder")
            table.press_ctrl_c()
            table.expect("(interrupted; Ctrl-C again to leave)\n")
            table.expect(PROMPT)
            table.type("whisper, seer\n")
            table.expect("A word about whisper.\n")
            table.expect(PROMPT)
            table.type("\x04")
            assert table.ends() == 0
    recording = read_recording(file)
    assert len([x for x in recording.of("left") if not x.get("over")]) == 1
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    ends = [x["end"] for x in again.events if x["event"] == "TurnDone"]
    assert ends == ["interrupted", "completed"]


def _wait_for(file: Path, text: bytes) -> None:
    """Until it is there: whoever writes it is another process."""
    deadline = time.monotonic() + LIMIT
    while text not in file.read_bytes():
        assert time.monotonic() < deadline, file.read_text()
        time.sleep(0.01)


@pytest.mark.border
def test_a_killed_process_leaves_a_recording_up_to_its_last_line(
    tmp_path: Path,
) -> None:
    file = tmp_path / "session.jsonl"
    with reports(tmp_path) as told:
        config = written(
            tmp_path,
            npcs=[{"name": "Bo", "tools": ["seer.whisper", "seer.ponder"]}],
            mcp={"servers": [seer(told.path)]},
            tiers=PATIENT,
            calibration={"at_start": False},
        )
        with terminal("play", config, "--record", file) as table:
            told.expect("started")
            table.expect(PROMPT)
            table.type("/servers\n")
            table.expect(PROMPT)
            while "seer [ready]" not in table.screen:
                table.type("/servers\n")
                table.expect(PROMPT)
            table.type("whisper, seer\n")
            table.expect("A word about whisper.\n")
            table.expect(PROMPT)
            table.type("ponder, seer\n")
            told.expect("called ponder")
            _wait_for(file.with_name("session.jsonl.part"), b'"seer.ponder", "arg')
            table.process.kill()
            table.process.wait(LIMIT)
    assert not file.exists()
    with pytest.raises(BadRecording, match=r"session\.jsonl\.part is of a run"):
        read_recording(file)
    recording = read_recording(tmp_path / "session.jsonl.part")
    assert any("killed" in note for note in recording.notes)
    again = replay(recording)
    assert again.same, "\n".join(again.difference)
    assert "TurnDone" in [x["event"] for x in recording.of("event")]


@pytest.mark.border
def test_replay_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text(BY_HAND.replace('"format": 1', '"format": 4'))
    refused = run("replay", file)
    assert refused.returncode == 2
    assert "line 1: format 4 is of a newer version" in refused.stderr
    file.write_text(BY_HAND)
    for wrong, why in (
        ("tiers.fast.ceiling_ms", "write it as KEY.KEY=VALUE"),
        ("tiers.fast.ceiling_ms=soon", "expected a number"),
        ("npcs.Zed.budget_tier=deep", "there is no 'Zed'"),
        ("npcs.0.name.first=x", "'name' has no 'first'"),
    ):
        refused = run("replay", file, "--set", wrong)
        assert refused.returncode == 2
        assert why in refused.stderr
    assert run("replay", file, "--set", "npcs.bo.budget_tier=deep").returncode == 1
