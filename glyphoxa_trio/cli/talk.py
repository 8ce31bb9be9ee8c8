"""``glyphoxa talk``: a conversation by microphone and loudspeaker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors.interrupts import interrupts
from glyphoxa_trio.config import Config, ConfigError, NpcConfig
from glyphoxa_trio.config.voices import (
    Engine,
    RecognitionProvider,
    SpeechDetector,
    SynthesisProvider,
)
from glyphoxa_trio.devices import SoundInput, SoundOutput
from glyphoxa_trio.extras import require
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.providers.endpointing import RATE, Endpointing
from glyphoxa_trio.runtime import Session, find_npc, open_runtime

from .common import (
    HARD_EXIT_AFTER,
    INTERRUPTED,
    Model,
    end_for_sure,
    memory_of,
    run,
)
from .console import wide_console
from .kept import KeptSession
from .logs import open_logs
from .stand_in import StandIn, open_stand_in
from .talk_devices import TalkDevices
from .talk_loop import TalkLoop
from .talk_microphone import SpeechGate
from .talk_view import TalkLines, TalkScreen

_READY: Final = 30.0  # seconds for servers to start, before anybody speaks
_KEEPING: Final = 2.0  # seconds to keep the session, at the end


def talk(
    path: Path,
    npc: str | None,
    model: Model,
    devices: TalkDevices,
    *,
    detector: SpeechDetector,
    full_duplex: bool,
    speaker: str,
    as_json: bool,
    log: Path | None = None,
    session: Path | None = None,
    stand_in: bool = False,
) -> int:
    """Talk until the player leaves, or the file in place of a microphone has ended.

    Args:
      npc: the NPC to talk to; None is all of them, in a scene.
      speaker: the player's name.
    """
    view = TalkLines() if as_json else TalkScreen(wide_console())

    async def converse(config: Config, npcs: Sequence[NpcConfig]) -> None:
        kept = await KeptSession.read(session, config)
        mind = StandIn()
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            logs = await enter(open_logs(log, config, view.warn))
            runtime = await enter(
                open_runtime(
                    config,
                    wait_for_servers=_READY,
                    collector="settle",
                    memory=memory_of(config, path, session),
                    s2s=await enter(open_stand_in(config if stand_in else None, mind)),
                    **logs.options,
                )
            )
            mind.look_at(runtime)
            logs.follow(runtime)
            await runtime.wait_ready(within=_READY)
            keep = partial(kept.keep, view.note)
            voice = await enter(_voice(kept.begin(runtime), npcs, speaker))
            # The last of all: what they give and take has its time from now on.
            played = await enter(devices.speak())
            heard = await enter(devices.hear())
            how = _endpointing(config)
            gate = SpeechGate(heard.rate, how, _closes(config, npcs))
            view.note(_introduction(heard, played, npcs))
            stack.callback(
                lambda: view.counts(heard.overflows, played.underflows, played.gaps)
            )
            stack.enter_context(view.shown())
            try:
                await TalkLoop(
                    voice=voice,
                    microphone=heard,
                    loudspeaker=played,
                    gate=gate,
                    view=view,
                    full_duplex=full_duplex,
                    answered=keep,
                ).run()
            finally:
                with trio.move_on_after(_KEEPING, shield=True):
                    await keep()

    async def main(config: Config) -> int:
        require("glyphoxa talk", "talk")
        npcs = config.npcs if npc is None else (find_npc(config, npc),)
        config = _spoken(config, npcs, detector, view.note)
        leaving = PlayerLeaving()
        async with interrupts(leaving.by_signal):
            with leaving.scope:
                await devices.check()  # before servers are waited for
                await converse(config, npcs)
        return INTERRUPTED if leaving.asked else 0

    return run(main, path, model, traced=True)


@attrs.define(eq=False)
class PlayerLeaving:
    """The wish of a player to leave: the first Ctrl-C ends in order, the second at
    once."""

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    asked: bool = attrs.field(default=False, init=False)

    def by_signal(self, number: int) -> None:
        """Leave, for this signal."""
        end_for_sure(0.0 if self.asked else HARD_EXIT_AFTER)
        self.asked = True
        self.scope.cancel("the player left")


def _spoken(
    config: Config,
    npcs: Sequence[NpcConfig],
    detector: SpeechDetector,
    note: Callable[[str], None],
) -> Config:
    """Return the configuration with what these NPCs need in order to hear and speak.

    Raises:
      ConfigError: there are none, or something has to be installed or configured.
    """
    if not npcs:
        raise ConfigError("there are no NPCs to talk to @ npcs")
    config = attrs.evolve(
        config, turn_taking=attrs.evolve(config.turn_taking, detector=detector)
    )
    if all(npc.engine is Engine.S2S for npc in npcs):
        return config
    speech = config.speech
    if speech.recognition.provider is None:
        note(
            "pocketsphinx listens, which understands English, badly; for free talk"
            " configure speech.recognition (docs/voices.md)"
        )
        heard = attrs.evolve(
            speech.recognition, provider=RecognitionProvider.POCKETSPHINX
        )
        speech = attrs.evolve(speech, recognition=heard)
    if speech.synthesis.provider is None:
        speaks = attrs.evolve(speech.synthesis, provider=SynthesisProvider.ESPEAK)
        speech = attrs.evolve(speech, synthesis=speaks)
    return attrs.evolve(config, speech=speech)


def _endpointing(config: Config) -> Endpointing:
    how = config.turn_taking
    silero = how.detector is SpeechDetector.SILERO
    return Endpointing(begin=how.begin, end=how.end, silero=silero)


def _closes(config: Config, npcs: Sequence[NpcConfig]) -> bool:
    """Return True if a server detects speech, which takes music and typing for it."""
    there = config.s2s.automatic and any(npc.engine is Engine.S2S for npc in npcs)
    return there and config.turn_taking.detector is SpeechDetector.SILERO


@asynccontextmanager
async def _voice(
    session: Session, npcs: Sequence[NpcConfig], speaker: str
) -> AsyncGenerator[Voice]:
    """Open the voice of one NPC, or of the scene of several.

    Raises:
      GlyphoxaError: it cannot hear.
    """
    if len(npcs) == 1:
        opened = session.npc(npcs[0].name).voice(speaker=speaker, rate=RATE)
    else:
        scene = session.scene()
        await scene.turn_to(npcs[0].name, speaker=speaker)
        opened = scene.voice(speaker=speaker, rate=RATE)
    async with opened as voice:
        yield voice


def _introduction(
    heard: SoundInput, played: SoundOutput, npcs: Sequence[NpcConfig]
) -> str:
    names = ", ".join(npc.name for npc in npcs)
    return f"{names}: heard by {heard.name}, speaking by {played.name}; Ctrl-C leaves"
