"""The ear of a speech-to-speech NPC, whose model hears the microphone itself.

The model gets the audio as it comes, or only the speech in it if the model must be
asked to answer. Each utterance that the model has heard is a turn, whose events go to
the holder of the microphone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.npc.barge_in import NO_MINIMUM, Minimum
from glyphoxa_trio.npc.events import HearingFailed, TurnDone
from glyphoxa_trio.npc.s2s.talking import Talking
from glyphoxa_trio.npc.s2s.waking import Waking
from glyphoxa_trio.npc.turn.engine import Microphone
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.providers.speech import SpeechError

if TYPE_CHECKING:
    from glyphoxa_trio.npc.session.npc import Npc
    from glyphoxa_trio.npc.voice import PlaybackOutput, Which
    from glyphoxa_trio.providers.endpointing import Endpointing

# How many turns are kept whose audio may still be playing.
_REMEMBERED: Final = 32


@attrs.define(eq=False)
class ModelEar:
    """One speaker's microphone in front of a model that hears.

    Args:
      npc: the NPC.
      speaker: the speaker's name.
      rate: the sample rate that the model wants, in Hz.
      asks: how speech is detected here, if the model must be told of it; None leaves
        detection to the model.
      minimum: how long an interruption must be, with ``asks``.
    """

    npc: Npc
    speaker: str
    rate: int
    asks: Endpointing | None = None
    minimum: Minimum = NO_MINIMUM
    _running: Listener | None = attrs.field(default=None, init=False)
    _output: PlaybackOutput = attrs.field(init=False)
    _microphone: Talking | Waking | None = attrs.field(default=None, init=False)
    _waiting: deque[Listener] = attrs.field(factory=deque, init=False)
    _arrived: Signal = attrs.field(factory=Signal, init=False)
    _turns: dict[Which, Listener] = attrs.field(factory=dict, init=False)
    _reported: Mapping[Which, float] | None = attrs.field(default=None, init=False)
    _over: bool = attrs.field(default=False, init=False)

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio; while there is no socket, only the newest is kept."""
        if self._microphone is not None and pcm:
            self._microphone.hear(pcm)

    def played(self, heard: Mapping[Which, float]) -> None:
        """Report how many seconds of these turns' audio were heard in all."""
        self._reported = heard
        for turn, listener in self._turns.items():
            listener.played(heard.get(turn, 0.0))

    async def run(
        self,
        output: PlaybackOutput,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hear until cancelled; then the running turn is interrupted.

        Raises:
          MicrophoneTaken: before it has started, if another microphone is attached.
        """
        self._output = output

        def interrupted() -> None:
            output.flush("the speaker went on", self._now)

        microphone = Microphone(self._spoken, interrupted, self._gone)
        async with self.npc.attach_microphone(self.speaker, microphone) as live:
            try:
                async with trio.open_nursery() as nursery:
                    if self.asks is None:
                        self._microphone = Waking(live)
                    else:
                        talking = Talking(live, self.asks, self.minimum, self)
                        self._microphone = talking
                        nursery.start_soon(talking.watch)
                    task_status.started()
                    while (running := await self._next()) is not None:
                        self._running = running
                        await self._relay(running, output)
                        self._running = None
                    self._end(output)
                    nursery.cancel_scope.cancel("the microphone was detached")
            finally:
                for listener in (*filter(None, [self._running]), *self._waiting):
                    listener.stream.cancel("the microphone is switched off")
                    listener.stream.leave()

    # The turn that the speaker would interrupt.

    @property
    def _now(self) -> list[Which]:
        """The turn that is being delivered, if there is one."""
        running = self._running
        return [] if running is None else [(self.npc.name, running.number)]

    @property
    def busy(self) -> bool:
        """True while the NPC answers, or its answer is still played."""
        waits = self._running is not None or bool(self._waiting)
        return waits or self._output.is_heard(())

    def hold(self) -> None:
        """Pause playback until it is known whether the speaker interrupts."""
        self._output.hold(self._now)

    def resume(self) -> None:
        """Continue playback: it was no interruption."""
        self._output.resume()

    async def _relay(self, listener: Listener, output: PlaybackOutput) -> None:
        async for event in listener.stream:
            await output.give(event)
            if isinstance(event, TurnDone):
                break
        listener.stream.leave()

    async def _next(self) -> Listener | None:
        """Wait for the next turn and return it; None if no more turns will come."""
        await self._arrived.until(lambda: bool(self._waiting) or self._over)
        return self._waiting.popleft() if self._waiting else None

    def _gone(self) -> None:
        """Stop: the model no longer hears this microphone."""
        self._microphone = None
        self._over = True
        self._arrived.set()

    def _end(self, output: PlaybackOutput) -> None:
        detail = (
            f"the speech settings of {self.npc.name} have changed:"
            " open the microphone again"
        )
        output.post(
            HearingFailed(
                **output.of(self.npc.name),
                speaker=self.speaker,
                detail=detail,
                deaf=True,
            )
        )
        output.end(SpeechError(detail))

    def _spoken(self, listener: Listener) -> None:
        """Take a turn that begins with what the model has heard."""
        self._waiting.append(listener)
        self._arrived.set()
        self._turns[self.npc.name, listener.number] = listener
        while len(self._turns) > _REMEMBERED:
            del self._turns[next(iter(self._turns))]
        if self._reported is not None:
            listener.played(0.0)
