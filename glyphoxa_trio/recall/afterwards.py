"""The work after an evening: its summaries are written, and facts extracted.

Each audience, the NPCs that heard exactly the same, gets a summary of what it heard.
Everything that was made of an evening is written at its end, facts first: an evening
has a summary if it is done. If no answer of the model can be read, the summary only
says who spoke, and the model is asked once more, an hour later. A model that does not
answer is asked again later, at longer and longer intervals, in whatever program. Each
evening is leased meanwhile, so that no other program pays for the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.config.memory import MemoryConfig
from glyphoxa_trio.errors import said
from glyphoxa_trio.memory.contract import FoundLine, Memory
from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import Fact
from glyphoxa_trio.memory.visibility import (
    GAME_MASTER,
    NO_NPC,
    CampaignKey,
    Reach,
    Viewer,
)
from glyphoxa_trio.providers.llm import (
    LLM,
    ErrorKind,
    Finished,
    LLMError,
    LLMRequest,
    TextChunk,
    Usage,
    Working,
)
from glyphoxa_trio.units import many

from .checking import checked
from .extraction import (
    MOST_ANSWER,
    Audience,
    Extracted,
    UnreadableAnswer,
    again,
    audiences,
    pieces,
    read,
    request_of,
    without_model,
)
from .mentions import Mentions

MOST_LINES: Final = 4000  # of an evening; those before are left out
MOST_PIECES: Final = 20  # of what one audience heard
PATIENCE: Final = 300.0  # seconds for one answer; a model on this machine is slow
EVERY: Final = 30.0  # seconds between two looks for evenings that have ended
MOST_ATTEMPTS: Final = 5  # at one answer, if turns need its place at the server
_LOOKS: Final = 0.05  # seconds between two looks whether a turn does
_WRITING: Final = 10.0
_FIRST_PAUSE: Final = 60.0  # seconds after a model that did not answer
_LONGEST_PAUSE: Final = 3600.0  # and after one whose answer could not be read

Evening = tuple[CampaignKey, str]


async def _at_once() -> None: ...


@attrs.define(eq=False)
class Afterwards:
    """A task that summarises evenings which have ended, one at a time.

    Args:
      memory: the store.
      model: the model that is asked; with None the summaries only say who spoke.
      config: facts with a confidence of ``accept_above`` are accepted.
      now: returns the time, in Unix time.
      charge: called with the tokens of each answer.
      warn: called with what went wrong, in words.
      idle: returns when no turn runs; a request begins only then.
      crowded: returns True while a turn waits for a place at a model's server; then a
        request that runs is given up, and made again later.
      changed: called with a campaign to which entities or facts were added.
      stock: returns the lines that NPCs say when their models do not: nothing is made
        of them.
    """

    memory: Memory
    model: LLM | None
    config: MemoryConfig
    now: Callable[[], float]
    charge: Callable[[Usage], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    idle: Callable[[], Awaitable[None]] = _at_once
    crowded: Callable[[], bool] = lambda: False
    changed: Callable[[CampaignKey], None] = lambda _: None
    stock: Callable[[], Collection[str]] = frozenset
    _reported: set[Evening] = attrs.field(factory=set, init=False)
    # Leases that could not be given back, with when to try again.
    _unreturned: dict[Evening, float | None] = attrs.field(factory=dict, init=False)

    async def run(self) -> None:
        """Summarise evenings as they end, until cancelled."""
        while True:
            await self.once()
            await trio.sleep(EVERY)

    async def once(self) -> int:
        """Summarise the evenings that have ended by now, and return how many.

        What goes wrong is a warning, and tried again by a later call. Cancelled, it has
        written an evening as a whole or not at all.
        """
        done = 0
        before = self.now()
        try:
            for one in list(self._unreturned):
                await self._return(one)
            due = await self.memory.transcripts.unsummarised(before=before)
        except Exception as error:  # border: the store may be anything
            self.warn(f"no session can be summarised: {said(error)}")
            return 0
        for one in due:
            try:
                done += bool(await self.summarise(*one, before=before))
            except Exception as error:  # border: so may the model
                if one not in self._reported:  # the others are the same
                    self._reported.add(one)
                    self.warn(
                        f"the session {one[1]} of {one[0]} has no summary yet, and is"
                        f" tried again: {said(error)}"
                    )
        return done

    async def summarise(
        self, campaign: CampaignKey, evening: str, *, before: float | None = None
    ) -> bool | None:
        """Summarise an evening, and return whether the model's answers could be read;
        None if another program is at it.

        Args:
          before: only if it is to be summarised by then; None asks the model anew,
            whatever summaries there are.

        Raises:
          Exception: the model or the store failed; it is tried again later.
        """
        transcripts, one = self.memory.transcripts, (campaign, evening)
        put_off = await transcripts.lease_summary(campaign, evening, before=before)
        if put_off is None:
            return None
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(put_off, 10))
        try:
            known = await transcripts.evening(campaign, GAME_MASTER, evening)
            readable = await self._evening(campaign, evening, anew=before is None)
            pause = 0.0 if readable or known.summary else _LONGEST_PAUSE
        finally:
            self._unreturned[one] = self.now() + pause if pause else None
            with trio.move_on_after(_WRITING, shield=True):
                await self._return(one)
        return readable

    async def _return(self, one: Evening) -> None:
        """Give a lease back; if that fails, `once` tries it again."""
        await self.memory.transcripts.end_lease(*one, until=self._unreturned[one])
        del self._unreturned[one]

    async def _evening(
        self, campaign: CampaignKey, evening: str, *, anew: bool
    ) -> bool:
        lines = await self._lines(campaign, evening)
        readable = True
        summaries: list[tuple[Reach, str]] = []
        mentions = await Mentions.of(
            self.memory, campaign, lines, accept_above=self.config.accept_above
        )
        facts: list[Fact] = []
        covered: list[frozenset[int]] = []  # by the facts of earlier audiences
        for audience in audiences(lines) if lines else ():
            heard = [lines[at] for at in audience.lines]
            known = await self._known(campaign, evening, audience.reach)
            if anew or known in ("", without_model(heard)):
                text, found = await self._audience(
                    evening, lines, audience, mentions, covered
                )
                if text or not known:
                    told = text or without_model(heard)
                    summaries.append((audience.reach, told))
                readable = readable and bool(text or self.model is None)
                facts += found
            covered.append(frozenset(audience.lines))
        if not lines:
            summaries.append((NO_NPC, without_model(lines)))
        with trio.fail_after(_WRITING) as scope:
            scope.shield = True
            # What a player had removed meanwhile must not come back.
            if await self._lines(campaign, evening) != lines:
                raise RuntimeError("its lines changed meanwhile")
            if facts:
                entities = mentions.entities(facts)
                await self.memory.graph.put(campaign, entities=entities, facts=facts)
                self.changed(campaign)
            for reach, text in summaries:
                await self.memory.transcripts.set_summary(
                    campaign, evening, text, reach
                )
        return readable

    async def _known(self, campaign: CampaignKey, evening: str, reach: Reach) -> str:
        """Return the summary of that reach; "" if there is none."""
        who = "" if reach.npcs is None else min(reach.npcs, default=None)
        found = await self.memory.transcripts.evening(campaign, Viewer(who), evening)
        return found.summary if found.reach == reach else ""

    async def _lines(
        self, campaign: CampaignKey, evening: str
    ) -> tuple[FoundLine, ...]:
        lines = await self.memory.transcripts.recent(
            campaign, GAME_MASTER, evening=evening, limit=MOST_LINES
        )
        stock = self.stock()
        return tuple(x for x in lines if x.line.player or x.line.text not in stock)

    async def _audience(
        self,
        evening: str,
        lines: Sequence[FoundLine],
        audience: Audience,
        mentions: Mentions,
        covered: Sequence[frozenset[int]],
    ) -> tuple[str, list[Fact]]:
        """Return the summary for an audience, and the facts that are new with it; "" if
        no answer could be read."""
        heard = {at + 1: lines[at] for at in audience.lines}
        if self.model is None:
            return "", []
        summary, facts, odd, unread = "", list[Fact](), 0, 0
        for places, text in pieces(lines, audience.lines)[-MOST_PIECES:]:
            found = await self._asked(self.model, request_of(text, summary))
            if found is None:
                unread += 1
                continue
            summary, odd = found.summary, odd + found.odd
            here = {at + 1: heard[at + 1] for at in places}
            for one in found.facts:
                named = {n - 1 for n in one.lines if n in here}
                # A larger audience heard all of it, and the facts reach this one too.
                if named and any(named <= others for others in covered):
                    continue
                try:
                    fact = checked(
                        one,
                        here,
                        audience,
                        evening=evening,
                        accept_above=self.config.accept_above,
                        heard=heard,
                    )
                    facts.append(await mentions.link(fact, one.about))
                except KnowledgeRefused:
                    odd += 1
        if unread or odd:
            self.warn(
                f"the session {evening}: {many(unread, 'answer')} of"
                f" {self.model.label} could"
                f" not be read, and {many(odd, 'fact was', 'facts were')} left out"
                " of the others"
            )
        return summary, facts

    async def _asked(self, model: LLM, request: LLMRequest) -> Extracted | None:
        """Return the model's answer, asked twice at most; None if it is unreadable."""
        answer = await self._answer(model, request)
        try:
            return read(answer)
        except UnreadableAnswer:
            answer = await self._answer(model, again(request, answer))
        try:
            return read(answer)
        except UnreadableAnswer:
            return None

    async def _answer(self, model: LLM, request: LLMRequest) -> str:
        """Return an answer as text.

        Raises:
          LLMError: the model did not answer, or not within `PATIENCE`; or turns needed
            its place each time.
        """
        for _ in range(MOST_ATTEMPTS):
            await self.idle()
            answer: str | None = None
            with lone_errors():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._give_way, nursery.cancel_scope)
                    answer = await self._whole_answer(model, request)
                    nursery.cancel_scope.cancel("it has answered")
            if answer is not None:
                return answer
        raise LLMError(ErrorKind.OVERLOADED, "turns needed its place each time")

    async def _give_way(self, request: trio.CancelScope) -> None:
        """Give up a request when a turn needs its place."""
        while not self.crowded():  # noqa: ASYNC110 - counted in many places
            await trio.sleep(_LOOKS)
        request.cancel("a turn needs its place")

    async def _whole_answer(self, model: LLM, request: LLMRequest) -> str:
        text: list[str] = []
        size = 0
        with trio.move_on_after(PATIENCE) as patience:
            async with model.stream(request) as events:
                async for event in events:
                    match event:
                        case TextChunk(chunk) if size < MOST_ANSWER:
                            text.append(chunk)
                            size += len(chunk)
                        case Working(unsaid=True):
                            text.clear()
                        case TextChunk():
                            break  # it does not end; what is paid is what was sent
                        case Finished(usage=Usage() as usage):
                            name = usage.model or model.label
                            self.charge(attrs.evolve(usage, model=name))
        if patience.cancelled_caught:
            raise LLMError(ErrorKind.TURN, f"no whole answer within {PATIENCE:.0f} s")
        return "".join(text)
