"""What answers an NPC's turns: one for all that is written, one that hears and speaks.

The runner knows this class alone; what it does is what an engine does that has nothing
to keep between turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

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


class MicrophoneTaken(GlyphoxaError):
    """A speech-to-speech model hears one microphone at a time."""


def _nobody() -> None:
    pass


@attrs.define(eq=False)
class Microphone:
    """A speaker whom the model of an NPC hears. Handed over to its session.

    Args:
      spoken: told of each turn that this begins, by whoever listens to it.
      interrupted: whoever plays what the NPC says is told when the speaker goes on.
      gone: the model does not hear the speaker any more, because another configuration
        lets the NPC hear in another way.
    """

    spoken: Callable[[Listener], None]
    interrupted: Callable[[], None] = _nobody
    gone: Callable[[], None] = _nobody
    live: RealtimeConversation | None = attrs.field(default=None, init=False)

    def reaches(self, live: RealtimeConversation) -> None:
        """What it hears goes there."""
        self.live = live


Understood = Callable[[str], Awaitable[None]]
"""Told of the final words of a turn, if they come only when it has begun."""


@attrs.define(eq=False)
class TurnEngine:
    """How one NPC answers, from one configuration to the next of the same kind."""

    @property
    def speaks(self) -> bool:
        """Whether it gives out audio itself."""
        return False

    def mouths(self, synthesizer: Synthesizer | None) -> Sequence[Synthesizer]:
        """Who can say now what no model says by itself, the best first."""
        return () if synthesizer is None else (synthesizer,)

    @property
    def idle(self) -> bool:
        """Whether it hears nobody, and nothing is owed to its model."""
        return True

    def tier(self, selected: Tier, ceiling: Tier, override: Tier | None) -> Tier:
        """The tier of a turn whose words call for ``selected``."""
        return min(selected, ceiling)

    @property
    def may_speculate(self) -> bool:
        """Whether a turn begins with the request that a speculation makes."""
        return False

    @property
    def live(self) -> RealtimeConversation | None:
        """Its conversation with a model that hears and speaks."""
        return None

    async def answer(
        self, turn: TurnState, utterance: Utterance, understood: Understood
    ) -> None:
        """Answer once, inside the limits of the turn. Cancelling interrupts it."""
        raise NotImplementedError

    async def converse(self) -> None:
        """Do what goes on beside the turns, until cancelled or closed."""

    def configure(self, settings: SessionSettings, links: Links) -> bool:
        """Go by these from the next turn on; False if that needs another engine."""
        raise NotImplementedError

    def instruct(self) -> None:
        """The prompt is another one."""

    def close(self) -> None:
        """Another engine answers from now on."""

    def elevated(self) -> None:
        """The slowest tier that may be used is another one for a while."""

    def ignore_speech(self) -> None:
        """The session is ending: nothing that is heard from now on is a turn."""

    # Beside the turns.

    def overhear(self, line: Overheard) -> None:
        """Somebody has said something to somebody else."""

    def told_elsewhere(self, exchange: Exchange) -> None:
        """The NPC says words that are not the engine's: the DM's, or its greeting."""

    def lend(self, name: str, speaker: str, microphone: Microphone) -> bool:
        """Hear this speaker from now on; False if it does not hear.

        Raises:
          MicrophoneTaken: it hears somebody already.
        """
        return False

    def take_back(self, name: str) -> None:
        """Hear nobody, if it was this one."""

    # Of one utterance.

    def asks(self, utterance: Utterance) -> bool:
        """Whether its model waits to be asked for the answer."""
        return True

    async def wait_transcript(self, utterance: Utterance) -> None:
        """Wait a little for the words, if the turn is to be chosen by them."""

    def decline(self, utterance: Utterance) -> None:
        """It is not to be answered, and costs nothing more than it has."""

    def over(self, utterance: Utterance) -> None:
        """Its turn has ended, or was never begun."""
