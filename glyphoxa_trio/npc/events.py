"""The events of a turn, as frozen data. Times are seconds.

Every turn ends with exactly one `TurnDone`, including interrupted, failed and refused
turns, so that statistics do not cover only the turns that went well.
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
    """The base class of all events.

    ``turn`` counts from 1 for each NPC of a session. ``tenant`` is the owner of the
    session; "" if there is none.
    """

    npc: str
    turn: int
    session: str = DEFAULT
    tenant: str = ""

    @property
    def of(self) -> dict[str, Any]:
        """The fields that identify the turn, for another event of it."""
        return self.id.of(self.turn)

    @property
    def id(self) -> NpcId:
        """The NPC and its session."""
        return NpcId(self.npc, SessionKey(self.session, self.tenant))


@attrs.frozen(kw_only=True)
class Queued(TurnEvent):
    """The utterance waits, because others come first; ``position`` 1 is next."""

    position: int


@attrs.frozen(kw_only=True)
class TierSelected(TurnEvent):
    """The turn begins. ``tier`` is the effective tier: min(ceiling, selection)."""

    tier: Tier
    selected: Tier
    ceiling: Tier
    reason: str
    budget: float
    speaker: str
    text: str


@attrs.frozen(kw_only=True)
class Scripted(TurnEvent):
    """The turn begins, and the NPC says a given text, without model and tools.

    The text is its greeting, or what ``speaker`` says as the NPC. `Sentence`s and a
    `TurnDone` follow.
    """

    speaker: str
    text: str


@attrs.frozen(kw_only=True)
class ContextAdded(TurnEvent):
    """Context providers have added these lines to the prompt of this turn.

    ``missed``: providers that were late or failed, with the reason. The turn continues
    without them.
    """

    lines: tuple[str, ...]
    missed: tuple[tuple[str, str], ...] = ()


@attrs.frozen(kw_only=True)
class Shed(TurnEvent):
    """The turn is refused: the machine is overloaded, or a cost ceiling is reached.

    No model and no tool runs. A `FellBack` that says which of the two it was, its line,
    and the `TurnDone` follow at once.
    """

    reason: str
    speaker: str
    text: str


@attrs.frozen(kw_only=True)
class ToolsShown(TurnEvent):
    """The tools that the model may call in this round, by exposed name.

    ``deferred``: tools that it may call after loading them. ``hidden``: tools that are
    granted to the NPC and cannot be used in this round, with the reason; those of a
    server that has not listed its tools yet, because it starts or cannot be reached,
    under the name or pattern of the grant. ``forbidden``: the model was asked to answer
    in words.
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
    """A complete sentence, which a voice can begin to say."""

    text: str
    round: int


@attrs.frozen(kw_only=True)
class Filler(TurnEvent):
    """A short line that is said while the turn waits for a tool.

    It is no part of the answer and is not remembered; a voice drops it once the answer
    begins.
    """

    text: str
    round: int


@attrs.frozen(kw_only=True)
class Speech(TurnEvent):
    """A piece of audio to be played: PCM16, mono, ``rate`` Hz.

    ``filler``: it is no part of the answer, but a `Filler`, or the tone in place of a
    sentence that no synthesizer can say. Only the turn's listener gets it.
    """

    pcm: bytes
    rate: int
    filler: bool = False

    @property
    def seconds(self) -> float:
        """The length of the audio."""
        return len(self.pcm) / 2 / self.rate


@attrs.frozen(kw_only=True)
class SpeechFailed(TurnEvent):
    """A text that cannot be spoken, or not to its end; it was delivered as text.

    The turn continues.
    """

    text: str
    detail: str


@attrs.frozen(kw_only=True)
class Flush(TurnEvent):
    """Stop playing at once, and drop the audio of this turn that was not played yet.

    Sent once in every turn that is interrupted after it has delivered something, at the
    moment of the interruption. Only the `TurnDone` follows.
    """

    reason: str


@attrs.frozen(kw_only=True)
class Hold(TurnEvent):
    """Pause playback and keep the rest: a user makes a sound that may interrupt.

    A `Resume` or a `Flush` of the turn follows. Only the listener of a voice gets it.
    """


@attrs.frozen(kw_only=True)
class Resume(TurnEvent):
    """Continue playback where the `Hold` paused it: it was no interruption."""


GIVEN_OUT: Final = (TextDelta, Sentence, Filler, Speech)
"""Events that a listener reads or hears, and that an interruption takes back."""


@attrs.frozen(kw_only=True)
class Transcript(TurnEvent):
    """The words that a player has said, as far as they are understood.

    ``turn`` is 0 while it is not known which turn will answer.
    """

    speaker: str
    text: str
    final: bool


@attrs.frozen(kw_only=True)
class HearingFailed(TurnEvent):
    """Words of a player are lost. ``turn`` is 0.

    ``deaf``: nothing that the player says will be understood any more.
    """

    speaker: str
    detail: str
    deaf: bool = False


@attrs.frozen(kw_only=True)
class EngineSwitched(TurnEvent):
    """The turn uses another engine than the NPC's own."""

    engine: str
    instead_of: str
    reason: str


@attrs.frozen(kw_only=True)
class TurnKept(TurnEvent):
    """A turn was written to memory, and survives the end of this process.

    It follows the `TurnDone`, which does not wait for it; only subscribers get it.
    ``kept`` is False if the turn is lost to memory, for the reason in ``error``.
    """

    kept: bool = True
    error: str = ""


class Decision(StrEnum):
    """The result of a question."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"  # the turn was interrupted


@attrs.frozen(kw_only=True)
class ApprovalNeeded(TurnEvent):
    """The DM must approve this external tool before it runs.

    ``question`` is the argument for `Npc.approve`; it is unique, while a model may
    repeat its call ids. ``arguments`` are the call's arguments for people to read;
    ``call`` has them as the model wrote them. The question is open for ``expires``
    seconds.
    """

    question: str
    call: ToolCall
    tool: str
    arguments: str
    expires: float


@attrs.frozen(kw_only=True)
class ApprovalSettled(TurnEvent):
    """A question is closed. Each `ApprovalNeeded` has exactly one."""

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
    """A call has ended, in whatever way."""

    outcome: Outcome
    round: int


@attrs.frozen(kw_only=True)
class FanOutDone(TurnEvent):
    """The calls of one response have ended; ``outcomes`` are in call order.

    ``elapsed`` is the time of the slowest call. ``budget`` is the tool time that the
    turn had left before.
    """

    round: int
    tier: Tier
    shown: int
    budget: float
    elapsed: float
    outcomes: tuple[Outcome, ...]


@attrs.frozen(kw_only=True)
class ModelFailed(TurnEvent):
    """The model failed to answer. The session continues."""

    kind: ErrorKind
    detail: str


@attrs.frozen(kw_only=True)
class ModelSwitched(TurnEvent):
    """Another model answers this round than the preferred one."""

    model: str
    instead_of: str
    reason: str


@attrs.frozen(kw_only=True)
class UsageReported(TurnEvent):
    """The usage of one response of a model: tokens, and ``cost`` if they have a price.

    The ``audio`` tokens are part of the others. ``audio_time`` is seconds of audio, for
    a model that is paid by the minute, as some that write transcripts are. ``turn`` is
    0 for a response that no turn has requested. A response whose request was closed
    early reports no usage.
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
    """Why the NPC said a fallback line of its configuration instead of an answer."""

    EMPTY_ANSWER = "empty_answer"
    ROUNDS_EXHAUSTED = "rounds_exhausted"
    TOOLS_FAILED = "tools_failed"
    MODEL_FAILED = "model_failed"
    OVERLOADED = "overloaded"
    COST_CEILING = "cost_ceiling"


@attrs.frozen(kw_only=True)
class FellBack(TurnEvent):
    """There is no answer; a fallback line follows as text."""

    reason: Fallback


@attrs.frozen(kw_only=True)
class LateResult(TurnEvent):
    """A call that continued after its turn has ended.

    ``speak``: the tool's policy wants the outcome said aloud. The next turn's model is
    told in any case.
    """

    outcome: Outcome
    speak: bool


class TurnEnd(StrEnum):
    """The ways in which a turn ends."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    SHED = "shed"  # turned away at once: see `Shed`
    LOST = "lost"  # the worker that ran it is gone (`cluster`)


@attrs.frozen(kw_only=True)
class Timings:
    """The time that a turn took: for models, for tools, and in all.

    ``first_text``: when the first words came, since the beginning; None if none came.
    ``head_start``: how long before the turn its first round had begun.
    """

    model: float
    tools: float
    total: float
    first_text: float | None = None
    head_start: float = 0.0


@attrs.frozen(kw_only=True)
class TurnDone(TurnEvent):
    """The end of a turn.

    ``text`` is all that was written; `Turn.delivered` is what was heard. ``tier`` is
    the one that the turn began with. If its NPC's ceiling is lowered meanwhile, the
    turn keeps its time for tools, and may begin no slower calls. ``kept`` is
    for clients of a cluster: True if the turn is written, and so survives its worker;
    False if it waits to be written. None if that is not known: in one process the end
    does not wait for it, and `TurnKept` follows.
    """

    end: TurnEnd
    text: str
    outcomes: tuple[Outcome, ...]
    timings: Timings
    rounds: int
    tier: Tier | None = None
    error: str = ""
    kept: bool | None = None


class SpeculationEnd(StrEnum):
    """The ways in which a speculation ends."""

    ADOPTED = "adopted"
    DIVERGED = "diverged"  # other words came
    EXPIRED = "expired"  # the final words did not come in time
    DISCARDED = "discarded"  # the words came, but the turn needed another request
    FAILED = "failed"  # the model failed; the turn asks it again


@attrs.frozen(kw_only=True)
class SpeculationDone(TurnEvent):
    """A speculation has ended. This is no event of a turn: no listener gets it.

    ``turn`` is the turn that adopted it, or 0. ``calls`` were started, and
    ``calls_used`` of them were useful. ``wasted``: the seconds of model and tool time
    that were of no use, added up.
    """

    end: SpeculationEnd
    reason: str
    head_start: float
    calls: int
    calls_used: int
    wasted: float
