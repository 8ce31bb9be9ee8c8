"""The keys for whatever speaks: voices, speech, fillers; `s2s` has models that do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

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
    OPENAI_SPEECH = "openai_speech"
    WYOMING = "wyoming"
    ELEVENLABS = "elevenlabs"


class RecognitionProvider(StrEnum):
    POCKETSPHINX = "pocketsphinx"
    TRANSCRIPTIONS = "transcriptions"
    WYOMING = "wyoming"
    DEEPGRAM = "deepgram"


# Vendors whose address is known, and who want a key there.
_CLOUD: Final = (SynthesisProvider.ELEVENLABS, RecognitionProvider.DEEPGRAM)
# The keys that a provider cannot do without; the others need none.
_NEEDS: Final[Mapping[StrEnum, tuple[str, ...]]] = {
    SynthesisProvider.OPENAI_SPEECH: ("model", "base_url", "voice"),
    SynthesisProvider.WYOMING: ("base_url",),
    SynthesisProvider.ELEVENLABS: ("voice",),
    RecognitionProvider.TRANSCRIPTIONS: ("model", "base_url"),
    RecognitionProvider.WYOMING: ("base_url",),
}


def _usable_rate(_: Any, __: attrs.Attribute[Any], value: int) -> None:
    if not 8_000 <= value <= 48_000:
        raise ValueError("must be 8000 to 48000")


def _speech_address(_: Any, of: attrs.Attribute[Any], value: str) -> None:
    if not value.startswith("tcp://"):
        web_address(_, of, value)
        return
    try:
        parts = urlsplit(value)
        legal = bool(parts.hostname and parts.port) and parts.path in ("", "/")
        legal = legal and "@" not in value  # it is shown
    except ValueError:
        legal = False
    if not legal or any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError("must be an address such as tcp://127.0.0.1:10200")


def _check_needs(config: SynthesizerConfig | RecognizerConfig) -> None:
    """Check that a provider has what it needs.

    Raises:
      ConfigError: with all that is missing.
    """
    provider, address = config.provider, config.base_url
    if provider is None:
        return
    problems = [
        f"{provider} needs {key}"
        for key in _NEEDS.get(provider, ())
        if not getattr(config, key)
    ]
    if provider in _CLOUD and not (address or config.api_key):
        problems.append(f"{provider} needs api_key")
    wyoming = provider in (SynthesisProvider.WYOMING, RecognitionProvider.WYOMING)
    if address and address.startswith("tcp://") is not wyoming:
        scheme = "tcp://HOST:PORT" if wyoming else "http:// or https://"
        problems.append(f"base_url of {provider} must be {scheme}")
    if problems:
        raise ConfigError(*problems)


def _complete(_: Any, __: Any, others: tuple[Any, ...]) -> None:
    for at, other in enumerate(others):
        if getattr(other, "provider", other) is None:
            raise ValueError(f"[{at}] needs provider")


@attrs.frozen(kw_only=True)
class SynthesizerConfig:
    """One synthesizer.

    ``voice`` is that of NPCs that name none. ``rate_hz`` is the rate of raw audio that
    a server sends without saying it. ``timeout`` is from a sentence to its first audio.

    Raises:
      ConfigError: if the provider lacks a setting that it needs.
    """

    provider: SynthesisProvider | None = None
    model: str | None = None
    base_url: str | None = attrs.field(
        default=None, validator=if_given(_speech_address)
    )
    api_key: Secret | None = None
    voice: Text | None = None
    rate_hz: int | None = attrs.field(default=None, validator=if_given(_usable_rate))
    timeout: InMs = attrs.field(default=5.0, validator=above_zero)

    def __attrs_post_init__(self) -> None:
        _check_needs(self)


@attrs.frozen(kw_only=True)
class SynthesisConfig(SynthesizerConfig):
    """The synthesizer of NPCs that are not ``s2s``, and in order those that say a
    sentence when it cannot."""

    fallbacks: tuple[SynthesizerConfig, ...] = attrs.field(
        default=(), validator=_complete
    )


@attrs.frozen(kw_only=True)
class RecognizerConfig:
    """One recognizer.

    ``phrases`` are what players are likely to say: for ``pocketsphinx`` all that it
    understands then, for others a hint. ``timeout`` is for one utterance.

    Raises:
      ConfigError: if the provider lacks a setting that it needs.
    """

    provider: RecognitionProvider | None = None
    model: str | None = None
    base_url: str | None = attrs.field(
        default=None, validator=if_given(_speech_address)
    )
    api_key: Secret | None = None
    phrases: tuple[Text, ...] = ()
    timeout: InMs = attrs.field(default=15.0, validator=above_zero)

    def __attrs_post_init__(self) -> None:
        _check_needs(self)


@attrs.frozen(kw_only=True)
class RecognitionConfig(RecognizerConfig):
    """The recognizer of players for NPCs that are not ``s2s``, and in order those
    that hear an utterance when it cannot."""

    fallbacks: tuple[RecognizerConfig, ...] = attrs.field(
        default=(), validator=_complete
    )


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
