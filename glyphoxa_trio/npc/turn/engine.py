"""The base class of engines, which answer an NPC's turns.

There is an engine for everything that is written, and one for models that hear and
speak. The runner knows only this class; its methods do what an engine without state
between turns does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.s2s import RealtimeConversation
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.npc.turn.settings import Links, SessionSettings
from glyphoxa_trio.npc.turn.state import TurnState
from glyphoxa_trio.npc.turn.utterance import Utterance
from glyphoxa_trio.providers.speech import Synthesizer
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tracing import here


class MicrophoneTaken(GlyphoxaError):
    """Another microphone is attached, and the model hears only one at a time."""


def _nobody() -> None:
    pass


@attrs.define(eq=False)
class Microphone:
    """A speaker whom the NPC's model hears. Handed over to the NPC's session, whose
    engine sets ``live``, the conversation to which the audio goes.

    Args:
      spoken: called with the listener of each turn that this microphone begins.
      interrupted: called when the speaker interrupts; the NPC's playback should stop.
      gone: called when the model no longer hears the speaker, because a new
        configuration lets the NPC hear in another way.
    """

    spoken: Callable[[Listener], None]
    interrupted: Callable[[], None] = _nobody
    gone: Callable[[], None] = _nobody
    live: RealtimeConversation | None = attrs.field(default=None, init=False)
    context: Any = attrs.field(factory=here, init=False)  # the speaker's trace


Understood = Callable[[str], Awaitable[None]]
"""Called with the final words of a turn, if they come after its beginning."""


@attrs.define(eq=False)
class TurnEngine:
    """An engine of one NPC; it serves through reloads that need no other kind."""

    @property
    def speaks(self) -> bool:
        """True if the engine produces audio itself."""
        return False

    def mouths(self, synthesizer: Synthesizer | None) -> Sequence[Synthesizer]:
        """Return the synthesizers that can say other words now, the best first.

        These are words that no model says by itself, such as a greeting or a fallback
        line.
        """
        return () if synthesizer is None else (synthesizer,)

    @property
    def idle(self) -> bool:
        """True if the engine hears no microphone and its model is owed nothing."""
        return True

    def tier(self, selected: Tier, ceiling: Tier, override: Tier | None) -> Tier:
        """Return the tier of a turn whose words call for ``selected``."""
        return min(selected, ceiling)

    @property
    def may_speculate(self) -> bool:
        """True if a turn begins with the request that a speculation makes."""
        return False

    @property
    def live(self) -> RealtimeConversation | None:
        """The conversation with a model that hears and speaks, or None."""
        return None

    async def answer(
        self, turn: TurnState, utterance: Utterance, understood: Understood
    ) -> None:
        """Answer once, within the turn's limits. Cancelling interrupts it."""
        raise NotImplementedError

    async def converse(self) -> None:
        """Run the engine's work beside the turns, until it is cancelled or closed."""

    def configure(self, settings: SessionSettings, links: Links) -> bool:
        """Use these settings from now on; return False if they need a new engine."""
        raise NotImplementedError

    def instruct(self) -> None:
        """Use the changed prompt."""

    def close(self) -> None:
        """Stop: another engine answers from now on."""

    def elevated(self) -> None:
        """Use the changed ceiling: the slowest permitted tier."""

    def ignore_speech(self) -> None:
        """Begin no more turns from speech, because the session is ending."""

    # Beside the turns.

    def overhear(self, line: Overheard) -> None:
        """Take note of words that were said to another listener."""

    def told_elsewhere(self, exchange: Exchange) -> None:
        """Take note of words of the NPC that are not the engine's.

        These are the DM's words, or the greeting.
        """

    def lend(self, name: str, speaker: str, microphone: Microphone) -> bool:
        """Hear this speaker from now on; return False if the engine cannot hear.

        Raises:
          MicrophoneTaken: another microphone is attached.
        """
        return False

    def take_back(self, name: str) -> None:
        """Stop hearing the microphone with this name."""

    # Of one utterance.

    def asks(self, utterance: Utterance) -> bool:
        """Return True if the model must be asked to answer this utterance."""
        return True

    async def wait_transcript(self, utterance: Utterance) -> None:
        """Wait a short time for the words, if they decide how the turn is answered."""

    def decline(self, utterance: Utterance) -> None:
        """Drop the utterance: it is not answered and causes no further cost."""

    def over(self, utterance: Utterance) -> None:
        """Take note that the utterance's turn has ended, or was never begun."""
