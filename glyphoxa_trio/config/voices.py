"""The keys for whatever speaks: voices, speech, fillers; `s2s` has models that do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.tier import Tier

from .fields import InMs, Text, above_zero, if_given, not_empty, not_negative
from .problems import ConfigError
from .s2s import S2SConfig as S2SConfig
from .s2s import S2SProvider as S2SProvider
from .servers import web_address


class Engine(StrEnum):
    """The engine that turns a player's words into an answer."""

    CASCADED = "cascaded"
    SENTENCE_CASCADE = "sentence_cascade"
    S2S = "s2s"


class CascadeMode(StrEnum):
    """When a `sentence_cascade` NPC opens with the fast model."""

    AUTO = "auto"  # when at least one tool is visible
    ALWAYS = "always"
    OFF = "off"


@attrs.frozen(kw_only=True)
class VoiceConfig:
    """The sound of an NPC, whichever engine speaks.

    ``name`` is the vendor's or the synthesiser's, ``language`` a tag such as ``en-GB``,
    ``pronunciation`` the spoken form of written words, ``extra`` is passed on as it
    is to the engine.
    """

    name: str | None = None
    language: str | None = None
    speed: float = attrs.field(default=1.0, validator=above_zero)
    pronunciation: Mapping[str, Text] = attrs.field(factory=dict)
    extra: Mapping[str, Any] = attrs.field(factory=dict)


class SynthesisProvider(StrEnum):
    ESPEAK = "espeak"


class RecognitionProvider(StrEnum):
    POCKETSPHINX = "pocketsphinx"
    TRANSCRIPTIONS = "transcriptions"


@attrs.frozen(kw_only=True)
class SynthesisConfig:
    """The synthesizer of NPCs that are not ``s2s``."""

    provider: SynthesisProvider | None = None


@attrs.frozen(kw_only=True)
class RecognitionConfig:
    """The recognizer of players for NPCs that are not ``s2s``.

    ``phrases`` are what players are likely to say: for ``pocketsphinx`` all that it
    understands then, for ``transcriptions`` a hint. ``timeout`` is for one utterance.

    Raises:
      ConfigError: if the provider lacks a setting that it needs.
    """

    provider: RecognitionProvider | None = None
    model: str | None = None
    base_url: str | None = attrs.field(default=None, validator=if_given(web_address))
    api_key: Secret | None = None
    phrases: tuple[Text, ...] = ()
    timeout: InMs = attrs.field(default=15.0, validator=above_zero)

    def __attrs_post_init__(self) -> None:
        if self.provider is RecognitionProvider.TRANSCRIPTIONS:
            missing = [key for key in ("model", "base_url") if not getattr(self, key)]
            if missing:
                raise ConfigError(*(f"{self.provider} needs {key}" for key in missing))


@attrs.frozen(kw_only=True)
class SpeechConfig:
    synthesis: SynthesisConfig = attrs.field(factory=SynthesisConfig)
    recognition: RecognitionConfig = attrs.field(factory=RecognitionConfig)


class SpeechDetector(StrEnum):
    """The detector of speech in a microphone's audio."""

    WEBRTC = "webrtc"  # cheap, and takes music and typing for speech
    SILERO = "silero"  # behind the other one: a voice, and nothing else


@attrs.frozen(kw_only=True)
class TurnTakingConfig:
    """The limits of speech, and of interruptions, where they are found here.

    ``begin`` of speech begins an utterance, ``end`` of hardly any ends it. One with
    less than ``interrupt`` of speech, or less than ``interrupt_words``, does not
    interrupt.

    Raises:
      ConfigError: if a time is none that people speak or are silent for.
    """

    detector: SpeechDetector = SpeechDetector.WEBRTC
    begin: InMs = attrs.field(default=0.15, validator=above_zero)
    end: InMs = attrs.field(default=0.6, validator=above_zero)
    interrupt: InMs = attrs.field(default=0.0, validator=not_negative)
    interrupt_words: int = attrs.field(default=0, validator=not_negative)

    def __attrs_post_init__(self) -> None:
        problems = [
            f"{key}_ms must be {low:g} to {high:g}"
            for key, low, high in (
                ("begin", 30, 1000),
                ("end", 100, 5000),
                ("interrupt", 0, 5000),
            )
            if not low <= round(1000 * getattr(self, key), 6) <= high
        ]
        if problems:
            raise ConfigError(*problems)


@attrs.frozen(kw_only=True)
class FillerThresholds:
    """Beyond these the tools of a turn of that tier are worth a filler."""

    fast: InMs = attrs.field(default=0.5, validator=above_zero)
    standard: InMs = attrs.field(default=1.0, validator=above_zero)
    deep: InMs = attrs.field(default=1.0, validator=above_zero)

    def of(self, tier: Tier) -> float:
        return (self.fast, self.standard, self.deep)[tier]


@attrs.frozen(kw_only=True)
class FillerConfig:
    """Something short to say while tools are waited for.

    After ``after`` in a fan-out, if its missing calls usually take longer than the
    threshold of the turn's tier. A tool may have a threshold and a message of its own.
    """

    enabled: bool = True
    after: InMs = attrs.field(default=0.7, validator=not_negative)
    thresholds: FillerThresholds = FillerThresholds()
    lines: tuple[Text, ...] = attrs.field(
        default=("Hm, let me see.", "A moment.", "Let me think."), validator=not_empty
    )
