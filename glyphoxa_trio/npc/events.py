"""What happens in a turn, as frozen events. Times are seconds.

Every turn ends in exactly one `TurnDone`, also the interrupted, the failed and
the late ones, so that figures do not count only the turns that went well. Above
300 lines: what can happen is read in one place.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.npc.identity import DEFAULT, NpcId, SessionKey
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.tools.gate import Refusal
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import Tier


@attrs.frozen(kw_only=True)
class TurnEvent:
    """``turn`` counts from 1 for each NPC of a session. ``tenant`` is whose session it
    is, "" where nobody says."""

    npc: str
    turn: int
    session: str = DEFAULT
    tenant: str = ""

    @property
    def of(self) -> dict[str, Any]:
        """Whose event it is, for another one of the same turn."""
        return self.id.of(self.turn)

    @property
    def id(self) -> NpcId:
        """Whose turn it is."""
        return NpcId(self.npc, SessionKey(self.session, self.tenant))


@attrs.frozen(kw_only=True)
class Queued(TurnEvent):
    """Somebody else is being answered; ``position`` 1 is next."""

    position: int


@attrs.frozen(kw_only=True)
class TierSelected(TurnEvent):
    """The turn begins. ``tier`` is the effective one: min(ceiling, selection)."""

    tier: Tier
    selected: Tier
    ceiling: Tier
    reason: str
    budget: float
    speaker: str
    text: str


@attrs.frozen(kw_only=True)
class Scripted(TurnEvent):
    """The turn begins, and the NPC says what it was given to say: its greeting, or what
    ``speaker`` says as it. No model, no tools; `Sentence`s and a `TurnDone` follow.
    """

    speaker: str
    text: str


@attrs.frozen(kw_only=True)
class ContextAdded(TurnEvent):
    """What providers of context added to the prompt of this turn, and who ``missed``
    it, with why: late, or wrong. The turn goes on without those.
    """

    lines: tuple[str, ...]
    missed: tuple[tuple[str, str], ...] = ()


@attrs.frozen(kw_only=True)
class Shed(TurnEvent):
    """The turn is not begun: the machine cannot serve it now, or its models have cost
    all that they may. No model, no tools. A `FellBack` that says which of the two,
    its line and the `TurnDone` follow at once.
    """

    reason: str
    speaker: str
    text: str


@attrs.frozen(kw_only=True)
class ToolsShown(TurnEvent):
    """What the model of this round may call, by exposed name.

    ``deferred``: what it may call as well, once it has loaded it (N25).
    ``hidden``: what the NPC is granted and cannot use in this round, with why.
    ``forbidden``: the model was asked to answer in words.
    """

    round: int
    shown: tuple[str, ...]
    hidden: tuple[tuple[str, Refusal], ...]
    remaining: float
    forbidden: bool = False
    deferred: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class TextDelta(TurnEvent):
    """A piece of the answer, as the model writes it."""

    text: str


@attrs.frozen(kw_only=True)
class Sentence(TurnEvent):
    """A whole sentence: what a voice can begin to say."""

    text: str
    round: int


@attrs.frozen(kw_only=True)
class Filler(TurnEvent):
    """Something short is said while a tool is waited for (D19). It is no part of the
    answer and is not remembered; a voice drops it once the answer begins."""

    text: str
    round: int


@attrs.frozen(kw_only=True)
class Speech(TurnEvent):
    """A piece of what is to be played: PCM16, mono, ``rate`` Hz.

    ``filler``: it is no part of the answer, but a `Filler`, or the tone that is heard
    in place of a sentence that nothing can say. Only whoever listens to the turn gets
    it.
    """

    pcm: bytes
    rate: int
    filler: bool = False

    @property
    def seconds(self) -> float:
        return len(self.pcm) / 2 / self.rate


@attrs.frozen(kw_only=True)
class SpeechFailed(TurnEvent):
    """This cannot be said aloud, or not to its end; as text it was said. The turn goes
    on."""

    text: str
    detail: str


@attrs.frozen(kw_only=True)
class Flush(TurnEvent):
    """Stop playing at once, and forget what was not played yet of this turn.

    In every turn that is interrupted after it has given something out, once, at the
    moment of the interruption: only its `TurnDone` follows.
    """

    reason: str


@attrs.frozen(kw_only=True)
class Hold(TurnEvent):
    """Stop playing, and keep what was not played yet: somebody makes a sound, and it is
    not known yet whether they interrupt. A `Resume` or a `Flush` of the turn follows.

    Only whoever listens to a voice gets it.
    """


@attrs.frozen(kw_only=True)
class Resume(TurnEvent):
    """Go on playing where the `Hold` was: it was no interruption."""


GIVEN_OUT: Final = (TextDelta, Sentence, Filler, Speech)
"""What a listener reads or hears, and an interruption takes back."""


@attrs.frozen(kw_only=True)
class Transcript(TurnEvent):
    """What a player is understood to have said, as far as it is known.

    ``turn`` is 0 while nobody knows which turn will answer it.
    """

    speaker: str
    text: str
    final: bool


@attrs.frozen(kw_only=True)
class HearingFailed(TurnEvent):
    """Something that a player said is lost, of no turn (0).

    ``deaf``: nothing of what they say is understood any more.
    """

    speaker: str
    detail: str
    deaf: bool = False


@attrs.frozen(kw_only=True)
class EngineSwitched(TurnEvent):
    """The turn goes another way than its NPC's own (G37)."""

    engine: str
    instead_of: str
    reason: str


class Decision(StrEnum):
    """What became of a question."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"  # the turn was interrupted


@attrs.frozen(kw_only=True)
class ApprovalNeeded(TurnEvent):
    """Somebody must say yes before this external tool runs (D13a).

    ``question`` is what `Npc.approve` takes; a model's call ids may come again, it
    does not. ``arguments`` are for showing to people, ``call`` has them as the
    model wrote them. The question is open for ``expires`` seconds.
    """

    question: str
    call: ToolCall
    tool: str
    arguments: str
    expires: float


@attrs.frozen(kw_only=True)
class ApprovalSettled(TurnEvent):
    """A question is closed: the one end of each `ApprovalNeeded`."""

    question: str
    call: ToolCall
    tool: str
    decision: Decision


@attrs.frozen(kw_only=True)
class ToolStarted(TurnEvent):
    """A call has passed the gate and runs."""

    call: ToolCall
    tool: str
    round: int


@attrs.frozen(kw_only=True)
class ToolFinished(TurnEvent):
    """A call has ended, whatever way."""

    outcome: Outcome
    round: int


@attrs.frozen(kw_only=True)
class FanOutDone(TurnEvent):
    """The calls of one response, in call order; it cost the slowest of them.

    ``budget`` is what was left of the turn's tool time before it.
    """

    round: int
    tier: Tier
    shown: int
    budget: float
    elapsed: float
    outcomes: tuple[Outcome, ...]


@attrs.frozen(kw_only=True)
class ModelFailed(TurnEvent):
    """The model did not come up with an answer; the session lives on (D0)."""

    kind: ErrorKind
    detail: str


@attrs.frozen(kw_only=True)
class ModelSwitched(TurnEvent):
    """Another model answers this round than the one that was to be asked first."""

    model: str
    instead_of: str
    reason: str


@attrs.frozen(kw_only=True)
class UsageReported(TurnEvent):
    """What one response of a model took: tokens, and ``cost`` if they have a price.

    The ``audio`` tokens are those of each that are sound; ``audio_time`` is seconds of
    it, for a model that is paid by the minute, as some are that write transcripts.
    ``turn`` is 0 for a response that no turn has asked for. One that was hung up on
    tells nobody what it took.
    """

    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0
    audio_cached_tokens: int = 0
    audio_time: float = 0.0
    cost: float | None = None


class Fallback(StrEnum):
    """Why the NPC said a line of its configuration instead of an answer (D12b)."""

    EMPTY_ANSWER = "empty_answer"
    ROUNDS_EXHAUSTED = "rounds_exhausted"
    TOOLS_FAILED = "tools_failed"
    MODEL_FAILED = "model_failed"
    OVERLOADED = "overloaded"
    COST_CEILING = "cost_ceiling"


@attrs.frozen(kw_only=True)
class FellBack(TurnEvent):
    """There was nothing to say; the line follows as text."""

    reason: Fallback


@attrs.frozen(kw_only=True)
class LateResult(TurnEvent):
    """A call that went on after its turn was interrupted has ended (D12a).

    ``speak``: its policy wants it said. The next turn's model is told anyway.
    """

    outcome: Outcome
    speak: bool


class TurnEnd(StrEnum):
    """The way a turn ended."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    SHED = "shed"  # turned away at once: see `Shed`


@attrs.frozen(kw_only=True)
class Timings:
    """Where a turn's time went: the model, the tools, all of it.

    ``head_start``: so long before the turn its first round had begun.
    """

    model: float
    tools: float
    total: float
    first_text: float | None = None
    head_start: float = 0.0


@attrs.frozen(kw_only=True)
class TurnDone(TurnEvent):
    """The end. ``text`` is all that was written; `Turn.delivered` what was heard."""

    end: TurnEnd
    text: str
    outcomes: tuple[Outcome, ...]
    timings: Timings
    rounds: int
    tier: Tier | None = None
    error: str = ""


class SpeculationEnd(StrEnum):
    """What became of a turn that was begun on a partial transcript."""

    ADOPTED = "adopted"
    DIVERGED = "diverged"  # other words came
    EXPIRED = "expired"  # nobody said them
    DISCARDED = "discarded"  # they were said, and it was another turn by then
    FAILED = "failed"  # the model did; the turn asks it again


@attrs.frozen(kw_only=True)
class SpeculationDone(TurnEvent):
    """A speculation has ended. Not an event of a turn: no listener of one gets it.

    ``turn`` is the one that adopted it, else 0. Of ``calls`` that were begun
    ``calls_used`` were of use. ``wasted``: seconds of model and tools that nobody
    needed, added up.
    """

    end: SpeculationEnd
    reason: str
    head_start: float
    calls: int
    calls_used: int
    wasted: float
