"""Start and end a session's speculations, one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

import trio

from glyphoxa_trio.config.model import SpeculationConfig
from glyphoxa_trio.npc.events import SpeculationDone, SpeculationEnd
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.npc.turn.speculation import SpeculatedRequest, Speculation
from glyphoxa_trio.npc.words import words_of
from glyphoxa_trio.providers.llm import Usage


@attrs.define(eq=False, kw_only=True)
class Speculator:
    """The owner of one session's speculation.

    Args:
      id: the NPC.
      config: when to speculate.
      foresee: returns the request of a turn that begins now, with these words of that
        speaker.
      busy: returns True if the machine has no time for work that may be wasted.
      told: called with each end; must not block.
      spent: called with the turn, or 0 if no turn adopted the speculation, and with the
        model's usage.
    """

    id: NpcId
    config: SpeculationConfig
    foresee: Callable[[str, str], Awaitable[SpeculatedRequest]]
    busy: Callable[[], bool]
    told: Callable[[SpeculationDone], None]
    spent: Callable[[int, Usage], None]
    _now: Speculation | None = attrs.field(default=None, init=False)
    _heard: tuple[str, tuple[str, ...]] | None = attrs.field(default=None, init=False)
    _heard_at: float = attrs.field(default=0.0, init=False)
    _begun: int = attrs.field(default=0, init=False)  # since the speaker began
    # Held while a model is asked, which may be slow to close its request.
    _asking: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def configure(self, config: SpeculationConfig) -> None:
        """Use this configuration from the next partial transcript on."""
        self.config = config

    @property
    def reserved(self) -> Speculation | None:
        """The speculation whose words were said, for the turn that runs."""
        return self._now if self._now is not None and self._now.turn else None

    def hear(self, nursery: trio.Nursery, text: str, speaker: str) -> None:
        """Handle a partial transcript; not called while a turn runs.

        The work is done in ``nursery``.
        """
        if not self.config.enabled:
            return
        now, words = trio.current_time(), words_of(text)
        if now - self._heard_at > self.config.expires:
            # the speaker said nothing in the end; this is a new utterance
            self._begun = 0
        self._heard_at = now
        if (speaker, words) == self._heard:
            return
        self._heard = speaker, words
        self._end(SpeculationEnd.DIVERGED)
        enough = len(words) >= self.config.min_words
        if enough and self._begun < self.config.per_utterance:
            self._now = Speculation(text, speaker, self._tell)
            nursery.start_soon(self._run, self._now)

    def meet(self, text: str, speaker: str, turn: int) -> None:
        """Keep the speculation for the turn that begins, if it has the same words."""
        self._heard, self._begun = None, 0
        ahead = self._now
        if ahead is not None and (speaker, words_of(text)) != (
            ahead.speaker,
            ahead.words,
        ):
            self._end(SpeculationEnd.DIVERGED)
        elif ahead is not None and not ahead.reserve(turn):
            self._end(SpeculationEnd.DISCARDED, "it had not begun")

    def over(self) -> None:
        """Record that the turn has ended."""
        if self._now is not None and self._now.turn:
            self._now.over()
            self._now = None

    def drop(self, reason: str) -> None:
        """Drop a speculation that no turn has reserved."""
        self._heard = None
        if self.reserved is None:
            self._end(SpeculationEnd.DISCARDED, reason)

    def _end(self, end: SpeculationEnd, reason: str = "") -> None:
        if self._now is not None:
            self._now.finish(end, reason)
            self._now = None

    async def _run(self, ahead: Speculation) -> None:
        """Run one speculation until its end."""
        try:
            with ahead.scope:
                await trio.sleep(self.config.after)
                async with self._asking:
                    if self.busy():
                        self._heard = None  # the next partial transcript may try again
                        return
                    foreseen = await self.foresee(ahead.text, ahead.speaker)
                    if ahead.end is not None:  # it ended while the request was prepared
                        return
                    self._begun += 1
                    ahead.scope.deadline = trio.current_time() + self.config.expires
                    await ahead.play(foreseen)
            ahead.finish(SpeculationEnd.EXPIRED)  # unless it has ended otherwise
        except Exception as error:  # border: the link failed while it was closed
            ahead.finish(SpeculationEnd.FAILED, type(error).__name__)
        finally:
            ahead.finish(SpeculationEnd.DISCARDED, "the session ended")

    def _tell(self, ahead: Speculation, end: SpeculationEnd, reason: str) -> None:
        assert ahead.foreseen is not None
        now = trio.current_time()
        calls = ahead.foreseen.ahead.statistics()
        model = (ahead.model_ended or now) - ahead.began
        turn = ahead.turn if end is SpeculationEnd.ADOPTED else 0
        if ahead.usage is not None:
            self.spent(turn, ahead.usage)
        self.told(
            SpeculationDone(
                **self.id.of(turn),
                end=end,
                reason=reason,
                head_start=ahead.head_start,
                calls=calls.begun,
                calls_used=calls.used,
                wasted=calls.waste + (0.0 if ahead.claimed is not None else model),
            )
        )
