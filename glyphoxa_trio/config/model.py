"""The shape of a configuration: frozen data, seconds inside, no I/O.

A field is a key of the file. A duration is a float of seconds here and has its
unit in its key there: `InMs` on a field ``timeout`` makes the key
``timeout_ms``. Where the file may look different (``auth``, ``tiers``, servers
as a map), `layout` says so. ``config/reference.yaml`` explains every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from glyphoxa_trio.tools.estimate import TierBy, Unknown
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.hedging import NO_HEDGING, HedgingRules
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier, TierLimits
from glyphoxa_trio.units import in_ms

from .builtin import BuiltinConfig
from .cost import CostConfig
from .fields import (
    LIVE,
    NEXT_START,
    OFF_AT_ONCE,
    InHours,
    InMinutes,
    InMs,
    Text,
    above_zero,
    if_given,
    not_empty,
    not_negative,
    of_hours,
)
from .llm import LlmConfig
from .mcp import McpConfig
from .memory import MemoryConfig
from .overrides import ToolOverride
from .problems import ConfigError
from .scene import SceneConfig
from .servers import is_private, web_address
from .sessions import SessionsConfig
from .voices import (
    CascadeMode,
    Engine,
    FillerConfig,
    S2SConfig,
    SpeechConfig,
    TurnTakingConfig,
    VoiceConfig,
)


def private_address(self: Any, field: attrs.Attribute[Any], value: str) -> None:
    web_address(self, field, value)
    if not is_private(value):
        raise ValueError("must start with https://, unless it is on this machine")


@attrs.frozen(kw_only=True)
class TrustConfig:
    """Which external tools may be used without asking: all, or ``allow_tools``."""

    mode: TrustMode = TrustMode.LIMITED
    allow_tools: tuple[Text, ...] = ()


@attrs.frozen(kw_only=True)
class NpcConfig:
    """One NPC. ``tools`` grants by name, key or glob, and so does ``prompts``, which
    are those of servers that may be used with it.

    ``fallback`` holds what it says when there is nothing to say, ``model``
    replaces the model of `LlmConfig`, ``s2s_model`` that of `S2SConfig`, and ``trust``
    the trust of all; ``fast_model`` opens for a ``sentence_cascade``.
    ``system_prompt`` replaces the prompt that is made of its personality. Without
    ``select_tier`` each turn has its ``budget_tier``, whatever is said.
    ``context_name`` names the `Context` that the NPC was made of.
    """

    name: str = attrs.field(validator=not_empty)
    context_name: str = ""
    system_prompt: str = ""
    personality: str = ""
    identity: tuple[Text, ...] = ()
    knowledge_scope: tuple[Text, ...] = ()
    secret_knowledge: tuple[Text, ...] = ()
    behaviour_rules: tuple[Text, ...] = ()
    greeting: str = ""
    engine: Engine = Engine.CASCADED
    cascade_mode: CascadeMode = CascadeMode.AUTO
    fast_model: str | None = None
    budget_tier: Tier = Tier.FAST
    select_tier: bool = True
    tools: tuple[Text, ...] = ()
    prompts: tuple[Text, ...] = ()
    trust: TrustConfig | None = None
    fallback: tuple[Text, ...] = ()
    model: str | None = None
    s2s_model: Text | None = None
    voice: VoiceConfig = attrs.field(factory=VoiceConfig)


@attrs.frozen(kw_only=True)
class SelectorConfig:
    """The words that the tier selector listens for; None means its built-in rules."""

    deep_keywords: tuple[Text, ...] | None = None
    standard_keywords: tuple[Text, ...] | None = None
    min_deep_interval: InMs = attrs.field(default=30.0, validator=not_negative)
    queue_depth: int = attrs.field(default=3, validator=above_zero)


@attrs.frozen(kw_only=True)
class CalibrationConfig:
    """The settings of how tools are measured.

    ``at_start`` measures tools that NPCs are granted, that are approved for them, and
    that only read, on this machine; ``unknown`` says how tools are treated of
    which nothing is known. ``every`` is how often all of them are measured again, None
    never; ``environment`` None is derived from where each server is; ``remember`` keeps
    measurements for the next run, None as `McpConfig.remember` says.
    """

    at_start: bool = True
    every: InMinutes | None = attrs.field(default=None, validator=if_given(above_zero))
    remember: bool | None = None
    environment: str | None = None
    tier_by: TierBy = TierBy.ADAPTIVE
    unknown: Unknown = Unknown.TRIAL
    expiry: InHours = attrs.field(default=of_hours(24), validator=above_zero)
    probe_concurrency: int = attrs.field(default=4, validator=above_zero)


@attrs.frozen(kw_only=True)
class TurnConfig:
    """The limits of one turn beside its tool budget.

    ``opener`` is how long a fast model may take to open, ``listener`` how long
    an answer waits for a listener to ask for more of it, ``max_answer`` how many
    characters one answer of a model may have,
    ``history`` how many turns a model is shown, ``queue`` how many utterances of
    other speakers may wait, ``context`` how long a turn waits for additions to its
    prompt, ``fallback`` what an NPC without lines of its own says when there is
    nothing to say.
    """

    max_rounds: int = attrs.field(default=4, validator=above_zero)
    max_calls: int = attrs.field(default=16, validator=above_zero)
    first_token: InMs = attrs.field(default=5.0, validator=above_zero)
    silence: InMs = attrs.field(default=5.0, validator=above_zero)
    model_total: InMs = attrs.field(default=30.0, validator=above_zero)
    max_answer: int = attrs.field(default=16_000, validator=above_zero)
    opener: InMs = attrs.field(default=1.0, validator=above_zero)
    listener: InMs = attrs.field(default=60.0, validator=above_zero)
    history: int = attrs.field(default=40, validator=not_negative)
    queue: int = attrs.field(default=8, validator=above_zero)
    context: InMs = attrs.field(default=0.05, validator=above_zero)
    fallback: tuple[Text, ...] = attrs.field(
        default=(
            "Hm. My thoughts wandered off just now. Say that again?",
            "Forgive me, it has slipped my mind.",
            "Ask me again in a moment, would you?",
        ),
        validator=not_empty,
    )


@attrs.frozen(kw_only=True)
class OverloadConfig:
    """When a turn is turned away at once, because the machine cannot serve it.

    ``max_turns`` may run at a time, None is any number; ``max_lag`` is how late the
    loop may be, most of the time.
    """

    enabled: bool = True
    max_turns: int | None = attrs.field(default=None, validator=if_given(above_zero))
    max_lag: InMs = attrs.field(default=0.1, validator=above_zero)


@attrs.frozen(kw_only=True)
class SpeculationConfig:
    """Beginning a turn on a partial transcript, while its player still speaks.

    ``min_words`` a partial has to have, ``after`` for how long it has to stay the
    same, ``per_utterance`` how many may be begun until a player has spoken,
    ``expires`` how long one waits for its words to be said.
    """

    enabled: bool = False
    min_words: int = attrs.field(default=3, validator=above_zero)
    after: InMs = attrs.field(default=0.15, validator=above_zero)
    per_utterance: int = attrs.field(default=3, validator=above_zero)
    expires: InMs = attrs.field(default=5.0, validator=above_zero)


@attrs.frozen(kw_only=True)
class TelemetryConfig:
    """Reports of how fast tools are here, for operators who want to send them.

    Every ``interval``, and at the end, to ``file`` and to ``url``.

    Raises:
      ConfigError: if it is enabled and has no receiver.
    """

    enabled: bool = attrs.field(default=False, metadata=OFF_AT_ONCE)
    file: Path | None = attrs.field(default=None, metadata=LIVE)
    url: str | None = attrs.field(
        default=None, validator=if_given(private_address), metadata=LIVE
    )
    interval: InHours = attrs.field(
        default=of_hours(24), validator=above_zero, metadata=NEXT_START
    )

    def __attrs_post_init__(self) -> None:
        if self.enabled and self.file is None and self.url is None:
            raise ConfigError("enabled, but neither file nor url says who is told")


def _reachable(_: Any, __: attrs.Attribute[Any], limits: TierLimits) -> None:
    if not isinstance(limits, TierLimits):
        return  # `checking` says what it should have been
    # A tool whose estimate is between the two is STANDARD, but would fit into no turn.
    threshold, ceiling = limits.standard_threshold, limits.deep_ceiling
    if threshold > ceiling:
        raise ValueError(
            f"standard.threshold_ms, {in_ms(threshold)}, is above deep.ceiling_ms,"
            f" {in_ms(ceiling)}: a tool that takes longer could never be called; lower"
            " the one or raise the other"
        )


@attrs.frozen(kw_only=True)
class Config:
    """Everything a runtime is built from. ``tools`` overrides built-in tools, by
    canonical key or exposed name; ``template_defaults`` fill the ``{names}`` of prompts
    and greetings that have no value of their own.
    """

    npcs: tuple[NpcConfig, ...] = attrs.field(default=(), metadata=LIVE)
    llm: LlmConfig = attrs.field(factory=LlmConfig, metadata=LIVE)
    mcp: McpConfig = attrs.field(factory=McpConfig)
    trust: TrustConfig = attrs.field(default=TrustConfig(), metadata=LIVE)
    builtin: BuiltinConfig = attrs.field(factory=BuiltinConfig)
    tools: Mapping[str, ToolOverride] = attrs.field(factory=dict, metadata=LIVE)
    tiers: TierLimits = attrs.field(
        default=DEFAULT_LIMITS, validator=_reachable, metadata=NEXT_START
    )
    selector: SelectorConfig = attrs.field(default=SelectorConfig(), metadata=LIVE)
    calibration: CalibrationConfig = attrs.field(
        default=CalibrationConfig(), metadata=NEXT_START
    )
    turn: TurnConfig = attrs.field(default=TurnConfig(), metadata=LIVE)
    overload: OverloadConfig = attrs.field(default=OverloadConfig(), metadata=LIVE)
    speculation: SpeculationConfig = attrs.field(
        default=SpeculationConfig(), metadata=LIVE
    )
    hedging: HedgingRules = attrs.field(default=NO_HEDGING, metadata=NEXT_START)
    telemetry: TelemetryConfig = TelemetryConfig()
    s2s: S2SConfig = attrs.field(factory=S2SConfig, metadata=LIVE)
    speech: SpeechConfig = attrs.field(factory=SpeechConfig, metadata=NEXT_START)
    turn_taking: TurnTakingConfig = attrs.field(
        factory=TurnTakingConfig, metadata=NEXT_START
    )
    filler: FillerConfig = attrs.field(factory=FillerConfig, metadata=LIVE)
    scene: SceneConfig = attrs.field(factory=SceneConfig, metadata=LIVE)
    cost: CostConfig = attrs.field(factory=CostConfig, metadata=LIVE)
    sessions: SessionsConfig = attrs.field(factory=SessionsConfig, metadata=LIVE)
    memory: MemoryConfig = attrs.field(factory=MemoryConfig)
    template_defaults: Mapping[str, str] = attrs.field(factory=dict, metadata=LIVE)

    @property
    def fallbacks(self) -> frozenset[str]:
        """The lines that NPCs say when their models do not answer."""
        own = [line for npc in self.npcs for line in npc.fallback]
        return frozenset(map(str.strip, (*self.turn.fallback, *own)))
