"""The speech-to-speech engine: an NPC whose model hears and speaks by itself (G33).

It owns the conversation with the model and the bridge to the tools. A turn that will
need slow tools, and that is asked for one by one, goes through the text model instead
(G37, D23b): what is said then enters the conversation as text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.config.voices import S2SConfig
from glyphoxa_trio.host import Shelf, ToolHost
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.events import EngineSwitched
from glyphoxa_trio.npc.s2s.bridge import TOOL_TIMEOUT, Bridge
from glyphoxa_trio.npc.s2s.ear import MicrophoneTaken
from glyphoxa_trio.npc.s2s.interaction import Interaction
from glyphoxa_trio.npc.s2s.live import Live
from glyphoxa_trio.npc.s2s.spoken import SpokenTurn
from glyphoxa_trio.npc.sound import SpokenItems
from glyphoxa_trio.npc.utterance import Utterance
from glyphoxa_trio.providers.s2s import Line
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.search import DEFER_THRESHOLD
from glyphoxa_trio.tools.tier import Tier

from .cascaded import TurnInProgress
from .choice import answer

# So long the words are waited for, when the tier has to be chosen by them first: a
# transcript may come late, and nobody should wait for it in silence. Seconds.
_WORDS_WITHIN: Final = 0.3


@attrs.define(eq=False, kw_only=True)
class S2SEngine:
    """One NPC's side of its speech-to-speech model.

    Args:
      route: turns that will need slow tools go through the text model, where turns
        are asked for one by one.
      filler: fillers are told of also where the model owns the audio (A19).
    """

    live: Live
    host: ToolHost
    grant: Grant
    route: bool = True
    filler: bool = False
    tool_timeout: float = TOOL_TIMEOUT
    defer_threshold: int = DEFER_THRESHOLD
    shelf: Shelf = attrs.field(factory=Shelf)
    _speaker: str = attrs.field(default="player", init=False)
    _told: Callable[[Utterance], None] | None = attrs.field(default=None, init=False)
    _interrupted: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    _gone: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _sounding: SpokenItems | None = attrs.field(default=None, init=False)
    _bridge: Bridge = attrs.field(init=False)
    # Turns that went round, and whether the model lacks the words, too.
    _elsewhere: list[tuple[bool, Exchange]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._bridge = Bridge(
            host=self.host,
            live=self.live,
            grant=self.grant,
            tool_timeout=self.tool_timeout,
            defer_threshold=self.defer_threshold,
            shelf=self.shelf,
        )
        self.live.on_speech = self._speech

    async def converse(self) -> None:
        """Run the conversation, until cancelled or closed."""
        with self._scope:
            await self.live.run()

    def close(self) -> None:
        """Hang up and hear nobody: the NPC answers with another engine from now on."""
        live = self.live
        live.on_spoken = live.on_speech = live.on_usage = live.on_complaint = None
        self._scope.cancel("another engine")
        self._deafen()

    def prepare(self, ceiling: Tier) -> None:
        """Declare the tools of a first turn, before anything is said."""
        self._bridge.show(min(ceiling, Tier.STANDARD))

    def lend(
        self,
        speaker: str,
        told: Callable[[Utterance], None],
        interrupted: Callable[[], None],
        gone: Callable[[], None] = lambda: None,
    ) -> Live:
        """Hear this speaker from now on.

        Raises:
          MicrophoneTaken: if somebody is heard already.
        """
        if self._told is not None:
            raise MicrophoneTaken(f"it hears {self._speaker} already")
        self._speaker, self._told = speaker, told
        self._interrupted, self._gone = interrupted, gone
        self.live.open()
        return self.live

    def _speech(self) -> None:
        """Somebody begins to speak: what is still being played is void."""
        self._silence()
        if self._told is not None:
            self._interrupted()

    def _silence(self) -> None:
        """A model is done long before its answer was played: of what is not heard any
        more it must not think that it said it."""
        if self._sounding is not None:
            self.live.truncate(self._sounding.cut())
            self._sounding = None

    def take_back(self, told: Callable[[Utterance], None]) -> None:
        """Hear nobody, if it was this one."""
        if self._told == told:
            self._told = None

    def _deafen(self) -> None:
        """Hear nobody from now on, and tell the speaker who was heard."""
        if self._told is not None:
            self._told = None
            self._gone()

    def heard(self, interaction: Interaction) -> Utterance:
        """What the model has heard, as an utterance."""
        utterance = Utterance(interaction.words, self._speaker)
        utterance.interaction = interaction
        interaction.on_words = utterance.understood
        return utterance

    def report(self, utterance: Utterance) -> None:
        """Tell whose microphone it is; else nobody listens but the table."""
        if self._told is None:
            utterance.stream.leave()
        else:
            self._told(utterance)

    def decline(self, utterance: Utterance) -> None:
        """It is not to be answered, and costs nothing more than it has."""
        if utterance.interaction is not None:
            self.live.interrupt({}, of=utterance.interaction)

    def over(self, utterance: Utterance) -> None:
        """Its turn has ended, or was never begun."""
        if utterance.interaction is not None:
            self.live.end(utterance.interaction)

    def asks(self, utterance: Utterance) -> bool:
        """Whether the model waits to be asked for its answer."""
        return utterance.interaction is None or not self.live.automatic

    async def hear_out(self, utterance: Utterance) -> None:
        """Wait a little for the words, if the turn is to be chosen by them."""
        heard = utterance.interaction
        if heard is not None and not self.live.automatic:
            with trio.move_on_after(_WORDS_WITHIN):
                await heard.wait_understood()

    async def run(
        self,
        turn: TurnInProgress,
        utterance: Utterance,
        understood: Callable[[str], Awaitable[Tier]],
    ) -> None:
        """Answer once, this way or through the text model.

        Args:
          understood: told of the final words, if they come only now; gives the tier
            that they call for.
        """
        self.tell()
        slow = self._slow(turn) if self.route and self.asks(utterance) else ()
        if slow and turn.exchange.text:
            await self._go_round(turn, utterance.interaction, slow)
            return
        if not self.filler:
            turn.fillers = None
        if utterance.interaction is None:
            self._silence()  # somebody writes while it still speaks
        spoken = SpokenTurn(
            turn=turn,
            live=self.live,
            bridge=self._bridge,
            speaker=utterance.speaker,
            interaction=utterance.interaction,
            asks=self.asks(utterance),
            interrupt=utterance.interrupt,
            understood=understood,
        )
        try:
            await spoken.run()
        finally:
            self._sounding = spoken.sound

    def _slow(self, turn: TurnInProgress) -> tuple[str, ...]:
        """The tools that only a turn as slow as this one may use."""
        if turn.tier is not Tier.DEEP:
            return ()
        remaining = turn.tool_clock.remaining(trio.current_time())
        shown = self.host.tools(turn.tier, grant=turn.grant, remaining=remaining)
        return tuple(x.exposed for x in shown if x.estimate.tier is Tier.DEEP)

    async def _go_round(
        self,
        turn: TurnInProgress,
        heard: Interaction | None,
        slow: tuple[str, ...],
    ) -> None:
        await turn.emit(
            EngineSwitched(
                npc=turn.npc,
                turn=turn.turn,
                engine="cascaded",
                instead_of="s2s",
                reason=f"it may need {', '.join(slow)}",
            )
        )
        if heard is not None:
            self.live.end(heard)
        self._elsewhere.append((heard is None, turn.exchange))
        await answer(turn)

    def said_without_it(self, exchange: Exchange) -> None:
        """The NPC says words that are not the model's: the DM's, or its greeting."""
        self._elsewhere.append((False, exchange))

    def tell(self) -> None:
        """Tell the model what was said without it, now that it is known what of that
        was heard: before anything else is said to it."""
        while self._elsewhere:
            words, exchange = self._elsewhere.pop(0)
            if words:
                self.live.remember(Line("user", exchange.text))
            if exchange.heard:
                self.live.remember(Line("assistant", exchange.heard))

    def become(
        self,
        grant: Grant,
        successor: Live | None,
        config: S2SConfig | None = None,
        defer_threshold: int | None = None,
    ) -> None:
        """Take over another configuration from the next turn on; None changes
        nothing."""
        bridge = self._bridge
        self.grant = bridge.grant = grant
        if config is not None:
            self.route, self.filler = config.route, config.filler
            self.tool_timeout = bridge.tool_timeout = config.tool_timeout
        if defer_threshold is not None:
            self.defer_threshold = bridge.defer_threshold = defer_threshold
        if successor is not None:
            if _sound(successor) != _sound(self.live):
                self._deafen()  # the speaker's microphone gives the wrong sound now
            self.live.become(successor)


def _sound(live: Live) -> tuple[bool, int]:
    """What a microphone must know of a conversation: who finds the turns, and the
    rate."""
    return live.automatic, live.capabilities.input_rate
