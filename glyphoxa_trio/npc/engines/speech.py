"""The speech-to-speech engine: an NPC whose model hears and speaks itself.

The engine owns the conversation with the model and the bridge to the tools. A turn that
must be requested and that will need slow tools is answered by the text model instead,
because speech-to-speech models cannot wait that long; its words are then told to the
conversation as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.config.voices import Engine as Kind
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.events import EngineSwitched
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.s2s.bridge import ToolBridge
from glyphoxa_trio.npc.s2s.interaction import Interaction
from glyphoxa_trio.npc.s2s.own_voice import OwnVoice
from glyphoxa_trio.npc.s2s.realtime_conversation import RealtimeConversation
from glyphoxa_trio.npc.s2s.shell import ConversationOwner
from glyphoxa_trio.npc.spoken_audio import SpokenAudio
from glyphoxa_trio.npc.turn.engine import (
    Microphone,
    MicrophoneTaken,
    TurnEngine,
    Understood,
)
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.settings import Links, SessionSettings
from glyphoxa_trio.npc.turn.state import TurnState
from glyphoxa_trio.npc.turn.utterance import Utterance
from glyphoxa_trio.providers.llm import Switched, Usage
from glyphoxa_trio.providers.s2s import Complaint, TranscriptLine
from glyphoxa_trio.providers.speech import Synthesizer
from glyphoxa_trio.tools.speech import outcome_text
from glyphoxa_trio.tools.tier import Tier

from . import cascaded
from .spoken import SpokenTurn

# How long the engine waits for the words if they decide which model answers. Seconds. A
# transcript may come late, and the user should not wait for it in silence.
_WORDS_WITHIN: Final = 0.3


@attrs.define(eq=False, kw_only=True)
class SpeechEngine(TurnEngine):
    """One NPC's side of its speech-to-speech model.

    Args:
      live: the conversation.
      host: runs tools.
      settings: the NPC's settings.
      memory: the NPC's memory.
      ceiling: returns the slowest tier that the NPC may use now; its tools are
        declared.
      spoken: called with each utterance that the model has heard.
      spent, complained: called with token counts, and with what the server rejected.
      voice: the model's voice, for words that are not its own.
      switched: called when another model continues.
    """

    _live: RealtimeConversation
    _host: ToolHost
    _settings: SessionSettings
    _memory: NpcMemory
    ceiling: Callable[[], Tier]
    _spoken: Callable[[Utterance], None]
    spent: Callable[[Usage], None]
    complained: Callable[[Complaint], None]
    _voice: OwnVoice
    switched: Callable[[Switched], None]
    _microphone: tuple[str, Microphone] | None = attrs.field(default=None, init=False)
    _speaker: str = attrs.field(default="player", init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _sounding: SpokenAudio | None = attrs.field(default=None, init=False)
    _answered: tuple[Utterance, SpokenTurn] | None = attrs.field(
        default=None, init=False
    )
    # the model, in the last turn
    _failed: bool = attrs.field(default=False, init=False)
    _rests: Signal = attrs.field(factory=Signal, init=False)
    _bridge: ToolBridge = attrs.field(init=False)
    # Turns answered without the model, and whether it must be told the words too.
    _elsewhere: list[tuple[bool, Exchange]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        settings, live = self._settings, self._live
        self._bridge = ToolBridge(
            host=self._host,
            live=live,
            grant=settings.grant,
            tool_timeout=settings.s2s.tool_timeout,
            defer_threshold=settings.defer_threshold,
            shelf=self._memory.shelf,
            whose=self._memory.session.whose,
            pending=self._memory.pending,
        )
        self._bridge.show(self.ceiling())
        owner = ConversationOwner(
            spoken=self._hear,
            speech=self._speech,
            history=self._memory.conversation.lines,
            settled=self._bridge.settled,
            usage=self.spent,
            complaint=self.complained,
            switched=self.switched,
        )
        live.belong_to(owner)
        self.instruct()

    @property
    def speaks(self) -> bool:
        return True

    @property
    def idle(self) -> bool:
        return self._microphone is None and self._live.quiet

    @property
    def live(self) -> RealtimeConversation:
        return self._live

    def instruct(self) -> None:
        self._live.set_instructions(self._memory.conversation.prompt_text)

    def mouths(self, synthesizer: Synthesizer | None) -> Sequence[Synthesizer]:
        """Return the model, if it can say given words, and the synthesizer.

        The synthesizer comes first while the model fails.
        """
        own = [self._voice] if self._live.capabilities.recites else []
        other = [] if synthesizer is None else [synthesizer]
        spoken = None if self._answered is None else self._answered[1]
        failed = self._failed if spoken is None else spoken.failed
        unwell = failed or self._live.fault is not None
        return [*other, *own] if unwell else [*own, *other]

    async def converse(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._live.run)
                if self._voice.records:
                    nursery.start_soon(
                        self._voice.record_at_rest,
                        self._rests,
                        lambda: self._memory.fallbacks,
                    )
                while True:
                    await self._host.changed()
                    self._bridge.show(self.ceiling())

    def tier(self, selected: Tier, ceiling: Tier, override: Tier | None) -> Tier:
        return ceiling if override is None else min(override, ceiling)

    def elevated(self) -> None:
        self._bridge.show(self.ceiling())

    def ignore_speech(self) -> None:
        # Otherwise each utterance would be ended at once, and the model's answer to it
        # would be offered to the next one.
        self._live.ignore_speech()

    def close(self) -> None:
        self._live.belong_to(None)
        self._scope.cancel("another engine answers now")
        self._deafen()

    def overhear(self, line: Overheard) -> None:
        self._live.tell(str(line))

    def lend(self, name: str, speaker: str, microphone: Microphone) -> bool:
        if self._microphone is not None:
            raise MicrophoneTaken(f"the model hears {self._speaker} already")
        self._speaker, self._microphone = speaker, (name, microphone)
        self._live.open()
        self._rests.set()
        microphone.live = self._live
        return True

    @property
    def _heard(self) -> Microphone | None:
        return None if self._microphone is None else self._microphone[1]

    def _speech(self) -> None:
        """Stop playback, because a user starts to speak."""
        self._silence()
        if self._answered is not None:  # at once, however busy the listener is
            self._answered[0].interrupt("the speaker went on")
        if self._heard is not None:
            self._heard.interrupted()

    def _silence(self) -> None:
        """Tell the model what was not heard of its last answer.

        A model is far ahead of playback, or has finished, and must not assume that the
        user heard everything.
        """
        if self._sounding is not None:
            self._live.truncate(self._sounding.stop())
            self._sounding = None

    def take_back(self, name: str) -> None:
        if self._microphone is not None and self._microphone[0] == name:
            self._microphone = None

    def _deafen(self) -> None:
        """Detach the microphone, and tell its speaker."""
        heard, self._microphone = self._heard, None
        if heard is not None:
            heard.gone()

    def _hear(self, interaction: Interaction) -> None:
        """Make an utterance of what the model has heard."""
        self._tell()
        context = None if self._heard is None else self._heard.context
        utterance = Utterance(
            interaction.words,
            self._speaker,
            interaction=interaction,
            listener=Listener(context=context),
        )
        interaction.tell_words(utterance.understood, passes_on=False)
        self._spoken(utterance)
        if self._heard is None:
            utterance.stream.discard()  # no listener but the scene
        else:
            self._heard.spoken(utterance.listener)

    def decline(self, utterance: Utterance) -> None:
        if utterance.interaction is not None:
            self._live.interrupt({}, of=utterance.interaction)

    def over(self, utterance: Utterance) -> None:
        # Not earlier: the turn is remembered only now, and a new socket is told the
        # history.
        for interaction in {utterance.interaction, self._written(utterance)}:
            if interaction is not None:
                self._live.end(interaction)
        self._rests.set()

    def _written(self, utterance: Utterance) -> Interaction | None:
        """Return the interaction by which the model was told a written utterance."""
        if self._answered is None or self._answered[0] is not utterance:
            return None
        _, spoken = self._answered
        self._answered, self._failed = None, spoken.failed
        return spoken.interaction

    def asks(self, utterance: Utterance) -> bool:
        return utterance.interaction is None or not self._live.answers

    async def wait_transcript(self, utterance: Utterance) -> None:
        heard, route = utterance.interaction, self._settings.s2s.route
        asked = heard is not None and not heard.reports
        if heard is not None and asked and not self._live.answers and route:
            with trio.move_on_after(_WORDS_WITHIN):
                await heard.wait_understood()

    async def answer(
        self, turn: TurnState, utterance: Utterance, understood: Understood
    ) -> None:
        """Answer once, with this model or with the text model."""
        self._tell()
        self._tell_late(turn.exchange)
        config = self._settings.s2s
        slow = self._slow(turn) if config.route and self.asks(utterance) else ()
        if slow and turn.exchange.text:
            await self._go_round(turn, utterance.interaction, slow)
            return
        if not config.filler:
            turn.without_fillers()
        if utterance.interaction is None:
            self._silence()  # the user writes while the model still speaks
        self._sounding = sound = turn.exchange.aloud
        assert sound is not None
        spoken = SpokenTurn(
            turn=turn,
            live=self._live,
            bridge=self._bridge,
            speaker=utterance.speaker,
            heard=utterance.interaction,
            asks=self.asks(utterance),
            sound=sound,
            ceiling=self.ceiling(),
            interrupt=utterance.interrupt,
            understood=understood,
        )
        self._answered = utterance, spoken
        await spoken.run()

    def _slow(self, turn: TurnState) -> tuple[str, ...]:
        """Return the tools that only a turn of the DEEP tier may use."""
        if turn.selected is not Tier.DEEP:
            return ()
        shown = self._host.tools(
            turn.selected,
            grant=turn.grant,
            whose=self._memory.session.whose,
        )
        return tuple(x.exposed for x in shown if x.estimate.tier is Tier.DEEP)

    async def _go_round(
        self,
        turn: TurnState,
        heard: Interaction | None,
        slow: tuple[str, ...],
    ) -> None:
        await turn.emit(
            EngineSwitched(
                **turn.of,
                engine="cascaded",
                instead_of="s2s",
                reason=f"the turn may need {', '.join(slow)}",
            )
        )
        if heard is not None:
            self._live.end(heard)
        self._elsewhere.append((heard is None, turn.exchange))
        await cascaded.run(turn)

    def told_elsewhere(self, exchange: Exchange) -> None:
        self._elsewhere.append((False, exchange))

    def _tell(self) -> None:
        """Tell the model what was said without it, and what of that was heard.

        This must happen before anything else is said to the model.
        """
        while self._elsewhere:
            words, exchange = self._elsewhere.pop(0)
            if words:
                self._live.tell(TranscriptLine("user", exchange.text))
            if exchange.heard:
                self._live.tell(TranscriptLine("assistant", exchange.heard))

    def _tell_late(self, exchange: Exchange) -> None:
        """Tell the model the outcomes of calls that it did not make itself.

        They were made in turns of the text model, or in an earlier run.
        """
        cap = self._live.capabilities.max_result
        for outcome in exchange.late:
            if not self._live.knows(outcome.call):
                text = outcome_text(outcome, cap=cap)
                self._live.tell_result(outcome.call.name, text)
                self._bridge.settled(outcome.call.id)

    def configure(self, settings: SessionSettings, links: Links) -> bool:
        if settings.npc.engine is not Kind.S2S:
            return False
        self._settings = settings
        self._bridge.become(
            settings.grant,
            tool_timeout=settings.s2s.tool_timeout,
            defer_threshold=settings.defer_threshold,
        )
        if (successor := links.live) is not None:
            if _sound(successor) != _sound(self._live):
                self._deafen()  # the microphone now sends audio in the wrong form
            self._live.become(successor)
        self._bridge.show(self.ceiling())
        return True


def _sound(live: RealtimeConversation) -> tuple[bool, int]:
    """Return what a microphone depends on: who detects speech, and the sample rate."""
    return live.automatic, live.capabilities.input_rate
