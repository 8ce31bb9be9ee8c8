"""A chain of synthesizers: who says a sentence, and who is left alone. Virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.chain import ModelCandidate
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError, Synthesizer, VoiceStyle
from glyphoxa_trio.providers.speech_chain import NamedVoice, SynthesizerChain
from glyphoxa_trio.tools.breaker import BreakerState

STYLE = VoiceStyle(name="marin")


@attrs.define(eq=False)
class Mouth:
    """Says what it is told to: bytes are audio, numbers seconds, an error the end."""

    label: str
    plan: Sequence[Any]
    rate: int = 24_000
    asked: list[VoiceStyle] = attrs.field(factory=list)
    open: int = 0

    @asynccontextmanager
    async def speak(
        self, text: str, voice: VoiceStyle
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(voice)
        self.open += 1
        pieces = self._pieces()
        try:
            yield pieces
        finally:
            self.open -= 1
            await pieces.aclose()  # type: ignore[attr-defined]

    async def _pieces(self) -> AsyncIterator[bytes]:
        for step in self.plan:
            await trio.lowlevel.checkpoint()
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            else:
                await trio.sleep(step)


def chained(*mouths: Mouth, warned: list[str] | None = None) -> SynthesizerChain:
    told: list[str] = [] if warned is None else warned
    return SynthesizerChain(
        [ModelCandidate[Synthesizer](x.label, x, told.append) for x in mouths]
    )


async def heard(chain: SynthesizerChain, text: str = "Mind the books.") -> bytes:
    async with chain.speak(text, STYLE) as pieces:
        return b"".join([x async for x in pieces])


def broken(kind: ErrorKind = ErrorKind.UNREACHABLE) -> SpeechError:
    return SpeechError("it is away", kind)


async def test_the_first_speaks_while_it_can(autojump_clock: MockClock) -> None:
    first, second = Mouth("one", [b"aa", 1, b"bb"]), Mouth("two", [b"cc"])
    chain = chained(first, second)
    assert (chain.label, chain.rate) == ("one, else two", 24_000)
    assert await heard(chain) == b"aabb"
    assert (len(first.asked), second.asked, first.open) == (1, [], 0)


async def test_who_fails_before_the_first_audio_is_followed_by_the_next(
    autojump_clock: MockClock,
) -> None:
    warned: list[str] = []
    first, second = Mouth("one", [0.5, broken()]), Mouth("two", [b"cc"])
    chain = chained(first, second, warned=warned)
    for _ in range(5):
        assert await heard(chain) == b"cc"
    assert warned == [
        "one: it is away",
        "one: it keeps failing, and is not asked for 10 s",
    ]
    # After five in a row it is left alone for ten seconds, and then tried once.
    assert (len(first.asked), len(second.asked), first.open) == (5, 5, 0)
    assert await heard(chain) == b"cc"
    assert len(first.asked) == 5
    await trio.sleep(10)
    first.plan = [b"aa"]
    assert await heard(chain) == b"aa"
    assert await heard(chain) == b"aa"


async def test_who_breaks_off_in_a_word_ends_the_sentence_and_the_next_has_the_next(
    autojump_clock: MockClock,
) -> None:
    first = Mouth("one", [b"aa", broken(ErrorKind.INTERRUPTED), b"bb"])
    chain = chained(first, Mouth("two", [b"cc"]))
    got = b""
    with pytest.raises(SpeechError, match="it is away"):
        async with chain.speak("Mind the books.", STYLE) as pieces:
            async for piece in pieces:
                got += piece
    assert got == b"aa"
    assert await heard(chain) == b"cc"
    assert len(first.asked) == 1


async def test_who_is_slow_has_half_of_the_time_and_then_none_for_a_while(
    autojump_clock: MockClock,
) -> None:
    first = Mouth("one", [60.0, b"aa"])
    chain = chained(first, Mouth("two", [b"cc"]))
    begun = trio.current_time()
    with trio.fail_after(8):
        assert await heard(chain) == b"cc"
    assert trio.current_time() - begun == pytest.approx(4)
    assert await heard(chain) == b"cc"
    assert trio.current_time() - begun == pytest.approx(4)
    assert (len(first.asked), first.open) == (1, 0)


async def test_a_slow_listener_is_no_fault_of_a_voice(
    autojump_clock: MockClock,
) -> None:
    first = Mouth("one", [b"aa", b"bb"])
    chain = chained(first, Mouth("two", [b"cc"]))
    async with chain.speak("Mind the books.", STYLE) as pieces:
        async for _ in pieces:
            await trio.sleep(100)
    assert await heard(chain) == b"aabb"


async def test_leaving_says_nothing_of_a_voice(autojump_clock: MockClock) -> None:
    first = Mouth("one", [b"aa", 60.0])
    candidate = ModelCandidate[Synthesizer]("one", first)
    chain = SynthesizerChain([candidate])
    for _ in range(10):
        with trio.move_on_after(1):
            await heard(chain)
        async with chain.speak("Mind the books.", STYLE) as pieces:
            assert await anext(pieces) == b"aa"
    assert candidate.breaker.state is BreakerState.CLOSED
    assert first.open == 0


async def test_if_nobody_can_all_reasons_are_said(autojump_clock: MockClock) -> None:
    chain = chained(
        Mouth("one", [SpeechError("one is away")]),
        Mouth("two", [SpeechError("a wrong key", ErrorKind.AUTHENTICATION)]),
    )
    with pytest.raises(SpeechError, match="one is away; two: a wrong key") as caught:
        await heard(chain)
    assert caught.value.lasting
    for _ in range(4):
        with pytest.raises(SpeechError, match="one is away"):
            await heard(chain)
    with pytest.raises(SpeechError, match=r"two: unavailable: .*attempt in 10"):
        await heard(chain)


async def test_the_next_voice_has_the_rate_of_the_first(
    autojump_clock: MockClock,
) -> None:
    pytest.importorskip("soxr")
    second = Mouth("two", [bytes(16_000), bytes(16_000)], rate=8_000)
    chain = chained(Mouth("one", [broken()], rate=16_000), second)
    assert len(await heard(chain)) == pytest.approx(64_000, abs=4)


async def test_a_sentence_without_a_word_may_be_silent(
    autojump_clock: MockClock,
) -> None:
    assert await heard(chained(Mouth("one", [])), "…") == b""


async def test_a_voice_of_another_synthesizer_speaks_with_its_own_name() -> None:
    mouth = Mouth("one", [b"aa"])
    for voice, name in [
        (NamedVoice(mouth, "alloy"), "marin"),
        (NamedVoice(mouth, "alloy", knows=False), "alloy"),
        (NamedVoice(mouth, knows=False), None),
    ]:
        assert (voice.label, voice.rate) == ("one", 24_000)
        async with voice.speak("Hi.", STYLE):
            assert mouth.asked[-1].name == name
    async with NamedVoice(mouth, "alloy").speak("Hi.", VoiceStyle(speed=2)):
        assert mouth.asked[-1] == VoiceStyle(name="alloy", speed=2)


@settings(max_examples=40)
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=25))
def test_the_first_voice_that_works_and_is_asked_says_it(
    works: list[list[bool]],
) -> None:
    """Three voices; in each sentence some of them are away. No one is asked that
    could not know better, and whoever can speak does."""

    async def run() -> None:
        mouths = [Mouth(str(at), []) for at in range(3)]
        candidates = [ModelCandidate[Synthesizer](x.label, x) for x in mouths]
        chain = SynthesizerChain(candidates)
        for here in works:
            for mouth, can in zip(mouths, here, strict=True):
                mouth.plan = [mouth.label.encode()] if can else [broken()]
                mouth.asked.clear()
            admitted = [x.breaker.admits(trio.current_time()) for x in candidates]
            able = [a and w for a, w in zip(admitted, here, strict=True)]
            if True in able:
                assert await heard(chain) == str(able.index(True)).encode()
            else:
                with pytest.raises(SpeechError):
                    await heard(chain)
            asked = [bool(mouth.asked) for mouth in mouths]
            last = able.index(True) if True in able else 2
            assert asked == [a and at <= last for at, a in enumerate(admitted)]
            assert [mouth.open for mouth in mouths] == [0, 0, 0]
            await trio.sleep(1)

    trio.run(run, clock=MockClock(autojump_threshold=0))
