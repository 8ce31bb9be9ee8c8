"""One fan-out of a turn: all calls of one response, within the turn's remaining time.

    approval (no clock runs) ── start: clock, fillers ── run: events ── tell: a summary

No clock runs during approval, because a person needs longer than a tool may.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from math import inf

import attrs

import trio

from glyphoxa_trio.host import Caller, CatalogueEntry, RunsCalls, VisibleTools
from glyphoxa_trio.npc.conversation import Round
from glyphoxa_trio.npc.events import FanOutDone, Filler, ToolFinished, ToolStarted
from glyphoxa_trio.npc.filler import Awaiting
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import Tier

from .state import TurnState


@attrs.define(eq=False, kw_only=True)
class ToolRound:
    """The calls of one response.

    Args:
      turn: the turn.
      round_: keeps their outcomes, in the order of the calls.
      index: the number of the round in the turn, from 0.
      calls: the calls.
      showing: the visible tools of the model.
      tier: returns the slowest tier that a call may use at this moment.
      last: whether the model may call no more, so that no call is run.
    """

    turn: TurnState
    round_: Round
    index: int
    calls: Sequence[ToolCall]
    showing: VisibleTools
    tier: Callable[[], Tier]
    last: bool = False
    _approved: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _may_write: bool = attrs.field(default=True, init=False)
    _epoch: int = attrs.field(default=0, init=False)
    _awaiting: Awaiting | None = attrs.field(default=None, init=False)
    _ended: list[int] = attrs.field(factory=list, init=False)
    _budget: float = attrs.field(default=0.0, init=False)
    _elapsed: float = attrs.field(default=0.0, init=False)

    async def run(self, fan_out: RunsCalls) -> list[Outcome]:
        """Run the calls and return their outcomes.

        If this is cancelled, running calls are treated by their tool's policy, and
        every call still has its outcome.
        """
        turn, clock = self.turn, self.turn.tool_clock
        try:
            await self._approve()
        except BaseException:
            if trio.current_effective_deadline() == -inf:  # interrupted: none begins
                await fan_out(self.calls, self._caller(), deadline=-inf, remaining=0.0)
            raise
        begun = trio.current_time()
        self._budget = clock.remaining(begun)
        if (log := turn.output.log) is not None:
            # Before the effects are logged: a claim made later is not this call's.
            self._epoch = log.epoch(turn.output.id.session)
        if turn.fillers is not None and not self.last:
            self._awaiting = turn.fillers.awaiting(
                self._possible, self.showing.shown, self.tier(), self._budget
            )
        if self._awaiting is not None:
            self._awaiting.begin(turn.nursery, self._say)
        deadline = clock.start(begun)
        try:
            await self._log()
            return await fan_out(
                self.calls, self._caller(), deadline=deadline, remaining=self._budget
            )
        finally:
            ended = trio.current_time()
            clock.stop(ended)
            self._elapsed = ended - begun

    async def _log(self) -> None:
        """Keep that calls with side effects begin: if this process dies before their
        end, the model is told that their effect is unknown."""
        output = self.turn.output
        if output.log is None or self.last:
            return
        keys = {  # a model may call a tool by its key as well
            name: x.key
            for x in self.showing.shown
            if x.definition.side_effects
            for name in (x.exposed, x.key)
        }
        calls = [(x, keys[x.name]) for x in self._possible if x.name in keys]
        if calls:
            said = output.utterance.id
            self._may_write = await output.log.effects_begin(
                output.id, output.turn, calls, said
            )

    async def tell(self) -> None:
        """Deliver the summary of the fan-out."""
        turn = self.turn
        of_this = self.round_.outcomes[-len(self._ended) :] if self._ended else ()
        await turn.emit(
            FanOutDone(
                **turn.of,
                round=self.index,
                tier=turn.tier,
                shown=len(self.showing.shown),
                budget=self._budget,
                elapsed=self._elapsed,
                outcomes=tuple(of_this),
            )
        )

    @property
    def _possible(self) -> Sequence[ToolCall]:
        return self.calls[: self.turn.config.max_calls]

    async def _approve(self) -> None:
        # Approval is not requested for calls that the gate refuses in any case.
        names = {} if self.last else {x.exposed for x in self.showing.shown}
        self._approved = await self.turn.approve(
            [call for call in self._possible if call.name in names]
        )

    def _caller(self) -> Caller:
        turn, speculation = self.turn, self.turn.speculation
        return Caller(
            grant=turn.grant,
            tier=self.tier(),
            still=lambda: (turn.grant, self.tier()),
            npc=turn.output.id.npc,
            session=turn.output.id.session.id,
            tenant=turn.output.id.session.tenant,
            epoch=self._epoch,
            max_calls=0 if self.last else turn.config.max_calls,
            unknown_effects=turn.calls.unknown_effects,
            questions=turn.calls.questions,
            pending=turn.memory.pending,
            approved=self._approved,
            may_write=self._may_write,
            showing=self.showing,
            ahead=None if speculation is None else speculation.ahead,
            on_start=self._started,
            on_outcome=self._finished,
            on_paused=turn.tool_clock.forgive,
            on_left=turn.memory.leave,
            on_late=turn.keep_late,
        )

    def _started(self, slot: int, listing: CatalogueEntry) -> None:
        turn = self.turn
        turn.memory.shelf.use(listing.key)
        turn.post(
            ToolStarted(
                **turn.of,
                call=self.calls[slot],
                tool=listing.key,
                round=self.index,
            )
        )

    def _finished(self, slot: int, outcome: Outcome) -> None:
        turn = self.turn
        insort(self._ended, slot)
        after = len(self._ended) - self._ended.index(slot)
        outcomes = self.round_.outcomes
        outcomes.insert(len(outcomes) + 1 - after, outcome)
        if self._awaiting is not None:
            self._awaiting.ended(slot)
        turn.post(ToolFinished(**turn.of, outcome=outcome, round=self.index))

    def _say(self, text: str) -> None:
        turn = self.turn
        turn.post(Filler(**turn.of, text=text, round=self.index))
