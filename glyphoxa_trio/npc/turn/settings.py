"""What an NPC is configured as, and what its session borrows from the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from glyphoxa_trio.actors import Handover, Ref, Topic
from glyphoxa_trio.config.model import NpcConfig, SpeculationConfig, TurnConfig
from glyphoxa_trio.config.voices import FillerConfig, S2SConfig
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.npc.approval import APPROVAL_TIMEOUT, Approver
from glyphoxa_trio.npc.cost import Costs
from glyphoxa_trio.npc.events import TurnEvent
from glyphoxa_trio.npc.hot_context import Gather
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.npc.s2s import RealtimeConversation
from glyphoxa_trio.npc.s2s.own_voice import Recordings
from glyphoxa_trio.npc.selector import Selector
from glyphoxa_trio.npc.turn.tally import Tally
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.providers.speech import Synthesizer
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.search import DEFER_THRESHOLD


@attrs.frozen(kw_only=True)
class SessionSettings:
    """What holds for one NPC from its next turn on. A reload sends another one.

    Args:
      grant: if it has an ``approver``, external tools that nobody approved are asked
        about, by events and by the approver; without one they are refused at once.
      defer_threshold: so many external tools are shown in full.
      filler: what is said while tools are waited for.
      overheard: so many lines of what others say to each other are remembered.
      scene: what holds where it is. What an embedder has said of that (`Npc.set_scene`)
        counts until a reload says something else.
      template_defaults: for the variables of prompt and greeting that nobody gave a
        value.
    """

    npc: NpcConfig
    grant: Grant
    turn: TurnConfig = attrs.field(factory=TurnConfig)
    defer_threshold: int = DEFER_THRESHOLD
    speculation: SpeculationConfig = attrs.field(factory=SpeculationConfig)
    filler: FillerConfig = attrs.field(factory=FillerConfig)
    s2s: S2SConfig = attrs.field(factory=S2SConfig)
    overheard: int = 20
    scene: tuple[str, ...] = ()
    template_defaults: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(eq=False, kw_only=True)
class Links:
    """The models that an NPC speaks with.

    ``fast`` opens in a sentence cascade; None is ``llm``. ``live`` is the conversation
    of a speech-to-speech NPC, which its session runs.
    """

    llm: LLM
    fast: LLM | None = None
    live: RealtimeConversation | None = None


@attrs.frozen(eq=False, kw_only=True)
class Services:
    """What sessions borrow: the same for all of them, and through reloads.

    Args:
      links: the models that these settings name, for that NPC. Asked when settings
        arrive; raises a `GlyphoxaError` to whoever sent them.
      selector: asked for the tier of each utterance.
      events: told of everything that happens, whoever listens to the turn.
      handover: where listeners and microphones are handed over.
      activity: counts the turns that run, and may refuse one.
      costs: says whether a turn may begin, and is told what it took.
      tally: counts what came of speculation.
      approver: says yes or no to calls, beside `Npc.approve`, for at most
        ``approval_timeout`` seconds outside the tool clock; the first answer counts.
      context: asked in each turn for what is to be known in it.
      used: told of a session in which a turn begins or has ended.
      synthesizer: says sentences aloud, if there is one; ``warn`` is told if it fails.
      recordings: of lines that models have said.
    """

    host: ToolHost
    links: Callable[[SessionSettings, NpcId], Links]
    selector: Ref[Selector]
    events: Topic[TurnEvent]
    handover: Handover = attrs.field(factory=Handover)
    activity: Activity = attrs.field(factory=Activity)
    costs: Costs = attrs.field(factory=Costs)
    tally: Tally = attrs.field(factory=Tally)
    approver: Approver | None = None
    approval_timeout: float = APPROVAL_TIMEOUT
    context: Gather | None = None
    used: Callable[[SessionKey], None] = lambda _: None
    synthesizer: Synthesizer | None = None
    recordings: Recordings = attrs.field(factory=Recordings)
    warn: Callable[[str], None] = lambda _: None
