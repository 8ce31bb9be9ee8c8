"""The speech-to-speech models of a configuration, made for their providers.

Providers are imported only when the configuration asks for them.
"""

from __future__ import annotations

import attrs

from glyphoxa_trio.config import ConfigError, NpcConfig
from glyphoxa_trio.config.s2s import AudioFormat, S2SModel, S2SProvider
from glyphoxa_trio.providers.s2s import S2S


def spoken_model(config: S2SModel, place: str, npc: NpcConfig | None = None) -> S2S:
    """Return the model as configured, or with the NPC's own settings.

    Raises:
      ConfigError: for an option that the model, or its vendor, does not accept; with
        the ``place``.
    """
    try:
        match config.provider:
            case S2SProvider.OPENAI_REALTIME:
                return _openai(config, npc)
            case S2SProvider.GEMINI_LIVE:
                return _gemini(config)
            case None:
                raise ConfigError(f"name the provider of this model @ {place}")
    except ConfigError:
        raise
    except ValueError as error:  # an invalid address, key or option
        raise ConfigError(f"{error} @ {place}") from None


def _openai(config: S2SModel, npc: NpcConfig | None) -> S2S:
    from glyphoxa_trio.providers.openai_realtime import OpenAIRealtime, SessionOptions

    own = config.openai_realtime
    speed = config.speed
    if npc is not None and npc.voice.speed != 1.0:
        speed = npc.voice.speed
    options = SessionOptions(
        turn_detection=own.turn_detection.value,
        threshold=own.threshold,
        prefix_padding_ms=_in_ms(own.prefix_padding),
        silence_ms=_in_ms(config.silence),
        idle_timeout_ms=_in_ms(own.idle_timeout),
        eagerness=own.eagerness and own.eagerness.value,
        create_response=own.create_response,
        interrupt_response=own.interrupt_response,
        transcription=own.transcription,
        transcription_prompt=own.transcription_prompt,
        noise_reduction=own.noise_reduction and own.noise_reduction.value,
        speed=speed,
        thinking=config.thinking and config.thinking.value,
        audio=config.audio.value,
        extra=dict(own.extra),
    )
    return OpenAIRealtime(
        model=config.model or "",
        base_url=config.base_url,
        api_key=config.api_key,
        options=options,
    )


def _gemini(config: S2SModel) -> S2S:
    from glyphoxa_trio.providers.gemini_live import VERSION, GeminiLive, SessionOptions

    if config.speed is not None:
        raise ValueError("speed: gemini_live has none; say it in the personality")
    if config.audio is not AudioFormat.PCM:
        raise ValueError(
            f"audio: gemini_live takes pcm only, not {config.audio}; a telephone is"
            " heard all the same: npc.voice(rate=8000, encoding=...)"
        )
    own = config.gemini_live
    options = SessionOptions(
        start_sensitivity=own.start_sensitivity and own.start_sensitivity.value,
        end_sensitivity=own.end_sensitivity and own.end_sensitivity.value,
        prefix_padding_ms=_in_ms(own.prefix_padding),
        silence_ms=_in_ms(config.silence),
        interrupts=own.interrupts,
        turn_coverage=own.turn_coverage and own.turn_coverage.value,
        language_code=own.language_code,
        transcription_languages=own.transcription_languages,
        proactive=own.proactive,
        affective=own.affective,
        thinking=config.thinking and config.thinking.value,
        thinking_budget=own.thinking_budget,
        generation=dict(own.generation),
    )
    return GeminiLive(
        model=config.model or "",
        base_url=config.base_url,
        api_key=config.api_key,
        version=own.version or VERSION,
        options=options,
    )


def _in_ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def asked_for(config: S2SModel, npc: NpcConfig) -> object:
    """Return the settings that a connection is opened with; a change needs a new
    connection.

    The key is not among them: another key counts for the next connection.
    """
    return attrs.evolve(config, api_key=None), npc.voice.speed
