"""The configuration of an NPC's session, and the services that it borrows."""

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
from glyphoxa_trio.npc.hot_context import Gather, Moment
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.npc.s2s import RealtimeConversation
from glyphoxa_trio.npc.s2s.own_voice import Recordings
from glyphoxa_trio.npc.selector import Selector
from glyphoxa_trio.npc.topics import NO_NAMES, PublicNames
from glyphoxa_trio.npc.turn.tally import Tally
from glyphoxa_trio.npc.turn.turn_log import TurnLog
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.providers.speech import Synthesizer
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.search import DEFER_THRESHOLD


@attrs.frozen(kw_only=True)
class SessionSettings:
    """The settings of one NPC from its next turn on. A reload sends new ones.

    Args:
      npc: the NPC's own configuration.
      grant: what the NPC may use. If it has an ``approver``, the DM is asked about
        external tools that were not approved, by events and by the approver; without
        one they are refused at once.
      turn: the limits of a turn.
      defer_threshold: how many external tools are shown in full.
      speculation: whether and when turns begin on partial transcripts.
      filler: what is said while the turn waits for tools.
      s2s: how a speech-to-speech model is used.
      overheard: how many lines of what others say to each other are remembered.
      scene: the facts of the scene. What the embedder has set (`Npc.set_scene`) counts
        until a reload changes these.
      template_defaults: values for variables of prompt and greeting that were not set.
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
    """The models that an NPC uses.

    ``fast`` begins the answers of a sentence cascade; None means ``llm``. ``live`` is
    the conversation of a speech-to-speech NPC, which its session runs.
    """

    llm: LLM
    fast: LLM | None = None
    live: RealtimeConversation | None = None


@attrs.frozen(eq=False, kw_only=True)
class Services:
    """The services that sessions borrow: the same for all of them, and through reloads.

    Args:
      host: runs tools.
      links: returns the models that these settings name, for that NPC. Called when
        settings arrive; it may raise a `GlyphoxaError`, which goes to their sender.
      selector: is asked for the tier of each utterance.
      events: is told of every event, whether or not the turn has a listener.
      handover: passes listeners and microphones to the session.
      activity: counts the running turns, and may refuse one.
      costs: says whether a turn may begin, and counts what it cost.
      tally: counts how speculations ended.
      approver: answers questions about calls, beside `Npc.approve`, for at most
        ``approval_timeout`` seconds outside the tool clock; the first answer counts.
      context: is asked in each turn for context.
      hearing: called with each partial transcript, so that what will be known of it can
        be fetched ahead. Must not block.
      names: returns the names of a session's campaign that all NPCs may know.
      used: called with the session in which a turn begins or has ended.
      synthesizer: says sentences aloud, if there is one.
      recordings: lines that models have said.
      log: is told of every turn that has ended, if turns are kept.
      warn: called with a message, for example when the synthesizer fails.
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
    hearing: Callable[[Moment], None] = lambda _: None
    names: Callable[[SessionKey], PublicNames] = lambda _: NO_NAMES
    used: Callable[[SessionKey], None] = lambda _: None
    synthesizer: Synthesizer | None = None
    recordings: Recordings = attrs.field(factory=Recordings)
    log: TurnLog | None = None
    warn: Callable[[str], None] = lambda _: None
