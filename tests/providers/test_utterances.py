"""What a microphone hears, waiting to be understood: in order, and bounded.

A frame of ones is speech, any other is none. Times are virtual.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.providers.audio import bytes_of, seconds_of
from glyphoxa_trio.providers.endpointing import (
    FRAME,
    LONGEST,
    RATE,
    SILENCE,
    Endpointing,
)
from glyphoxa_trio.providers.speech import Began, Final, Sounding, SpeechError
from glyphoxa_trio.providers.utterances import (
    CAPACITY,
    MicrophoneUtterances,
    RecognitionRun,
    open_listening,
)

SIZE = bytes_of(FRAME, RATE)
SPEECH, SILENT = b"\1" * SIZE, bytes(SIZE)


def is_speech(frame: bytes) -> bool:
    return frame[:1] == b"\1"


def said(seconds: float) -> bytes:
    """Somebody speaks so long, and then is silent."""
    return SPEECH * round(seconds / FRAME) + SILENT * 25


async def read(utterances: MicrophoneUtterances) -> bytes:
    with trio.fail_after(60):
        await utterances.begin()
        return await utterances.whole()


async def test_utterances_are_read_one_after_the_other(
    autojump_clock: MockClock,
) -> None:
    utterances = MicrophoneUtterances(is_speech)
    for seconds in (0.6, 1.2):
        utterances.hear(said(seconds))
    for seconds in (0.6, 1.2):
        pcm = await read(utterances)
        assert pcm.count(SPEECH) == round(seconds / FRAME)
    assert utterances.dropped == 0


async def test_one_is_read_while_it_is_said(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    utterances = MicrophoneUtterances(is_speech)
    pieces: list[tuple[float, int]] = []

    @nursery.start_soon
    async def reader() -> None:
        await utterances.begin()
        while piece := await utterances.piece():
            pieces.append((trio.current_time(), len(piece) // SIZE))

    for _ in range(10):
        utterances.hear(SPEECH)
        await trio.sleep(FRAME)
    assert pieces[0] == (4 * FRAME, 5)
    assert sum(frames for _, frames in pieces) == 10


async def test_a_microphone_that_gives_nothing_ends_an_utterance(
    autojump_clock: MockClock,
) -> None:
    # As voice chats do: no packets while nobody speaks.
    utterances = MicrophoneUtterances(is_speech)
    utterances.hear(SPEECH * 20)
    assert await read(utterances) == SPEECH * 20
    assert trio.current_time() == SILENCE
    # What comes later is another one, also if nobody was there to read in between.
    utterances.hear(SPEECH * 10 + b"\2" * 7)
    await trio.sleep(SILENCE)
    utterances.hear(SPEECH * 9)
    assert await read(utterances) == SPEECH * 10
    assert await read(utterances) == SPEECH * 9


async def test_how_long_a_silence_ends_one_is_settable(
    autojump_clock: MockClock,
) -> None:
    utterances = MicrophoneUtterances(is_speech, Endpointing(begin=0.3, end=1.5))
    utterances.hear(SPEECH * 9)  # 0.27 s
    await trio.sleep(2)
    utterances.hear(SPEECH * 10)
    assert await read(utterances) == SPEECH * 10
    assert trio.current_time() == 2 + 1.5
    utterances.hear(SPEECH * 10 + SILENT * 40 + SPEECH * 10 + SILENT * 60)
    assert (await read(utterances)).count(SPEECH) == 20


async def test_one_that_goes_on_is_waited_for(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    utterances = MicrophoneUtterances(is_speech)

    @nursery.start_soon
    async def speak() -> None:
        for _ in range(20):  # in coarse pieces, as some programs do
            utterances.hear(SPEECH * 10)
            await trio.sleep(0.5)

    assert await read(utterances) == SPEECH * 200


async def test_nobody_waits_for_who_understands_and_the_oldest_goes_first(
    autojump_clock: MockClock,
) -> None:
    utterances = MicrophoneUtterances(is_speech)
    for _ in range(12):
        utterances.hear(said(9.0))
    assert trio.current_time() == 0
    kept = sum(len(x.pcm) for x in utterances._waiting)
    assert CAPACITY - 20 < seconds_of(bytes(kept), RATE) <= CAPACITY
    lost = utterances.dropped
    assert lost == pytest.approx(9.6 * (12 - len(utterances._waiting)), abs=2)


async def test_the_one_that_is_read_is_never_dropped(
    autojump_clock: MockClock,
) -> None:
    utterances = MicrophoneUtterances(is_speech)
    utterances.hear(said(10.2))
    await utterances.begin()
    for _ in range(9):
        utterances.hear(said(20.0))
    with trio.fail_after(60):
        first = await utterances.whole()
    assert first.count(SPEECH) == round(10.2 / FRAME)
    assert utterances.dropped > 60


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.booleans()), max_size=20)
)
def test_what_is_heard_is_read_or_counted(
    steps: list[tuple[bool, int, bool]],
) -> None:
    async def play() -> None:
        utterances = MicrophoneUtterances(is_speech)
        heard = 0
        found: list[bytes] = []
        for speech, frames, reads in steps:
            utterances.hear((SPEECH if speech else SILENT) * frames)
            heard += frames if speech else 0
            if reads and utterances._waiting:
                with trio.move_on_after(2 * SILENCE):
                    found.append(await read(utterances))
        left = [x for x in utterances._waiting if x.pcm]
        total = sum(x.count(SPEECH) for x in found)
        total += sum(bytes(x.pcm).count(SPEECH) for x in left)
        assert total <= heard
        assert all(x.over for x in list(utterances._waiting)[:-1])

    trio.run(play, clock=MockClock(autojump_threshold=0))


# A `Recognition` of them.


@asynccontextmanager
async def listening(
    fails_at: int = 99, work: float = 0.0
) -> AsyncIterator[RecognitionRun]:
    async def understand(one: RecognitionRun) -> None:
        for number in range(fails_at):
            await one.begin()
            pcm = await one.utterances.whole()
            await trio.sleep(work)
            await one.tell(Final(f"{number}: {pcm.count(SPEECH)}"))
        raise SpeechError("no more")

    with trio.fail_after(600):
        async with open_listening(is_speech, understand) as opened:
            yield opened


async def test_events_come_one_utterance_after_the_other(
    autojump_clock: MockClock,
) -> None:
    async with listening(work=5.0) as one:
        one.hear(said(0.6) + said(0.9))
        events = [await anext(one) for _ in range(4)]
    assert events == [Began(1), Final("0: 20"), Began(2), Final("1: 30")]


async def test_sound_is_told_of_in_the_moment_in_which_it_is_heard(
    autojump_clock: MockClock,
) -> None:
    # Whoever understands the first one is busy with it for five seconds.
    async with listening(work=5.0) as one:
        told: list[Sounding] = []
        one.tell_speech(told.append)
        one.hear(SPEECH * 4)
        assert told == []
        one.hear(SPEECH)
        assert told == [Sounding(1, 5 * FRAME)]
        one.hear(SPEECH * 15 + SILENT * 25)
        assert told[-1] == Sounding(1, 20 * FRAME, over=True)
        assert [x.over for x in told].count(True) == 1
        one.hear(SPEECH * 10)
        assert told[-1] == Sounding(2, 10 * FRAME)
        assert trio.current_time() == 0
        # A microphone that is left off is heard out by whoever comes to it.
        assert [await anext(one) for _ in range(4)] == [
            Began(1),
            Final("0: 20"),
            Began(2),
            Final("1: 10"),
        ]
        assert told[-1] == Sounding(2, 10 * FRAME, over=True)
        seconds = [x.seconds for x in told if x.utterance == 1]
        assert seconds == sorted(seconds)


async def test_its_end_is_told_after_what_was_understood(
    autojump_clock: MockClock,
) -> None:
    async with listening(fails_at=1) as one:
        one.hear(said(0.6) * 3)
        await wait_all_tasks_blocked()
        one.hear(said(0.6))  # nobody hears it any more
        assert [await anext(one) for _ in range(2)] == [Began(1), Final("0: 20")]
        for _ in range(2):
            with pytest.raises(SpeechError, match="no more"):
                await anext(one)


async def test_a_listener_who_is_behind_holds_up_the_reader_and_nobody_else(
    autojump_clock: MockClock,
) -> None:
    async with listening() as one:
        for _ in range(200):
            one.hear(said(0.6))
            await wait_all_tasks_blocked()
        assert one.dropped > 0
        waiting = sum(len(x.pcm) for x in one.utterances._waiting)
        assert seconds_of(bytes(waiting), RATE) <= CAPACITY + LONGEST
        assert (await anext(one), await anext(one)) == (Began(1), Final("0: 20"))


async def test_an_error_of_the_block_leaves_it_as_it_is(
    autojump_clock: MockClock,
) -> None:
    with pytest.raises(KeyError):
        async with listening():
            raise KeyError("mine")


async def test_a_bug_of_the_reader_is_not_hidden(autojump_clock: MockClock) -> None:
    async def understand(_: RecognitionRun) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with open_listening(is_speech, understand):
            await trio.sleep(1)
