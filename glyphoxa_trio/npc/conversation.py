"""The conversation of an NPC with its players: a bounded history.

A turn is recorded while it runs. Of the NPC's words only what was delivered is
remembered, so that it does not refer to things the players never heard; every tool call
is remembered together with its answer. What others said to each other stands before the
next utterance to this NPC.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import attrs

from glyphoxa_trio.providers.llm import Message, Verbatim
from glyphoxa_trio.providers.s2s import TranscriptLine
from glyphoxa_trio.tools.arguments import text_of
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.speech import outcome_text

from .overheard import Overheard, aside_of
from .snapshot import CallSnapshot, ExchangeSnapshot, RoundSnapshot
from .spoken_audio import USUAL, SpokenAudio


@attrs.define(eq=False)
class Round:
    """One response of the model within a turn: its sentences, calls and answers.

    ``delivered``: how many sentences were delivered as text. ``by_ear``: what was heard
    of them, if playback is reported. ``verbatim``: what the model wants back with its
    response while the turn continues, and some models afterwards.
    """

    sentences: list[str] = attrs.field(factory=list)
    delivered: int = 0
    by_ear: list[str] | None = None
    outcomes: list[Outcome] = attrs.field(factory=list)
    verbatim: Verbatim | None = None
    _unsaid: bool = attrs.field(default=False, init=False)  # some of the sentences
    _echoes: list[ToolCall] = attrs.field(factory=list, init=False)
    _answers: list[Message] = attrs.field(factory=list, init=False)

    @property
    def heard(self) -> list[str]:
        """The sentences that count as delivered."""
        return self.sentences[: self.delivered] if self.by_ear is None else self.by_ear

    def unsay(self, since: int) -> None:
        """Forget the sentences from that place on: they were no part of the answer."""
        # Their places stay, which playback goes by.
        self.sentences[since:] = [""] * (len(self.sentences) - since)
        self._unsaid = True

    @classmethod
    def restored(cls, kept: RoundSnapshot) -> Round:
        """Return a round of a past turn from its `snapshot`."""
        round_ = cls([*kept.heard], delivered=len(kept.heard))
        round_._echoes = [x.call for x in kept.calls]
        round_._answers = [_answer(x.call, x.answer) for x in kept.calls]
        return round_

    def snapshot(self) -> RoundSnapshot:
        """Return a snapshot."""
        self._tell()
        told = zip(self._echoes, self._answers, strict=True)
        calls = (CallSnapshot(call, answer.content) for call, answer in told)
        return RoundSnapshot(tuple(filter(None, self.heard)), tuple(calls))

    def messages(self, *, heard_only: bool) -> Iterator[Message]:
        """Yield the round's messages; ``heard_only`` leaves out what was not heard."""
        said = self.heard if heard_only else self.sentences
        if self._unsaid:
            said = [*filter(None, said)]
        self._tell()
        if said or self._echoes:
            yield Message(
                role="assistant",
                content=" ".join(said),
                calls=tuple(self._echoes),
                verbatim=self.verbatim,
            )
        yield from self._answers

    def _tell(self) -> None:
        # The history is sent in every round, and formatting all of it anew would be
        # most of a turn's cost. Outcomes are only ever added.
        for outcome in self.outcomes[len(self._answers) :]:
            self._echoes.append(_echo(outcome.call))
            self._answers.append(_answer(outcome.call, outcome_text(outcome)))


@attrs.define(eq=False)
class Exchange:
    """One turn: what was said to the NPC, and its rounds.

    ``aloud`` is its audio, if there is any. From the first playback report on, what was
    played counts as delivered. Before that, what the listener took counts, for the
    speech of a model. Where another program speaks the text, its reports of the words
    that were heard count.

    The code that runs the turn sets ``text``, once the words are understood, ``aloud``,
    ``context`` and ``late``.

    ``asked``: something was said to the NPC; otherwise it speaks unasked.
    ``overheard``: what was overheard since the last turn. ``context``: what is known in
    this turn only. ``utterance``: the id of what was said, if its caller gave one.
    """

    speaker: str
    text: str
    rounds: list[Round] = attrs.field(factory=list)
    aloud: SpokenAudio | None = None
    _reported: bool = attrs.field(default=False, init=False)
    _words: int | None = attrs.field(default=None, init=False)
    _heard_out: bool = attrs.field(default=False, init=False)
    asked: bool = attrs.field(default=True, kw_only=True)
    overheard: deque[Overheard] = attrs.field(factory=deque, kw_only=True)
    context: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    utterance: str = attrs.field(default="", kw_only=True)
    # Outcomes of calls of earlier, interrupted turns, told with this utterance.
    late: tuple[Outcome, ...] = ()
    _late: str = attrs.field(default="", init=False)  # the same as text
    # How later turns are told of this one, until more of it is heard or forgotten.
    _past: tuple[Message, ...] | None = attrs.field(default=None, init=False)

    @classmethod
    def restored(cls, kept: ExchangeSnapshot) -> Exchange:
        """Return a past turn from its `snapshot`."""
        exchange = cls(
            kept.speaker,
            kept.text,
            [Round.restored(x) for x in kept.rounds],
            asked=kept.asked,
            overheard=deque(kept.overheard),
            utterance=kept.utterance,
        )
        exchange._late = kept.late
        return exchange

    def snapshot(self) -> ExchangeSnapshot:
        """Return a snapshot of the turn, as far as it was heard by now."""
        return ExchangeSnapshot(
            speaker=self.speaker,
            text=self.text,
            asked=self.asked,
            overheard=tuple(self.overheard),
            late=self._what_came_late(),
            rounds=tuple(x.snapshot() for x in self.rounds),
            utterance=self.utterance,
        )

    def taken(self, seconds: float) -> None:
        """Count audio that the listener has taken; ignored if playback is reported."""
        if self.aloud is not None and not self._reported:
            self.aloud.take(seconds)
            self.hear()

    def lines(self) -> Iterator[TranscriptLine]:
        """Yield what each side said, as far as it was heard."""
        for line in self.overheard:
            yield TranscriptLine("user", f"({line})")
        if self.text and self.asked:
            yield TranscriptLine("user", self.text)
        if self.heard:
            yield TranscriptLine("assistant", self.heard)

    def begin_round(self) -> Round:
        """Begin a round and return it."""
        self._past = None
        spoken = self._reported and self.aloud is not None
        by_ear = spoken or self._words is not None
        self.rounds.append(Round(by_ear=[] if by_ear else None))
        return self.rounds[-1]

    def delivered(self, round_index: int) -> None:
        """Count the next sentence of that round as delivered."""
        self.rounds[round_index].delivered += 1
        self.hear()

    def played(self, seconds: float) -> None:
        """Set how many seconds of the audio were heard in all, if there is audio."""
        first, self._reported = not self._reported, True
        if self.aloud is not None:
            if first:
                self.aloud.playback.begin()
            self.aloud.playback.played(seconds)
        self.hear()

    def heard_words(self, text: str, *, over: bool) -> None:
        """Set the beginning of the answer that was heard, by its number of words.

        ``over``: no more of it will be heard.
        """
        self._words, self._heard_out = len(text.split()), over
        self.hear()

    def hear(self) -> None:
        """Compute again what was heard."""
        self._past = None
        if self._words is not None:
            left = self._words
            for part in self.rounds:
                part.by_ear, left = _first_words(part.sentences, left)
            return
        if self.aloud is None:
            return
        for at, part in enumerate(self.rounds):
            if self._reported or self.aloud.is_spoken(at):
                part.by_ear = self.aloud.heard(at, part.sentences, part.delivered)

    @property
    def known(self) -> str:
        """The context of this turn as text; empty without any."""
        return aside_of((), self.context)

    @property
    def unplayed(self) -> float:
        """Seconds that are still to be heard, if playback is reported; as long as a
        person takes to say the rest, if another program speaks."""
        if self._words is not None:
            rest = len(self.written) - len(self.heard)
            return 0.0 if self._heard_out else rest / USUAL
        return self.aloud.playback.left if self._reported and self.aloud else 0.0

    @property
    def written(self) -> str:
        """All that the model wrote."""
        return " ".join(s for r in self.rounds for s in r.sentences if s)

    @property
    def heard(self) -> str:
        """All that was heard."""
        return " ".join(s for r in self.rounds for s in r.heard if s)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of all calls, in the order of the calls."""
        return tuple(outcome for r in self.rounds for outcome in r.outcomes)

    def past(self) -> tuple[Message, ...]:
        """Return how later turns are told of this one, which is over.

        The result is kept: the history is sent in every round, and building it anew
        would take a sixth of a turn.
        """
        if self._past is None:
            self._past = tuple(self.messages(heard_only=True))
        return self._past

    def forget_oldest(self) -> None:
        """Forget the oldest line that was overheard before this turn."""
        self._past = None
        self.overheard.popleft()

    def messages(self, *, heard_only: bool) -> Iterator[Message]:
        """Yield the turn's messages; ``heard_only`` leaves out what was not heard."""
        if news := self._what_came_late():
            # Providers send this at its place, marked as data (`providers.shaping`): a
            # tool's output is no part of the prompt.
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


def _first_words(sentences: list[str], most: int) -> tuple[list[str], int]:
    """Return the first words of these sentences, and how many are missing."""
    found: list[str] = []
    for sentence in sentences:
        words = sentence.split()
        if most >= len(words):
            found.append(sentence)
        elif most > 0:
            found.append(" ".join(words[:most]))
        most = max(0, most - len(words))
    return found, most


@attrs.define(eq=False)
class Conversation:
    """The last ``limit`` exchanges, and the current one.

    Args:
      opening: the messages before everything else: the prompt, a greeting.
      limit: how many exchanges are remembered.
      most_overheard: how many overheard lines are remembered in all.
    """

    opening: tuple[Message, ...]
    limit: int
    most_overheard: int = 0
    _past: deque[Exchange] = attrs.field(init=False)
    _news: deque[Overheard] = attrs.field(factory=deque, init=False)
    # of the current turn
    _newest: deque[Overheard] = attrs.field(factory=deque, init=False)

    def __attrs_post_init__(self) -> None:
        self._past = deque(maxlen=self.limit)

    def add(self, exchange: Exchange) -> None:
        """Remember a turn that has ended; beyond the limit the oldest is forgotten.

        The exchange stays live: what its listener hears later still counts.
        """
        for round_ in exchange.rounds:
            if round_.verbatim is not None and not round_.verbatim.lasting:
                round_.verbatim = None  # it may be long, and is not sent any more
        self._past.append(exchange)
        if exchange.overheard is self._newest:
            self._newest = deque()
        self._forget()

    def begin_with(self, *opening: Message, limit: int, most_overheard: int) -> None:
        """Set another opening and other limits; the history is kept."""
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
        """Return the turns that have ended."""
        return tuple(exchange.snapshot() for exchange in self._past)

    def overhear(self, line: Overheard) -> None:
        """Remember what was said to another listener."""
        self._news.append(line)
        self._forget()

    @property
    def news(self) -> tuple[Overheard, ...]:
        """The lines overheard since the last turn began."""
        return tuple(self._news)

    @property
    def untold(self) -> tuple[Overheard, ...]:
        """The lines overheard since the last turn that has ended."""
        return (*self._newest, *self._news)

    def tell_news(self, exchange: Exchange) -> None:
        """Move what was overheard since the last turn into this turn."""
        exchange.overheard, self._news = self._news, deque()
        self._newest = exchange.overheard

    def _forget(self) -> None:
        """Forget the oldest overheard lines beyond the limit."""
        too_many = len(self._news) - self.most_overheard
        for exchange in self._past:
            if exchange.overheard:
                too_many += len(exchange.overheard)
        for exchange in self._past:
            while too_many > 0 and exchange.overheard:
                exchange.forget_oldest()
                too_many -= 1
        while too_many > 0 and self._news:
            self._news.popleft()
            too_many -= 1

    def prompt(self, current: Exchange, *, notice: str = "") -> tuple[Message, ...]:
        """Return all messages for the next round of ``current``.

        Args:
          current: the current turn.
          notice: added to the end of the opening prompt for this round. It is no
            message of its own, because some models accept only one system message, as
            the first.
        """
        # The history is told in every round: no call for what is kept.
        past = [x for turn in self._past for x in (turn._past or turn.past())]
        opening = _with_notice(self.opening, notice) if notice else self.opening
        return (*opening, *past, *current.messages(heard_only=False))

    @property
    def prompt_text(self) -> str:
        """The system prompt as text."""
        told = [m.content for m in self.opening if m.role == "system"]
        return "\n\n".join(told)

    def said(self) -> frozenset[str]:
        """Return the texts of what was said: utterances, answers, overheard lines."""
        overheard = (x.text for turn in self._past for x in turn.overheard)
        told = (text for turn in self._past for text in (turn.text, turn.heard))
        return frozenset((*told, *overheard, *(x.text for x in self.untold)))

    def lines(self) -> tuple[TranscriptLine, ...]:
        """Return what was said, without the tools, for a model that was not there."""
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
    """Return the call as it is sent back to the model: always with a JSON object.

    Some model servers reject a whole request because of one malformed call in its
    history.
    """
    return attrs.evolve(call, arguments=text_of(call.arguments))
