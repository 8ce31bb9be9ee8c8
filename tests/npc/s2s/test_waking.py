"""What of an open microphone goes to the model at once, and what in larger pieces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.npc.s2s.waking import PIECE, Waking
from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.providers.endpointing import FRAME

RATE = 24_000
PIECE_20_MS = bytes_of(0.02, RATE)
LOUD = b"\x00\x40"


@attrs.define
class Heard:
    """A conversation that takes down what it hears."""

    pieces: list[tuple[bytes, bool]] = attrs.field(factory=list)
    capabilities: Any = attrs.field(factory=lambda: SimpleNamespace(input_rate=RATE))

    def hear(self, pcm: bytes, *, speech: bool) -> None:
        self.pieces.append((pcm, speech))


def microphone() -> tuple[Waking, Heard]:
    heard = Heard()
    return Waking(heard, is_speech=any), heard  # type: ignore[arg-type]


def test_silence_goes_a_tenth_of_a_second_at_a_time() -> None:
    waking, heard = microphone()
    for _ in range(12):
        waking.hear(bytes(PIECE_20_MS))
    assert [(len(pcm), speech) for pcm, speech in heard.pieces] == [
        (PIECE_20_MS, False),  # of which nothing was known yet
        (bytes_of(PIECE, RATE), False),
        (bytes_of(PIECE, RATE), False),
    ]


def test_the_first_sound_goes_with_what_was_just_before_it() -> None:
    waking, heard = microphone()
    for _ in range(3):
        waking.hear(bytes(PIECE_20_MS))
    loud = LOUD * (PIECE_20_MS // 2)
    waking.hear(loud)
    waking.hear(loud)  # with this one the frame of 30 ms is whole
    assert b"".join(pcm for pcm, _ in heard.pieces) == bytes(3 * PIECE_20_MS) + loud * 2
    waking.hear(loud)
    assert heard.pieces[-1][0] == loud  # while somebody speaks, each as it comes


@given(
    sounds=st.lists(st.booleans(), max_size=60),
    cuts=st.lists(st.integers(1, 4000), min_size=1, max_size=40),
)
def test_nothing_is_lost_and_no_sound_waits(
    sounds: list[bool], cuts: list[int]
) -> None:
    waking, heard = microphone()
    frame = bytes_of(FRAME, RATE)
    audio = b"".join(LOUD * (frame // 2) if loud else bytes(frame) for loud in sounds)
    at, given_ = 0, 0
    while at < len(audio):
        size = 2 * cuts[given_ % len(cuts)]
        waking.hear(audio[at : at + size])
        at, given_ = at + size, given_ + 1
        sent = b"".join(pcm for pcm, _ in heard.pieces)
        assert audio.startswith(sent)
        whole = min(at, len(audio)) // frame * frame  # what frames say something of
        assert not any(audio[len(sent) : whole])
        assert min(at, len(audio)) - len(sent) < bytes_of(PIECE, RATE) + size
