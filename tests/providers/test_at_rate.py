"""A model that is given audio at another rate than its own."""

from __future__ import annotations

from typing import Any

import attrs

from trio.testing import MockClock

from glyphoxa_trio.providers.at_rate import AtRate
from glyphoxa_trio.providers.s2s import (
    Ready,
    SendAudio,
    SendText,
    Setup,
    SpeechEnds,
)

from ..npc.s2s.support import ANSWERS, Links
from .openai_realtime.support import text


def heard(link: Any) -> int:
    return sum(len(command.pcm) for command in link.all(SendAudio))


async def test_only_its_microphone_is_converted(autojump_clock: MockClock) -> None:
    links = Links(ANSWERS)
    model = AtRate(links, 24_000)
    assert model.capabilities == attrs.evolve(ANSWERS, input_rate=24_000)
    assert model.label == links.label
    async with model.connect(Setup(instructions="")) as link:
        assert await link.receive() == Ready()
        for _ in range(50):
            link.send(SendAudio(bytes(960)))  # a second at 24 kHz
        link.send(text("Well?"))
        before = heard(links.last)
        assert 0.8 * 32_000 < before < 32_000  # it looks ahead
        link.send(SpeechEnds())
        assert heard(links.last) == 32_000
        kinds = [type(command) for _, command in links.last.sent]
        assert kinds[-1] is SpeechEnds  # after all that was said
        assert SendText in kinds
        assert link.statistics().sent == len(kinds)
