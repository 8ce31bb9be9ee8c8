"""The keys for models that hear and speak: one way to say it for what both vendors
have, and a section of each for what only one has.

What fits together, and what a model takes, is said by the providers' own ``Options``:
the runtime asks them when it opens.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.secret import Secret

from .fields import (
    InMinutes,
    InMs,
    Text,
    above_zero,
    if_given,
    not_negative,
    of_minutes,
)
from .presets import PRESETS, Provider
from .problems import ConfigError
from .servers import web_address


class S2SProvider(StrEnum):
    OPENAI_REALTIME = "openai_realtime"
    GEMINI_LIVE = "gemini_live"


_KEYS: Final = {
    S2SProvider.OPENAI_REALTIME: PRESETS[Provider.OPENAI].key,
    S2SProvider.GEMINI_LIVE: PRESETS[Provider.GEMINI].key,
}


class Thinking(StrEnum):
    """The amount of thinking before a model speaks."""

    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


class AudioFormat(StrEnum):
    """The audio on the wire: PCM16, or G.711 as telephones have it."""

    PCM = "pcm"
    PCMU = "pcmu"
    PCMA = "pcma"


class TurnDetection(StrEnum):
    SERVER_VAD = "server_vad"
    SEMANTIC_VAD = "semantic_vad"


class Eagerness(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    AUTO = "auto"


class NoiseReduction(StrEnum):
    NEAR_FIELD = "near_field"
    FAR_FIELD = "far_field"


class Sensitivity(StrEnum):
    HIGH = "high"
    LOW = "low"


class TurnCoverage(StrEnum):
    ACTIVITY = "activity"
    ALL_INPUT = "all_input"


@attrs.frozen(kw_only=True)
class OpenAIRealtimeConfig:
    """The options that only OpenAI Realtime has, by its own words.

    ``transcription`` is the model that writes down what people say, None for none;
    ``extra`` are further fields of the session, as they stand.
    """

    turn_detection: TurnDetection = TurnDetection.SERVER_VAD
    threshold: float | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    prefix_padding: InMs | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    idle_timeout: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    eagerness: Eagerness | None = None
    create_response: bool = True
    interrupt_response: bool = True
    transcription: Text | None = "gpt-transcribe"
    transcription_prompt: str | None = None
    noise_reduction: NoiseReduction | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class GeminiLiveConfig:
    """The options that only Gemini Live has.

    ``interrupts``: a player who speaks stops the model; ``turn_coverage``: the part of
    the microphone's audio that belongs to a turn; ``generation`` is more for the
    ``generationConfig``, as it stands; ``version`` is the API's.
    """

    start_sensitivity: Sensitivity | None = None
    end_sensitivity: Sensitivity | None = None
    prefix_padding: InMs | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    interrupts: bool = True
    turn_coverage: TurnCoverage | None = None
    language_code: Text | None = None
    transcription_languages: tuple[Text, ...] = ()
    proactive: bool | None = None
    affective: bool | None = None
    thinking_budget: int | None = None
    generation: Mapping[str, Any] = attrs.field(factory=dict)
    version: Text | None = None


@attrs.frozen(kw_only=True)
class S2SModel:
    """One model that hears and speaks.

    ``voice`` and ``language`` are those of NPCs that name none, ``silence`` what ends
    an utterance where the server finds that out. A None means the model's own value.

    Raises:
      ConfigError: if there is a provider and no model.
    """

    provider: S2SProvider | None = None
    model: str | None = None
    base_url: str | None = attrs.field(default=None, validator=if_given(web_address))
    api_key: Secret | None = None
    voice: str | None = None
    language: str | None = None
    speed: float | None = attrs.field(default=None, validator=if_given(above_zero))
    silence: InMs | None = attrs.field(default=None, validator=if_given(above_zero))
    thinking: Thinking | None = None
    audio: AudioFormat = AudioFormat.PCM
    openai_realtime: OpenAIRealtimeConfig = attrs.field(factory=OpenAIRealtimeConfig)
    gemini_live: GeminiLiveConfig = attrs.field(factory=GeminiLiveConfig)

    def __attrs_post_init__(self) -> None:
        if self.provider is not None and not self.model:
            raise ConfigError(f"{self.provider} needs model")


def _complete(_: Any, __: Any, models: tuple[S2SModel, ...]) -> None:
    for at, model in enumerate(models):
        if isinstance(model, S2SModel) and model.provider is None:
            raise ValueError(f"[{at}] needs provider")


@attrs.frozen(kw_only=True)
class S2SConfig(S2SModel):
    """The speech-to-speech model of NPCs whose engine is ``s2s``, and in
    order those that go on when it fails.

    ``automatic``: the server hears when a player starts and stops speaking, and
    answers by itself. ``rotate`` is the age at which a socket is replaced, ``idle``
    the silence after which it is closed until a player speaks again.
    """

    automatic: bool = True
    route: bool = True
    filler: bool = False
    tool_timeout: InMs = attrs.field(default=30.0, validator=above_zero)
    rotate: InMinutes = attrs.field(default=of_minutes(55), validator=above_zero)
    idle: InMinutes = attrs.field(default=of_minutes(10), validator=above_zero)
    fallbacks: tuple[S2SModel, ...] = attrs.field(default=(), validator=_complete)

    def at(self, name: str | None) -> S2SModel:
        """The model that an NPC names: of this provider, or ``provider:model``.

        The key is for its own provider, so the other one's is read from its variable;
        what it is asked for is in its section here.
        """
        keys = (field.name for field in attrs.fields(S2SModel))
        first = S2SModel(**{key: getattr(self, key) for key in keys})
        if name is None:
            return first
        said, _, model = name.partition(":")
        if said not in [*S2SProvider]:
            return attrs.evolve(first, model=name)
        provider = S2SProvider(said)
        if provider is self.provider:
            return attrs.evolve(first, model=model)
        key = os.environ.get(_KEYS[provider])
        return S2SModel(
            provider=provider,
            model=model,
            api_key=Secret(key) if key else None,
            language=self.language,
            openai_realtime=self.openai_realtime,
            gemini_live=self.gemini_live,
        )
