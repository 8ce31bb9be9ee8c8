"""Random scenarios of a scene, against its invariants.

A scenario is a list of actions and a seed: of the order of tasks, and of the models.
It is played on virtual time with the production code, and looked through afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final

import attrs
from hypothesis import example, given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import (
    Queued,
    Scripted,
    Sentence,
    TierSelected,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.events import TurnEvent
from glyphoxa_trio.providers.llm import ErrorKind, LLMError, LLMRequest
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.simulation import virtual
from tests.npc.support import HANG, Heard, Reply

from .support import NAMES, OVERHEARD, Stage, config, listen, open_stage, who

PLAYERS: Final = 2
BOUND: Final = 4
LISTENER: Final = 5.0
LONGEST: Final = 400.0  # virtual seconds, by when the last turn must have ended
SPEAKERS: Final = ("a", "b", "c", "d")

Deed = tuple[Any, ...]

DEEDS = st.one_of(
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.1, 0.7, 1.0, 3.0])),
    st.tuples(
        st.just("say"),
        st.sampled_from(SPEAKERS),
        st.sampled_from(["", "Bartok, ", "Ysolde, ", "sage! "]),
        st.sampled_from([None, None, None, *NAMES]),
        st.booleans(),  # as the DM
        st.sampled_from([0.0, 0.2, 0.2, 2.0]),  # how slowly it is listened to
        st.sampled_from([inf, inf, inf, 0.0, 0.5, 1.2]),  # and how long
    ),
    st.tuples(st.just("whisper"), st.sampled_from(SPEAKERS), st.sampled_from(NAMES)),
    st.tuples(st.just("as"), st.sampled_from(NAMES), st.integers(1, 40)),
    st.tuples(st.just("mute"), st.sampled_from(NAMES)),
    st.tuples(st.just("unmute"), st.sampled_from(NAMES)),
    st.tuples(st.just("puppet"), st.sampled_from([None, *NAMES])),
    st.tuples(st.just("tell"), st.sampled_from(["It rains.", "It snows."])),
    st.tuples(st.just("overhear"), st.sampled_from(SPEAKERS)),
    st.tuples(st.just("deaf"), st.sampled_from(SPEAKERS)),  # says, and never listens
    st.tuples(st.just("reload"), st.sets(st.sampled_from(NAMES), max_size=2)),
)


@attrs.define(eq=False)
class Evening:
    """What happened: everything in one list, in its order."""

    log: list[tuple[float, str, Any]] = attrs.field(factory=list)
    heard: list[Heard] = attrs.field(factory=list)
    slow: list[Heard] = attrs.field(factory=list)
    waiting: list[int] = attrs.field(factory=list)
    muted: set[str] = attrs.field(factory=set)
    requests: Sequence[LLMRequest] = ()
    texts: dict[str, str] = attrs.field(factory=dict)  # who said it, by its number
    ended: float = inf

    def note(self, kind: str, of: Any) -> None:
        self.log.append((trio.current_time(), kind, of))


def played(deeds: Sequence[Deed], seed: int) -> Evening:
    evening, chance = Evening(), random.Random(seed)

    def script(request: LLMRequest) -> Reply:
        match chance.randrange(8):
            case 0:
                return [HANG]
            case 1:
                return [0.3, LLMError(ErrorKind.OVERLOADED, "busy")]
            case 2:
                return []
            case _:
                pause = chance.choice([0.0, 0.5, 1.0])
                many = chance.randrange(1, 4)
                return [pause, *(f"Line {n} of mine. " for n in range(many))]

    async def main() -> None:
        how: dict[str, Any] = {
            "scene": {"players": PLAYERS, "overheard": BOUND},
            "listener": LISTENER,
            "first_token": 2.0,
        }
        async with open_stage(script, **how) as stage:
            evening.requests = stage.llm.requests
            with stage.runtime.events.tap(lambda x: evening.note("event", x)):
                async with trio.open_nursery() as nursery:
                    for number, deed in enumerate(deeds):
                        await _do(evening, stage, nursery, number, deed, how)
                        look = await stage.scene.look()
                        evening.waiting.append(len(look.waiting))
            await trio.sleep(1.0)  # the last of it is shared
            look = await stage.scene.look()
            assert (look.speaking, look.waiting) == (None, ())
            evening.ended = trio.current_time()

    virtual.run(main, seed=seed)
    return evening


async def _do(
    evening: Evening,
    stage: Stage,
    nursery: trio.Nursery,
    number: int,
    deed: Deed,
    how: dict[str, Any],
) -> None:
    scene = stage.scene
    match deed:
        case ("sleep", seconds):
            await trio.sleep(seconds)
        case ("say", speaker, called, to, dm, pace, leave):
            text = f"{called}number {number}."
            evening.texts[text] = speaker
            turn = scene.say(text, speaker=speaker, to=to, dm=dm)
            heard = Heard()
            evening.heard.append(heard)
            if pace > 1:
                evening.slow.append(heard)
            leave_at = trio.current_time() + leave

            async def hear() -> None:
                await listen(turn, pace=pace, leave_at=leave_at, heard=heard)
                evening.note("left", turn)

            nursery.start_soon(hear)
        case ("whisper", speaker, npc):
            heard = Heard()
            evening.heard.append(heard)
            turn = scene.say(
                f"Whispered, number {number}.", speaker=speaker, to=npc, whisper=True
            )
            nursery.start_soon(partial(listen, turn, heard=heard))
        case ("as", npc, many):
            words = " ".join(f"Word {number} {at}." for at in range(many))
            heard = Heard()
            evening.heard.append(heard)

            async def hear_it() -> None:
                await listen(scene.speak_as(npc, words), heard=heard)

            nursery.start_soon(hear_it)
        case ("deaf", speaker):
            text = f"Hello, number {number}."
            evening.texts[text] = speaker

            async def enter() -> None:
                with suppress(GlyphoxaError):
                    async with scene.say(text, speaker=speaker):
                        await trio.sleep(20)

            nursery.start_soon(enter)
        case ("mute", npc):
            with suppress(GlyphoxaError):  # gone by a reload
                await scene.mute(npc)
                evening.muted.add(npc)
                evening.note("muted", npc)
        case ("unmute", npc):
            with suppress(GlyphoxaError):
                evening.note("unmuted", npc)
                await scene.unmute(npc)
                evening.muted.discard(npc)
        case ("puppet", npc):
            with suppress(GlyphoxaError):
                await scene.puppet(npc)
        case ("tell", line):
            await scene.tell(line)
            evening.note("told", line)
        case ("overhear", speaker):
            text = f"Aside, number {number}."
            evening.texts[text] = speaker
            await scene.overhear(speaker, text)
        case ("reload", gone):
            here = [name for name in NAMES if name not in gone]
            nursery.start_soon(_reload, stage.runtime, config(*here, **how))


async def _reload(runtime: Runtime, of: Any) -> None:
    await runtime.reload(of)


def overheard_in(request: LLMRequest) -> list[str]:
    return [
        line.removeprefix("- ").removesuffix(")")
        for message in request.messages
        if message.content.startswith(OVERHEARD)
        for line in message.content.splitlines()[1:]
    ]


def begins(event: TurnEvent) -> bool:
    return isinstance(event, TierSelected | Scripted)


def one_at_a_time(evening: Evening) -> None:
    speaking: set[tuple[str, int]] = set()
    for _, kind, event in evening.log:
        if kind != "event":
            continue
        turn = event.npc, event.turn
        if begins(event):
            assert not speaking, f"{turn} speaks beside {speaking}"
            speaking.add(turn)
        elif isinstance(event, TurnDone):
            speaking.discard(turn)


def nobody_speaks_while_somebody_listens(evening: Evening) -> None:
    """But to whoever listens so slowly that they are not waited for."""
    begun = [
        (at, (of.npc, of.turn))
        for at, kind, of in evening.log
        if kind == "event" and begins(of)
    ]
    for heard in evening.heard:
        of_turn = [(at, event) for at, event in heard.events if event.turn]
        if not of_turn or heard in evening.slow:
            continue
        (first, event), (last, _) = of_turn[0], of_turn[-1]
        for at, other in begun:
            assert not first < at < last or other == (event.npc, event.turn)


def muted_npcs_are_silent(evening: Evening) -> None:
    muted: dict[str, float] = {}
    scripted: set[tuple[str, int]] = set()
    for at, kind, of in evening.log:
        if kind == "muted":
            muted.setdefault(of, at)
        elif kind == "unmuted":
            muted.pop(of, None)
        elif kind == "event":
            if isinstance(of, Scripted):
                scripted.add((of.npc, of.turn))
            own = (of.npc, of.turn) not in scripted
            if own and isinstance(of, TierSelected | Sentence):
                assert at <= muted.get(of.npc, inf), "it speaks"


def every_say_ends(evening: Evening) -> None:
    assert evening.ended < LONGEST
    for heard in evening.heard:
        last = heard.events[-1][1] if heard.events else None
        if heard.error is not None:
            assert isinstance(heard.error, GlyphoxaError)
            assert heard.events == []
        elif heard.turn is not None and heard.turn.done is not None:
            assert isinstance(last, TurnDone)
            assert [type(x) for _, x in heard.events].count(TurnDone) == 1
            if last.turn == 0:  # it was never begun
                assert last.end in (TurnEnd.INTERRUPTED, TurnEnd.FAILED)
                assert set(heard.kinds()) <= {"Queued", "TurnDone"}
        assert all(type(x) is Queued for _, x in heard.events[:1] if x.turn == 0) or (
            heard.kinds() == ["TurnDone"]
        )


def only_what_was_said_is_heard(evening: Evening) -> None:
    delivered = {h.turn.delivered for h in evening.heard if h.turn is not None}
    for request in evening.requests:
        lines = overheard_in(request)
        assert len(lines) <= BOUND
        for line in lines:
            said_by, _, text = line.partition(": ")
            speaker, _, to = said_by.partition(" to ")
            assert speaker != who(request)  # nobody overhears themselves
            if speaker in NAMES:
                assert any(text == x[: len(text)] for x in delivered), line
            else:
                assert evening.texts[text] == speaker
                assert not to or to in NAMES


@given(st.lists(DEEDS, max_size=25), st.integers(0, 1000))
@example([("say", "a", "Bartok, ", None, False, 2.0, inf), ("mute", NAMES[0])], 3)
@example(
    [
        ("say", "a", "", NAMES[1], False, 0.0, inf),
        ("reload", set()),
        ("reload", {NAMES[1]}),
        ("sleep", 0.0),
        ("mute", NAMES[1]),
    ],
    256,
)
@example(
    [
        ("sleep", 0.0),
        ("say", "a", "Ysolde, ", None, False, 0.0, inf),
        ("reload", set()),
        ("mute", NAMES[0]),
        ("reload", set()),
        ("mute", NAMES[2]),
    ],
    0,
)
@example(
    [
        ("say", "a", "", NAMES[0], False, 0.2, inf),
        ("say", "b", "", NAMES[1], False, 0.2, inf),
    ],
    1,
)
@example([("as", NAMES[0], 40), ("say", "a", "", NAMES[0], False, 0.0, inf)], 0)
def test_whatever_happens_in_a_scene(deeds: list[Deed], seed: int) -> None:
    evening = played(deeds, seed)
    one_at_a_time(evening)
    nobody_speaks_while_somebody_listens(evening)
    muted_npcs_are_silent(evening)
    every_say_ends(evening)
    only_what_was_said_is_heard(evening)
    assert max(evening.waiting, default=0) <= 2 * PLAYERS
