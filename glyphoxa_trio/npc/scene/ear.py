"""One player's microphone in a scene (D23a).

It reaches one NPC at a time: the one that this player talks to. If its model hears for
itself, it gets the sound as it comes; else a recognizer does, and the words are for
whoever they name. All others get what was said as text, from the scene.

    whom they talk to    Ysolde (s2s) ──────────────┐ "Bartok, a beer"
    the sound goes to    her model                  └ the recognizer, for Bartok

A model that hears answers by itself. What it says waits until nobody else speaks; and
if its player turns out to have named another NPC, it is interrupted, and the other one
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
_REMEMBERED: Final = 8  # turns whose audio may still be played
_AGAIN: Final = 0.1  # seconds after a fault of the scene


@attrs.define(eq=False, kw_only=True)
class SceneEar:
    """One speaker's microphone.

    Args:
      recognized: what understands this speaker for NPCs that read, if anything does.
      hears: whether the model of this NPC hears for itself.
      rate: the highest that anybody here wants.
      endpointing: how speech is found, for models that are told when somebody speaks.
      minimum: what an interruption has to be then.
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
        ready = self._resampler.feed(pcm)
        if self._model is not None:
            self._model(ready)
        elif self.recognized is not None:
            self.recognized.hear(ready)

    def played(self, heard: Mapping[Which, float]) -> None:
        self._reports = True
        if self.recognized is not None:
            self.recognized.played(heard)
        for turn, seconds in heard.items():
            if turn in self._turns:
                self._turns[turn].played(1000 * seconds)

    async def run(
        self, output: PlaybackOutput, *, task_status: trio.TaskStatus[None]
    ) -> None:
        self._output = output
        self._listen_in()
        async with trio.open_nursery() as self._nursery:
            if self.recognized is not None:
                await self._nursery.start(self.recognized.run, output)
            self._nursery.start_soon(self._follow)
            task_status.started()
            await self._reach()

    def _listen_in(self) -> None:
        """The sound is for the recognizer, if there is one."""
        if self.recognized is not None:
            self._resample_to(self.recognized.rate)

    async def _follow(self) -> None:
        """Know to whom this player talks."""
        while True:
            request = Follow(self.speaker, self._target)
            try:
                self._target = await self.scene.ask(request, within=inf)
            except GlyphoxaError:  # a fault of the scene; it lives on
                await trio.sleep(_AGAIN)
            else:
                self._changed.set()

    async def _reach(self) -> None:
        """Have the sound go to whom it is for, until cancelled."""
        while True:
            self._changed = trio.Event()
            name, changed = self._target, self._changed
            try:
                npc = None if name is None else self.find(name)
                if npc is not None and self.hears(npc):
                    await self._lend(npc, changed)
                    continue
                if npc is not None and self.recognized is None:
                    self._fail(f"{name} cannot hear: there is no recognizer")
            except GlyphoxaError as error:  # somebody else has its ear, or it is gone
                if self.recognized is None:  # else it is told in text
                    self._fail(str(error))
            await changed.wait()

    async def _lend(self, npc: Npc, changed: trio.Event) -> None:
        """Let its model hear this microphone until it is another's."""

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
                    nursery.cancel_scope.cancel("it is another's microphone")
            finally:
                self._model = None
                self._listen_in()

    @property
    def busy(self) -> bool:
        """Whether somebody answers this player, or is still played to them."""
        return bool(self._running) or self._output.is_heard(())

    def hold(self) -> None:
        """Nothing is played until it is known what the player does."""
        self._output.hold(self._running)

    def resume(self) -> None:
        """It was nothing."""
        self._output.resume()

    async def _listen(self, turn: SceneTurn) -> None:
        """One turn that a model began because it has heard something."""
        try:
            other = await self._relay(turn, until_named=True)
            if other is not None:
                said = Enter(text=turn.spoken_text, speaker=self.speaker, to=other)
                await self._relay(turn_of(self.scene, self.handover, said))
        except GlyphoxaError as error:
            self._fail(str(error))

    async def _relay(self, turn: SceneTurn, *, until_named: bool = False) -> str | None:
        """Hand out its events. Words that name another NPC end it: returns whose."""
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
                                why = f"it was for {other}"
                                turn.interrupt(why)
                                self._output.flush(why, self._running)
        finally:
            if key is not None:
                self._running.discard(key)
        return other

    async def _other(self, said: Transcript, npc: str) -> str | None:
        """The NPC that these words name, if it is another than the one who heard."""
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
