"""One player's microphone in a scene.

It is attached to one NPC at a time: the one to which this player talks. If that NPC's
model hears, the model gets the audio. Otherwise a recognizer does, and the words go to
the NPC that they name. All other NPCs are told by the scene what was said, as text.

    the player talks to   Ysolde (s2s) ──────────────┐ "Bartok, a beer"
    the audio goes to     her model                  └ the recognizer, for Bartok

A model that hears answers by itself. Its answer waits until it is its turn; and if the
player turns out to have named another NPC, the answer is interrupted, and the other NPC
is told what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Handover, StableRef
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.barge_in import NO_MINIMUM, Minimum
from glyphoxa_trio.npc.ear import RecognizedEar
from glyphoxa_trio.npc.events import HearingFailed, Transcript
from glyphoxa_trio.npc.s2s.talking import Talking
from glyphoxa_trio.npc.s2s.waking import Waking
from glyphoxa_trio.npc.session.npc import Npc
from glyphoxa_trio.npc.turn.engine import Microphone
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.npc.voice import PlaybackOutput, Which, which
from glyphoxa_trio.providers import endpointing
from glyphoxa_trio.providers.audio import Resampler
from glyphoxa_trio.providers.endpointing import Endpointing

from .addressing import NobodyAddressed, Why
from .messages import Enter, Follow, SceneMessages, Whom
from .queued_utterance import SceneTurn, turn_of

_PATIENCE: Final = 10.0  # seconds for the scene to take a message
_REMEMBERED: Final = 8  # turns whose audio may still be playing
_AGAIN: Final = 0.1  # seconds to wait after a failure of the scene


@attrs.define(eq=False, kw_only=True)
class SceneEar:
    """One speaker's microphone.

    Args:
      scene: the scene's mailbox.
      handover: passes microphones and utterances to actors.
      find: returns an NPC by its name.
      hears: returns True if the model of this NPC hears.
      speaker: the speaker's name.
      rate: the highest sample rate that an NPC of the scene wants, in Hz.
      endpointing: how speech is detected, for models that must be told of it.
      recognized: recognizes this speaker's words for NPCs that read, if there is a
        recognizer.
      minimum: how long an interruption must be, with ``endpointing``.
    """

    scene: StableRef[SceneMessages]
    handover: Handover
    find: Callable[[str], Npc]
    hears: Callable[[Npc], bool]
    speaker: str
    rate: int
    endpointing: Endpointing
    recognized: RecognizedEar | None = None
    minimum: Minimum = NO_MINIMUM
    _target: str | None = attrs.field(default=None, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _model: Callable[[bytes], None] | None = attrs.field(default=None, init=False)
    _resampler: Resampler = attrs.field(init=False)
    _nursery: trio.Nursery = attrs.field(init=False)
    _output: PlaybackOutput = attrs.field(init=False)
    _turns: dict[Which, SceneTurn] = attrs.field(factory=dict, init=False)
    _running: set[Which] = attrs.field(factory=set, init=False)
    _reports: bool = attrs.field(default=False, init=False)
    _in_order: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._resample_to(self.rate)

    def _resample_to(self, rate: int) -> None:
        self._resampler = Resampler(self.rate, rate)

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio. Never waits."""
        ready = self._resampler.feed(pcm)
        if self._model is not None:
            self._model(ready)
        elif self.recognized is not None:
            self.recognized.hear(ready)

    def played(self, heard: Mapping[Which, float]) -> None:
        """Report how many seconds of these turns' audio were heard in all."""
        self._reports = True
        if self.recognized is not None:
            self.recognized.played(heard)
        for turn, seconds in heard.items():
            if turn in self._turns:
                self._turns[turn].played(1000 * seconds)

    async def run(
        self, output: PlaybackOutput, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Hear until cancelled; see `Ear.run`."""
        self._output = output
        self._listen_in()
        async with trio.open_nursery() as self._nursery:
            if self.recognized is not None:
                await self._nursery.start(self.recognized.run, output)
            self._nursery.start_soon(self._follow)
            task_status.started()
            await self._reach()

    def _listen_in(self) -> None:
        """Send the audio to the recognizer, if there is one."""
        if self.recognized is not None:
            self._resample_to(self.recognized.rate)

    async def _follow(self) -> None:
        """Track the NPC to which this player talks."""
        while True:
            request = Follow(self.speaker, self._target)
            try:
                self._target = await self.scene.ask(request, within=inf)
            except GlyphoxaError:  # a failure of the scene, which recovers
                await trio.sleep(_AGAIN)
            else:
                self._changed.set()

    async def _reach(self) -> None:
        """Attach the microphone to the NPC to which the player talks.

        Runs until it is cancelled.
        """
        while True:
            self._changed = trio.Event()
            name, changed = self._target, self._changed
            try:
                npc = None if name is None else self.find(name)
                if npc is not None and self.hears(npc):
                    await self._lend(npc, changed)
                    continue
                if npc is not None and self.recognized is None:
                    self._fail(f"{name} cannot hear: configure speech.recognition")
            # another microphone is attached, or the NPC is gone
            except GlyphoxaError as error:
                if self.recognized is None:  # otherwise the NPC gets the words as text
                    self._fail(str(error))
            await changed.wait()

    async def _lend(self, npc: Npc, changed: trio.Event) -> None:
        """Let the NPC's model hear this microphone until the target changes."""

        def spoken(listener: Listener) -> None:
            said = Enter(speaker=self.speaker, to=npc.name, spoken=True)
            turn = turn_of(self.scene, self.handover, said, listener)
            self._nursery.start_soon(self._listen, turn)

        def interrupted() -> None:
            self._output.flush("the speaker went on", self._running)

        microphone = Microphone(spoken, interrupted, changed.set)
        async with npc.attach_microphone(self.speaker, microphone) as live:
            try:
                async with trio.open_nursery() as nursery:
                    if live.automatic:
                        self._resample_to(live.capabilities.input_rate)
                        self._model = Waking(live).hear
                    else:
                        talking = Talking(live, self.endpointing, self.minimum, self)
                        self._resample_to(endpointing.RATE)
                        self._model = talking.hear
                        nursery.start_soon(talking.watch)
                    await changed.wait()
                    nursery.cancel_scope.cancel("the player talks to another NPC")
            finally:
                self._model = None
                self._listen_in()

    @property
    def busy(self) -> bool:
        """True while an NPC answers this player, or its answer is still played."""
        return bool(self._running) or self._output.is_heard(())

    def hold(self) -> None:
        """Pause playback until it is known whether the player interrupts."""
        self._output.hold(self._running)

    def resume(self) -> None:
        """Continue playback: it was no interruption."""
        self._output.resume()

    async def _listen(self, turn: SceneTurn) -> None:
        """Run one turn that a model began because it heard something."""
        try:
            other = await self._relay(turn, until_named=True)
            if other is not None:
                said = Enter(text=turn.spoken_text, speaker=self.speaker, to=other)
                await self._relay(turn_of(self.scene, self.handover, said))
        except GlyphoxaError as error:
            self._fail(str(error))

    async def _relay(self, turn: SceneTurn, *, until_named: bool = False) -> str | None:
        """Deliver the turn's events; return another NPC that the words name.

        With ``until_named`` such words interrupt the turn.
        """
        key: Which | None = None
        other: str | None = None
        try:
            async with turn:
                if self._reports:
                    turn.played(0)
                async with self._in_order:
                    async for event in turn:
                        if key is None and event.turn:
                            key = which(event)
                            self._running.add(key)
                            self._remember(key, turn)
                        await self._output.give(event)
                        if until_named and isinstance(event, Transcript):
                            other = other or await self._other(event, turn.npc)
                            if other is not None:
                                why = f"the player addressed {other}"
                                turn.interrupt(why)
                                self._output.flush(why, self._running)
        finally:
            if key is not None:
                self._running.discard(key)
        return other

    async def _other(self, said: Transcript, npc: str) -> str | None:
        """Return the NPC that these words name, if another NPC heard them."""
        whom = Whom(said.text, self.speaker)
        if not said.final:
            return None
        try:
            meant = await self.scene.ask(whom, within=_PATIENCE)
        except NobodyAddressed:
            return None
        return meant.npc if meant.why is Why.NAMED and meant.npc != npc else None

    def _remember(self, key: Which, turn: SceneTurn) -> None:
        self._turns[key] = turn
        while len(self._turns) > _REMEMBERED:
            del self._turns[next(iter(self._turns))]

    def _fail(self, detail: str) -> None:
        self._output.post(
            HearingFailed(**self._output.of(), speaker=self.speaker, detail=detail)
        )
