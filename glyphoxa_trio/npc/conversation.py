"""What an NPC and its players have said: a bounded history (D12a).

A turn is recorded while it runs. Only what was delivered is remembered of the
NPC's words; every tool call is remembered together with its answer. What others said
to each other stands before the next thing that is said to this NPC. Above 300 lines:
what is heard, remembered and told is one story.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import attrs

from glyphoxa_trio.providers.llm import Message, Verbatim
from glyphoxa_trio.providers.s2s import TranscriptLine
from glyphoxa_trio.tools.arguments import InvalidArguments, load
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.speech import outcome_text

from .overheard import Overheard, aside_of
from .snapshot import CallSnapshot, ExchangeSnapshot, RoundSnapshot
from .spoken_audio import SpokenAudio


@attrs.define(eq=False)
class Round:
    """One response of the model within a turn: its sentences, calls and answers.

    So many sentences were ``delivered`` as text. ``by_ear``: what was heard of them,
    if somebody says what was played. ``verbatim`` is told to the model while the turn
    goes on; afterwards only what was heard counts.
    """

    sentences: list[str] = attrs.field(factory=list)
    delivered: int = 0
    by_ear: list[str] | None = None
    outcomes: list[Outcome] = attrs.field(factory=list)
    verbatim: Verbatim | None = None
    _echoes: list[ToolCall] = attrs.field(factory=list, init=False)
    _answers: list[Message] = attrs.field(factory=list, init=False)

    @property
    def heard(self) -> list[str]:
        """What counts as delivered (D12a)."""
        return self.sentences[: self.delivered] if self.by_ear is None else self.by_ear

    @classmethod
    def restored(cls, kept: RoundSnapshot) -> Round:
        """One of a turn that is over, as `snapshot` had it."""
        round_ = cls([*kept.heard], delivered=len(kept.heard))
        round_._echoes = [x.call for x in kept.calls]
        round_._answers = [_answer(x.call, x.answer) for x in kept.calls]
        return round_

    def snapshot(self) -> RoundSnapshot:
        """What is kept of it."""
        self._tell()
        told = zip(self._echoes, self._answers, strict=True)
        calls = (CallSnapshot(call, answer.content) for call, answer in told)
        return RoundSnapshot(tuple(self.heard), tuple(calls))

    def echo(self, verbatim: Verbatim | None) -> None:
        """The model has written it so, while its turn goes on."""
        self.verbatim = verbatim

    def messages(self, *, heard_only: bool) -> Iterator[Message]:
        said = self.heard if heard_only else self.sentences
        self._tell()
        if said or self._echoes:
            yield Message(
                role="assistant",
                content=" ".join(said),
                calls=tuple(self._echoes),
                verbatim=None if heard_only else self.verbatim,
            )
        yield from self._answers

    def _tell(self) -> None:
        # A history is told in every round, and writing all of it anew would be
        # most of what a turn costs. Outcomes are only ever added.
        for outcome in self.outcomes[len(self._answers) :]:
            self._echoes.append(_echo(outcome.call))
            self._answers.append(_answer(outcome.call, outcome_text(outcome)))


@attrs.define(eq=False)
class Exchange:
    """One turn: what was said to the NPC, and its rounds.

    ``aloud`` is its audio, if there is any. From the first report of what was played on
    it is that which counts as delivered; of what a model says by itself what the
    listener took counts before that.
    ``asked``: something was said to it; else it speaks by itself. ``overheard`` since
    the last turn; ``context`` is known for this turn, and no longer.
    """

    speaker: str
    text: str
    rounds: list[Round] = attrs.field(factory=list)
    aloud: SpokenAudio | None = None
    _reported: bool = attrs.field(default=False, init=False)
    asked: bool = attrs.field(default=True, kw_only=True)
    overheard: deque[Overheard] = attrs.field(factory=deque, kw_only=True)
    context: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    # What calls of earlier, interrupted turns came to, told with this utterance.
    late: tuple[Outcome, ...] = ()
    _late: str = attrs.field(default="", init=False)  # the same in words
    # What a later turn is told of this one, until more of it is heard or forgotten.
    _past: tuple[Message, ...] | None = attrs.field(default=None, init=False)

    @classmethod
    def restored(cls, kept: ExchangeSnapshot) -> Exchange:
        """One that is over, as `snapshot` had it."""
        exchange = cls(
            kept.speaker,
            kept.text,
            [Round.restored(x) for x in kept.rounds],
            asked=kept.asked,
            overheard=deque(kept.overheard),
        )
        exchange._late = kept.late
        return exchange

    def snapshot(self) -> ExchangeSnapshot:
        """What is kept of it, as far as it was heard by now."""
        return ExchangeSnapshot(
            speaker=self.speaker,
            text=self.text,
            asked=self.asked,
            overheard=tuple(self.overheard),
            late=self._what_came_late(),
            rounds=tuple(x.snapshot() for x in self.rounds),
        )

    def is_aloud(self, aloud: SpokenAudio) -> None:
        """This is what is said aloud of it."""
        self.aloud = aloud

    def understood(self, text: str) -> None:
        """These are the words that were spoken, as far as they are known."""
        self.text = text

    def tells(self, late: tuple[Outcome, ...]) -> None:
        """Calls of earlier turns came to this."""
        self.late = late

    def knows(self, context: tuple[str, ...]) -> None:
        self.context = context

    def taken(self, seconds: float) -> None:
        """The listener has taken so much more audio; nothing if they say themselves
        what was played."""
        if self.aloud is not None and not self._reported:
            self.aloud.take(seconds)
            self.hear()

    def lines(self) -> Iterator[TranscriptLine]:
        """Who said what, as far as it was heard."""
        for line in self.overheard:
            yield TranscriptLine("user", f"({line})")
        if self.text and self.asked:
            yield TranscriptLine("user", self.text)
        if self.heard:
            yield TranscriptLine("assistant", self.heard)

    def begin_round(self) -> Round:
        self._past = None
        by_ear = self._reported and self.aloud is not None
        self.rounds.append(Round(by_ear=[] if by_ear else None))
        return self.rounds[-1]

    def delivered(self, round_index: int) -> None:
        """The next sentence of that round has been heard."""
        self.rounds[round_index].delivered += 1
        self.hear()

    def played(self, seconds: float) -> None:
        """So much of its audio was heard in all; nothing if it has none."""
        first, self._reported = not self._reported, True
        if self.aloud is not None:
            if first:
                self.aloud.playback.begin()
            self.aloud.playback.played(seconds)
        self.hear()

    def hear(self) -> None:
        """Something has changed of what was said or heard."""
        self._past = None
        if self.aloud is None:
            return
        for at, part in enumerate(self.rounds):
            if self._reported or self.aloud.is_spoken(at):
                part.by_ear = self.aloud.heard(at, part.sentences, part.delivered)

    @property
    def known(self) -> str:
        """The context of this turn, in words; empty without any."""
        return aside_of((), self.context)

    @property
    def unplayed(self) -> float:
        """Seconds that are still to be heard, if somebody says what was played."""
        return self.aloud.playback.left if self._reported and self.aloud else 0.0

    @property
    def written(self) -> str:
        return " ".join(s for r in self.rounds for s in r.sentences)

    @property
    def heard(self) -> str:
        return " ".join(s for r in self.rounds for s in r.heard)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(outcome for r in self.rounds for outcome in r.outcomes)

    def past(self) -> tuple[Message, ...]:
        """What a later turn is told of this one, which is over. Kept: a history is told
        in every round, and to build all of it anew would be a sixth of a turn."""
        if self._past is None:
            self._past = tuple(self.messages(heard_only=True))
        return self._past

    def forget_oldest(self) -> None:
        """Forget the first line that was overheard before it."""
        self._past = None
        self.overheard.popleft()

    def messages(self, *, heard_only: bool) -> Iterator[Message]:
        if news := self._what_came_late():
            # Providers tell it at its place, marked as data (`providers.shaping`):
            # what a tool has said is no part of the prompt.
            yield Message(
                role="system", content=f"What went on by itself has ended:\n{news}"
            )
        aside = aside_of(self.overheard, () if heard_only else self.context)
        if aside:
            yield Message(role="user", content=aside)
        if self.asked:
            yield Message(role="user", content=self.text, name=self.speaker)
        for part in self.rounds:
            yield from part.messages(heard_only=heard_only)

    def _what_came_late(self) -> str:
        if self.late and not self._late:
            self._late = "\n".join(
                f"{outcome.call.name}: {outcome_text(outcome, cap=2048)}"
                for outcome in self.late
            )
        return self._late


@attrs.define(eq=False)
class Conversation:
    """The last ``limit`` exchanges, and the one that is going on.

    Args:
      opening: what stands before everything: the prompt, a greeting.
      most_overheard: so many lines of others are remembered, all in all.
    """

    opening: tuple[Message, ...]
    limit: int
    most_overheard: int = 0
    _past: deque[Exchange] = attrs.field(init=False)
    _news: deque[Overheard] = attrs.field(factory=deque, init=False)
    _newest: deque[Overheard] = attrs.field(factory=deque, init=False)  # of the turn

    def __attrs_post_init__(self) -> None:
        self._past = deque(maxlen=self.limit)

    def add(self, exchange: Exchange) -> None:
        """Remember a turn that has ended; the oldest beyond the limit is forgotten.

        The exchange stays live: what its listener hears later still counts.
        """
        for round_ in exchange.rounds:
            round_.verbatim = None  # it may be long, and nobody is told it any more
        self._past.append(exchange)
        if exchange.overheard is self._newest:
            self._newest = deque()
        self._forget()

    def begin_with(self, *opening: Message, limit: int, most_overheard: int) -> None:
        """Another opening, and another memory; what was said stays said."""
        self.opening = opening
        self.limit, self.most_overheard = limit, most_overheard
        self._past = deque(self._past, maxlen=limit)
        self._forget()

    def restore(
        self, history: Iterable[ExchangeSnapshot], overheard: Iterable[Overheard]
    ) -> None:
        """Remember these turns, and what was overheard since."""
        self._past.extend(Exchange.restored(x) for x in history)
        self._news.extend(overheard)
        self._forget()

    def snapshot(self) -> tuple[ExchangeSnapshot, ...]:
        """The turns that have ended."""
        return tuple(exchange.snapshot() for exchange in self._past)

    def overhear(self, line: Overheard) -> None:
        """Remember what somebody said to somebody else."""
        self._news.append(line)
        self._forget()

    @property
    def news(self) -> tuple[Overheard, ...]:
        """What was overheard since the last turn."""
        return tuple(self._news)

    @property
    def untold(self) -> tuple[Overheard, ...]:
        """What was overheard since the last turn that has ended."""
        return (*self._newest, *self._news)

    def tell_news(self, exchange: Exchange) -> None:
        """What was overheard since the last turn is known in this one."""
        exchange.overheard, self._news = self._news, deque()
        self._newest = exchange.overheard

    def _forget(self) -> None:
        """The oldest of what was overheard goes first."""
        too_many = len(self._news) - self.most_overheard
        too_many += sum(len(exchange.overheard) for exchange in self._past)
        for exchange in self._past:
            while too_many > 0 and exchange.overheard:
                exchange.forget_oldest()
                too_many -= 1
        while too_many > 0 and self._news:
            self._news.popleft()
            too_many -= 1

    def prompt(self, current: Exchange, *, notice: str = "") -> tuple[Message, ...]:
        """All messages for the next round of ``current``.

        Args:
          notice: said at the end of the opening prompt, for this round. There,
            and not as a message of its own: some models take only one system
            message, and only as the first.
        """
        past: Iterable[Message] = (
            message for exchange in self._past for message in exchange.past()
        )
        opening = _with_notice(self.opening, notice) if notice else self.opening
        return (*opening, *past, *current.messages(heard_only=False))

    @property
    def prompt_text(self) -> str:
        """Who the NPC is, in words."""
        told = [m.content for m in self.opening if m.role == "system"]
        return "\n\n".join(told)

    def lines(self) -> tuple[TranscriptLine, ...]:
        """What was said, for a model that was not there; without the tools."""
        opening = [
            TranscriptLine("assistant", message.content)
            for message in self.opening
            if message.role == "assistant"
        ]
        news = (TranscriptLine("user", f"({line})") for line in self.untold)
        past = (line for exchange in self._past for line in exchange.lines())
        return (*opening, *past, *news)

    def __len__(self) -> int:
        return len(self._past)


def _with_notice(opening: tuple[Message, ...], notice: str) -> tuple[Message, ...]:
    match opening:
        case (Message(role="system") as prompt, *rest):
            content = f"{prompt.content}\n\n{notice}"
            return (attrs.evolve(prompt, content=content), *rest)
    return (Message(role="system", content=notice), *opening)


def _answer(call: ToolCall, text: str) -> Message:
    return Message(role="tool", content=text, call_id=call.id, name=call.name)


def _echo(call: ToolCall) -> ToolCall:
    """The call as it is told back to the model: always with a JSON object.

    Some model servers refuse a whole request for one broken call in its history.
    """
    try:
        load(call.arguments)
    except InvalidArguments:
        return attrs.evolve(call, arguments="{}")
    return call if call.arguments.strip() else attrs.evolve(call, arguments="{}")
