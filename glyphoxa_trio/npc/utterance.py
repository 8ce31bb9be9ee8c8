"""What is said to an NPC or by it, and the messages that its session takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

import trio

from glyphoxa_trio.actors import Request, Stream
from glyphoxa_trio.config.model import NpcConfig, SpeculationConfig, TurnConfig
from glyphoxa_trio.config.voices import FillerConfig, S2SConfig
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.tier import Tier

from .conversation import Exchange
from .events import Fallback, Sentence, Speech, TurnEvent
from .speaking import Speaking

if TYPE_CHECKING:
    from .s2s import Interaction, Live


@attrs.define(eq=False)
class Utterance:
    """One thing said to an NPC, the turn that answers it, and who listens.

    A ``script`` is said by the NPC as it stands, with no model in between, and so is
    its greeting if it ``greets``: nothing was said to it then. ``waiting`` players want
    to be answered in its scene beside those who wait for this NPC.

    ``scope`` belongs to the listener: leaving cancels the turn, also one that has
    not begun. ``begins`` is set when it does, ``ended`` when the turn has ended and
    is remembered. ``superseded``: its speaker went on before it began. ``shed``: why
    it is turned away instead of being answered, and ``shed_for``, in a word.
    ``gave_out``: something of the answer was given out, ``flushed``: it was taken back.
    ``speaking``: what says it aloud. ``interaction``: it was spoken to a model that
    hears for itself.
    """

    text: str
    speaker: str
    override: Tier | None = None
    script: str | None = None
    greets: bool = False
    waiting: int = 0
    stream: Stream[TurnEvent] = attrs.field(init=False)
    exchange: Exchange = attrs.field(init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    begins: trio.Event = attrs.field(factory=trio.Event, init=False)
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    superseded: bool = attrs.field(default=False, init=False)
    shed: str = attrs.field(default="", init=False)
    shed_for: Fallback = attrs.field(default=Fallback.OVERLOADED, init=False)
    number: int = attrs.field(default=0, init=False)
    interaction: Interaction | None = attrs.field(default=None, init=False)
    gave_out: bool = attrs.field(default=False, init=False)
    flushed: bool = attrs.field(default=False, init=False)
    _reason: str = attrs.field(default="", init=False)
    speaking: Speaking | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.exchange = Exchange(self.speaker, self.text, asked=not self.scripted)
        # Not a method: a stream that knew its utterance would leave a cycle of twenty
        # objects a turn to the collector, whose pauses hold everybody up.
        self.stream = Stream(on_consumed=partial(_consumed, self.exchange))

    def interrupt(self, reason: str) -> None:
        """Cancel the turn, begun or not."""
        self._reason = self._reason or reason
        self.scope.cancel(reason)

    @property
    def reason(self) -> str:
        """Why it was interrupted: whoever cancels the scope is the listener."""
        gone = "the listener left" if self.scope.cancel_called else "the session ended"
        return self._reason or gone

    def post(self, event: TurnEvent) -> None:
        """Tell the listener, without waiting."""
        self.stream.post(event)
        self.say_aloud(event)

    def say_aloud(self, event: TurnEvent) -> None:
        """What the listener has got; a voice says of it what can be said."""
        if self.speaking is not None:
            self.speaking.take(event)

    @property
    def scripted(self) -> bool:
        return self.script is not None or self.greets

    def understood(self, text: str) -> None:
        """What was spoken, as it becomes known: it may be long over by then."""
        self.text = self.exchange.text = text


def _consumed(exchange: Exchange, event: TurnEvent) -> None:
    match event:
        case Sentence(round=round_):
            exchange.delivered(round_)
        case Speech(seconds=seconds):
            exchange.taken(seconds)
        case _:
            pass


class SessionMessages:
    """Whom all of these are for: the session of an NPC."""


SessionRequest: TypeAlias = Request[SessionMessages, Any]


@attrs.frozen
class Say(Request[SessionMessages, None]):
    """Asked: answer this. The reply means that it runs or waits its turn."""

    utterance: Utterance


@attrs.frozen(eq=False)
class LendEar(Request[SessionMessages, "Live | None"]):
    """Asked: let the model hear this speaker, and say of each turn that it begins, and
    when they ``interrupted``. ``gone`` is called when another configuration lets the
    NPC hear in another way, so that the model does not hear the speaker any more. The
    reply is the conversation, None if its model does not hear."""

    speaker: str
    told: Callable[[Utterance], None]
    interrupted: Callable[[], None]
    gone: Callable[[], None] = lambda: None


@attrs.frozen(eq=False)
class TakeEarBack(Request[SessionMessages, None]):
    """Told: hear nobody any more, if it was this one."""

    told: Callable[[Utterance], None]


@attrs.frozen
class Elevate(Request[SessionMessages, None]):
    """Asked: raise the NPC's ceiling to ``tier`` for so many seconds (D2)."""

    tier: Tier
    seconds: float


@attrs.frozen
class Interrupt(Request[SessionMessages, bool]):
    """Asked: end the turn that is running, if one is; of this ``speaker`` only, if one
    is named, and then those of theirs that wait, too."""

    speaker: str | None = None


@attrs.frozen
class Overhear(Request[SessionMessages, None]):
    """Asked: remember that ``speaker`` said this, ``to`` somebody; say nothing."""

    speaker: str
    text: str
    to: str = ""


@attrs.frozen
class Situate(Request[SessionMessages, None]):
    """Asked: know from now on that this holds in the scene, and nothing else of it."""

    context: tuple[str, ...]


@attrs.frozen
class Introduce(Request[SessionMessages, None]):
    """Asked: put these values into prompt and greeting from now on (A32)."""

    values: Mapping[str, object]


@attrs.frozen(eq=False)
class Adopt(Request[SessionMessages, None]):
    """Asked: be this NPC from the next turn on (D16).

    A turn that runs ends as it began, but for what is taken away: that is gone at
    the gate at once. What is None stays as it is, but for ``fast``, the model that
    opens: None is ``llm``.
    """

    npc: NpcConfig
    config: TurnConfig
    grant: Grant
    llm: LLM
    fast: LLM | None = None
    defer_threshold: int | None = None
    speculation: SpeculationConfig | None = None
    live: Live | None = None
    s2s: S2SConfig | None = None
    overheard: int | None = None
    filler: FillerConfig | None = None
    template_defaults: Mapping[str, str] | None = None
    scene: tuple[str, ...] | None = None


@attrs.frozen
class Approve(Request[SessionMessages, bool]):
    """Asked: settle an open question; the reply says whether it was open."""

    question: str
    yes: bool


@attrs.frozen
class Preview(Request[SessionMessages, Tier]):
    """Asked: the tier that this, perhaps unfinished, text would get; no trace."""

    text: str


@attrs.frozen
class Hearing(Request[SessionMessages, None]):
    """Told: somebody is saying this, and has perhaps not finished."""

    text: str
    speaker: str
