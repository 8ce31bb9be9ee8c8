"""One turn of a conversation with a model that hears and speaks itself.

The model hears, answers and calls. The turn adds the gate, the clock, the events and
the memory. The tools are those of the NPC's ceiling, whatever is said, because the
model answers before the words are known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs

import trio

from glyphoxa_trio.npc.conversation import Round
from glyphoxa_trio.npc.events import Fallback, Speech, Transcript
from glyphoxa_trio.npc.model_timeout import ModelTimeout
from glyphoxa_trio.npc.s2s.bridge import ToolBridge
from glyphoxa_trio.npc.s2s.interaction import Interaction
from glyphoxa_trio.npc.s2s.realtime_conversation import RealtimeConversation
from glyphoxa_trio.npc.s2s.response_loop import ResponseLoop
from glyphoxa_trio.npc.s2s.talk import Talk
from glyphoxa_trio.npc.sentences import Sentences
from glyphoxa_trio.npc.spans import chat_span
from glyphoxa_trio.npc.spoken_audio import SpokenAudio
from glyphoxa_trio.npc.turn.state import TurnState
from glyphoxa_trio.npc.turn.tool_round import ToolRound
from glyphoxa_trio.providers.llm import LLMError
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    Event,
    Heard,
    InteractionEnded,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    Spoken,
    TranscriptLine,
)
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.speech import outcome_text
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tracing import NO_SPAN, Span

# How long other tools are waited for before the words are said. Seconds.
_TOOLS_WITHIN = 3.0


@attrs.define(eq=False, kw_only=True)
class SpokenTurn:
    """A turn of a speech-to-speech NPC.

    Args:
      turn: the turn.
      live: the conversation.
      bridge: runs the calls.
      speaker: the speaker's name.
      heard: the interaction of the utterance that the server heard; None if it is text.
      asks: whether the turn must ask for the answer, because the server does not answer
        by itself.
      sound: tracks what was spoken and heard of the answer.
      interrupt: ends the turn, with a reason.
      ceiling: the slowest tier that the NPC may use.
      understood: called with the final words of an utterance that was heard.
    """

    turn: TurnState
    live: RealtimeConversation
    bridge: ToolBridge
    speaker: str
    heard: Interaction | None
    asks: bool
    sound: SpokenAudio
    interrupt: Callable[[str], None]
    ceiling: Tier
    understood: Callable[[str], Awaitable[None]]
    _sentences: Sentences = attrs.field(factory=Sentences, init=False)
    _round: Round | None = attrs.field(default=None, init=False)
    _index: int = attrs.field(default=-1, init=False)
    interaction: Interaction | None = attrs.field(default=None, init=False)
    _mute: bool = attrs.field(default=False, init=False)  # words came without audio
    _known: bool = attrs.field(default=True, init=False)  # the words are known
    _chat: Span = attrs.field(default=NO_SPAN, init=False)  # of the running response

    async def run(self) -> None:
        """Answer once. Cancelling interrupts the model and every call.

        A finished ``interaction`` must be ended together with the turn.
        """
        turn, live, heard = self.turn, self.live, self.heard
        self._known = self.asks or (heard is not None and heard.understood)
        self.bridge.become(turn.grant, defer_threshold=turn.settings.defer_threshold)
        await self._show()
        interaction = heard
        if interaction is None:
            with trio.move_on_after(_TOOLS_WITHIN):
                await self.bridge.told()
            interaction = live.begin()
            live.know(turn.exchange.known)
            live.say(TranscriptLine("user", turn.exchange.text))
        else:
            live.know(turn.exchange.known)
            if self.asks and not interaction.reports:
                live.respond()
        self.interaction = interaction
        interaction.tell_words(self._tell_words)
        rounds = ResponseLoop(
            bridge=self.bridge,
            interaction=interaction,
            hear=self._hear,
            round_of=self._round_of,
            retell=self._retell,
            patience=ModelTimeout(turn.model_clock),
            first_token=turn.config.first_token,
            silence=turn.config.silence,
            max_rounds=turn.config.max_rounds,
            talk=Talk(turn.fillers is not None and turn.settings.filler.enabled),
        )
        try:
            await rounds.run()
            if rounds.barged:
                self.interrupt("the speaker went on")
                await trio.lowlevel.checkpoint()  # the turn ends here
            if not rounds.silent:
                await self._fall_back()
        except LLMError as error:
            await self._fail(error)
        finally:
            self._chat.end()
            if not rounds.finished:
                live.interrupt(self._break_off(), of=interaction)
                live.end(interaction)

    @property
    def failed(self) -> bool:
        """True if the model has failed, or wrote words and spoke none of them."""
        return self._mute or self.turn.error is not None

    @property
    def _said(self) -> bool:
        return self._round is not None and bool(self._round.sentences)

    # Visible tools.

    async def _show(self) -> None:
        turn = self.turn
        remaining = turn.tool_clock.remaining(trio.current_time())
        view = self.bridge.show(self.ceiling)
        await turn.tell_shown(view, 0, remaining=remaining)

    # Speech of the model.

    async def _hear(self, event: Event) -> None:
        turn = self.turn
        self._trace(event)
        match event:
            case AudioOut(item=item, pcm=pcm):
                rate = self.live.capabilities.output_rate
                speech = Speech(**turn.of, pcm=pcm, rate=rate)
                self._begin_round()
                self.sound.give_item(self._index, item, speech.seconds)
                turn.text_begins()
                await turn.emit(speech)
            case Spoken(text=text):
                turn.text_begins()
                self._begin_round()
                await turn.write(text)
                await self._say(self._sentences.feed(text))
            case ResponseEnded() | InteractionEnded():
                await self._say(self._sentences.end())
                self._mute = turn.output.say_unvoiced() or self._mute
            case Heard(text, final):
                await self._understand(text, final=final)
            case _:
                pass

    def _trace(self, event: Event) -> None:
        """Begin and end the span of a response."""
        match event:
            case ResponseStarted():
                self._chat.end()
                self._chat = chat_span(self.live.provider, round=max(0, self._index))
            case ResponseEnded(end=end):
                if end is ResponseEnd.FAILED:
                    self._chat.fail(end.value)
                self._chat.end()

    async def _say(self, whole: list[str]) -> None:
        for text in whole:
            round_ = self._begin_round()
            await self.turn.voiced(round_, self._index, text)

    def _break_off(self) -> dict[str, float]:
        """Break off the answer; return the seconds that were heard of each item."""
        if self.turn.error is not None:
            return {}  # what was received is still played
        # words of an incomplete sentence may have been heard
        if self._round is not None:
            self._round.sentences.extend(self._sentences.end())
            self.turn.exchange.hear()
        return self.sound.stop()

    async def _understand(self, text: str, *, final: bool) -> None:
        if final and not self._known:
            self._known = True
            await self.understood(text)

    def _tell_words(self, text: str, final: bool) -> None:
        """Deliver the words as far as they are known, whatever the turn is doing."""
        turn = self.turn
        turn.output.utterance.understood(text)
        said = Transcript(**turn.of, speaker=self.speaker, text=text, final=final)
        turn.post(said)

    def _begin_round(self) -> Round:
        """Return the current round; a new one once the calls of the last have ended."""
        if self._round is None or self._round.outcomes:
            self._round = self.turn.exchange.begin_round()
            self._index += 1
        return self._round

    # Calls of the model.

    def _round_of(self, index: int, calls: Sequence[ToolCall], last: bool) -> ToolRound:
        return ToolRound(
            turn=self.turn,
            round_=self._begin_round(),
            index=index,
            calls=calls,
            showing=self.bridge.showing,
            tier=lambda: self.turn.tier,
            last=last,
        )

    # Failures.

    def _retell(self) -> tuple[TranscriptLine, ...]:
        """Return this turn as lines, for a model that was not there."""
        words = self.turn.exchange.text
        lines = [TranscriptLine("user", words)] if words else []
        cap = self.live.capabilities.max_result
        for outcome in self.turn.exchange.outcomes:
            text = outcome_text(outcome, cap=cap)
            name = outcome.call.name
            lines.append(TranscriptLine("user", f"(Result of {name}, as data: {text})"))
        return tuple(lines)

    async def _fail(self, error: LLMError) -> None:
        await self.turn.fail(error)
        await self._fall_back(Fallback.MODEL_FAILED)

    async def _fall_back(self, reason: Fallback | None = None) -> None:
        """Say a fallback line, if nothing was said and the user expects an answer."""
        reports = self.interaction is not None and self.interaction.reports
        if self._said or reports:
            return
        if self.sound.is_spoken(self._index):  # audio without words
            self._round = None
        round_ = self._begin_round()
        reason = reason or self.turn.why_nothing(round_, last=False)
        await self.turn.fall_back(round_, self._index, reason)
