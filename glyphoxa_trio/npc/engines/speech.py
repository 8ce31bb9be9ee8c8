"""The speech-to-speech engine: an NPC whose model hears and speaks by itself (G33).

It owns the conversation with the model and the bridge to the tools. A turn that will
need slow tools, and that is asked for one by one, goes through the text model instead
(G37, D23b): what is said then enters the conversation as text. Above 300 lines, because
turns, microphones and configurations meet in its one conversation, which is one state.
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

# So long the words are waited for, when they say which model answers: a transcript may
# come late, and nobody should wait for it in silence. Seconds.
_WORDS_WITHIN: Final = 0.3


@attrs.define(eq=False, kw_only=True)
class SpeechEngine(TurnEngine):
    """One NPC's side of its speech-to-speech model.

    Args:
      ceiling: the slowest tier that the NPC may use now: its tools are declared.
      spoken: told of each utterance that the model has heard.
      spent, complained: told of tokens, and of what its server did not take.
      voice: the model's, for words that are not its own.
      switched: told when another model goes on.
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
    _failed: bool = attrs.field(default=False, init=False)  # its model, in that turn
    _rests: Signal = attrs.field(factory=Signal, init=False)
    _bridge: ToolBridge = attrs.field(init=False)
    # Turns that went round, and whether the model lacks the words, too.
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
        """Its model, if that can say words as they stand, and the synthesizer; that
        first while the model is not well."""
        own = [self._voice] if self._live.capabilities.recites else []
        other = [] if synthesizer is None else [synthesizer]
        turn = None if self._answered is None else self._answered[1].turn
        failed = self._failed if turn is None else turn.error is not None
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
        # Each utterance would be ended at once, and leave what the model has said to
        # the next one.
        self._live.ignore_speech()

    def close(self) -> None:
        self._live.belong_to(None)
        self._scope.cancel("another engine")
        self._deafen()

    def overhear(self, line: Overheard) -> None:
        self._live.tell(str(line))

    def lend(self, name: str, speaker: str, microphone: Microphone) -> bool:
        if self._microphone is not None:
            raise MicrophoneTaken(f"it hears {self._speaker} already")
        self._speaker, self._microphone = speaker, (name, microphone)
        self._live.open()
        self._rests.set()
        microphone.reaches(self._live)
        return True

    @property
    def _heard(self) -> Microphone | None:
        return None if self._microphone is None else self._microphone[1]

    def _speech(self) -> None:
        """Somebody begins to speak: what is still being played is void."""
        self._silence()
        if self._answered is not None:  # at once, however busy its listener is
            self._answered[0].interrupt("the speaker went on")
        if self._heard is not None:
            self._heard.interrupted()

    def _silence(self) -> None:
        """A model is far ahead of what was played, or done: of what is not heard any
        more it must not think that it said it."""
        if self._sounding is not None:
            self._live.truncate(self._sounding.stop())
            self._sounding = None

    def take_back(self, name: str) -> None:
        if self._microphone is not None and self._microphone[0] == name:
            self._microphone = None

    def _deafen(self) -> None:
        """Hear nobody from now on, and tell the speaker who was heard."""
        heard, self._microphone = self._heard, None
        if heard is not None:
            heard.gone()

    def _hear(self, interaction: Interaction) -> None:
        """The model has heard something: that is an utterance like any other."""
        self._tell()
        utterance = Utterance(interaction.words, self._speaker, interaction=interaction)
        interaction.tell_words(utterance.understood, passes_on=False)
        self._spoken(utterance)
        if self._heard is None:
            utterance.stream.discard()  # nobody listens but the table
        else:
            self._heard.spoken(utterance.listener)

    def decline(self, utterance: Utterance) -> None:
        if utterance.interaction is not None:
            self._live.interrupt({}, of=utterance.interaction)

    def over(self, utterance: Utterance) -> None:
        # Not before: what was said is remembered now, for a socket that is told of it.
        for interaction in {utterance.interaction, self._written(utterance)}:
            if interaction is not None:
                self._live.end(interaction)
        self._rests.set()

    def _written(self, utterance: Utterance) -> Interaction | None:
        """What the model was told of an utterance that it did not hear."""
        if self._answered is None or self._answered[0] is not utterance:
            return None
        _, spoken = self._answered
        self._answered, self._failed = None, spoken.turn.error is not None
        return spoken.interaction

    def asks(self, utterance: Utterance) -> bool:
        return utterance.interaction is None or not self._live.answers

    async def hear_out(self, utterance: Utterance) -> None:
        heard, route = utterance.interaction, self._settings.s2s.route
        asked = heard is not None and not heard.reports
        if heard is not None and asked and not self._live.answers and route:
            with trio.move_on_after(_WORDS_WITHIN):
                await heard.wait_understood()

    async def answer(
        self, turn: TurnState, utterance: Utterance, understood: Understood
    ) -> None:
        """Answer once, this way or through the text model."""
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
            self._silence()  # somebody writes while it still speaks
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
        """The tools that only a turn as slow as this one may use."""
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
                reason=f"it may need {', '.join(slow)}",
            )
        )
        if heard is not None:
            self._live.end(heard)
        self._elsewhere.append((heard is None, turn.exchange))
        await cascaded.run(turn)

    def told_elsewhere(self, exchange: Exchange) -> None:
        self._elsewhere.append((False, exchange))

    def _tell(self) -> None:
        """Tell the model what was said without it, now that it is known what of that
        was heard: before anything else is said to it."""
        while self._elsewhere:
            words, exchange = self._elsewhere.pop(0)
            if words:
                self._live.tell(TranscriptLine("user", exchange.text))
            if exchange.heard:
                self._live.tell(TranscriptLine("assistant", exchange.heard))

    def _tell_late(self, exchange: Exchange) -> None:
        """Tell the model what calls came to that it has not made itself: those of a
        turn that went round, or of an earlier run."""
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
                self._deafen()  # the speaker's microphone gives the wrong sound now
            self._live.become(successor)
        self._bridge.show(self.ceiling())
        return True


def _sound(live: RealtimeConversation) -> tuple[bool, int]:
    """What a microphone must know of a conversation: who finds the turns, and the
    rate."""
    return live.automatic, live.capabilities.input_rate
