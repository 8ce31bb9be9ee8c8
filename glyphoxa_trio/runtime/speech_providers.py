"""The synthesizers and the recognizers of a configuration, made for their providers.

Providers are imported only when the configuration asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.config.voices import (
    RecognitionConfig,
    RecognitionProvider,
    RecognizerConfig,
    SynthesisConfig,
    SynthesisProvider,
    SynthesizerConfig,
)
from glyphoxa_trio.extras import missing
from glyphoxa_trio.providers.audio import AudioError, Resampler
from glyphoxa_trio.providers.chain import ModelCandidate
from glyphoxa_trio.providers.endpointing import Endpointing
from glyphoxa_trio.providers.speech import Recognizer, Synthesizer
from glyphoxa_trio.providers.speech_chain import NamedVoice, SynthesizerChain
from glyphoxa_trio.providers.utterance_recognizer import (
    ByListening,
    ByUtterance,
    RecognizerChain,
    UtteranceRecognizer,
)

if TYPE_CHECKING:
    from glyphoxa_trio.providers import pocketsphinx
    from glyphoxa_trio.providers.deepgram import Deepgram

_SYNTHESIS = "speech.synthesis"
_RECOGNITION = "speech.recognition"


def synthesizer_of(
    config: SynthesisConfig, warn: Callable[[str], None], stack: AsyncExitStack
) -> Synthesizer | None:
    """Return the synthesizer of a configuration, with those that follow a failure;
    None if it names no provider.

    Args:
      warn: told of synthesizers that fail.
      stack: closes their connections.

    Raises:
      ConfigError: if one is not installed, or its settings are of no use.
    """
    if config.provider is None:
        return None
    first = _voice(config, config, _SYNTHESIS, stack)
    if not config.fallbacks:
        return first
    candidates = [ModelCandidate[Synthesizer]("the first", first, warn)]
    for at, other in enumerate(config.fallbacks):
        place = f"{_SYNTHESIS}.fallbacks[{at}]"
        voice = _voice(other, config, place, stack)
        try:
            Resampler(voice.rate, first.rate)
        except AudioError as error:
            raise ConfigError(f"{error} @ {place}") from None
        candidates.append(ModelCandidate(f"fallbacks[{at}]", voice, warn))
    return SynthesizerChain(candidates)


def _voice(
    config: SynthesizerConfig,
    first: SynthesizerConfig,
    place: str,
    stack: AsyncExitStack,
) -> Synthesizer:
    """Return one synthesizer, which speaks with its own voice if the NPC's is for
    another one."""
    try:
        made = _synthesizer(config, place, stack)
    except ValueError as error:  # an invalid key
        raise ConfigError(f"{error} @ {place}") from None
    same = config.provider is first.provider
    knows = config is first or (same and config.voice is None)
    return NamedVoice(made, config.voice, knows)


def _synthesizer(
    config: SynthesizerConfig, place: str, stack: AsyncExitStack
) -> Synthesizer:
    match config.provider:
        case SynthesisProvider.ESPEAK:
            from glyphoxa_trio.providers.espeak import Espeak, installed

            if not installed():
                raise ConfigError(
                    "espeak-ng is not installed (apt install espeak-ng, "
                    f"brew install espeak-ng) @ {place}.provider"
                )
            return Espeak()
        case SynthesisProvider.OPENAI_SPEECH:
            from glyphoxa_trio.providers.openai_speech import RATE, OpenAISpeech
            from glyphoxa_trio.providers.speech_server import SpeechServer

            server = SpeechServer(
                base_url=config.base_url or "", api_key=config.api_key
            )
            stack.push_async_callback(server.aclose)
            return OpenAISpeech(
                model=config.model or "",
                server=server,
                rate=config.rate_hz or RATE,
                timeout=config.timeout,
            )
        case SynthesisProvider.ELEVENLABS:
            from glyphoxa_trio.providers.elevenlabs import RATE as ELEVENLABS_RATE
            from glyphoxa_trio.providers.elevenlabs import ElevenLabs

            return ElevenLabs(
                model=config.model,
                base_url=config.base_url,
                api_key=config.api_key,
                rate=config.rate_hz or ELEVENLABS_RATE,
                timeout=config.timeout,
            )
        case SynthesisProvider.WYOMING:
            from glyphoxa_trio.providers import wyoming

            return wyoming.WyomingSynthesis(
                server=wyoming.WyomingServer(config.base_url or "", config.model),
                rate=config.rate_hz or wyoming.RATE,
                timeout=config.timeout,
            )
        case None:
            raise ConfigError(f"name the provider of this synthesizer @ {place}")


def recognizer_of(
    config: RecognitionConfig,
    how: Endpointing,
    warn: Callable[[str], None],
    stack: AsyncExitStack,
) -> Recognizer | None:
    """Return the recognizer of a configuration, with those that follow a failure; None
    if it names no provider.

    Args:
      how: how it detects utterances.
      warn: told of recognizers that fail.
      stack: closes their connections.

    Raises:
      ConfigError: if one is not installed, or its settings are of no use.
    """
    if config.provider is None:
        return None
    from glyphoxa_trio.providers import pocketsphinx
    from glyphoxa_trio.providers.deepgram import Deepgram
    from glyphoxa_trio.providers.transcriptions import Transcriptions

    itself = config.provider is RecognitionProvider.DEEPGRAM and not config.fallbacks
    # It finds the start and end of speech for all but one.
    if not (itself or pocketsphinx.installed()):
        raise ConfigError(
            f"{missing('speech recognition', 'voice')} @ {_RECOGNITION}.provider"
        )
    first = _recognizer(config, how, _RECOGNITION, stack)
    if not config.fallbacks:
        if isinstance(first, pocketsphinx.Pocketsphinx | Transcriptions | Deepgram):
            return first
        return ByUtterance(model=first, endpointing=how)
    made = [("the first", first)]
    for at, other in enumerate(config.fallbacks):
        name = f"fallbacks[{at}]"
        made.append((name, _recognizer(other, how, f"{_RECOGNITION}.{name}", stack)))
    candidates = [
        ModelCandidate[UtteranceRecognizer](
            name,
            ByListening(recognizer=model, timeout=config.timeout)
            if isinstance(model, pocketsphinx.Pocketsphinx | Deepgram)
            else model,
            warn,
        )
        for name, model in made
    ]
    return ByUtterance(model=RecognizerChain(candidates), endpointing=how)


def _recognizer(
    config: RecognizerConfig, how: Endpointing, place: str, stack: AsyncExitStack
) -> UtteranceRecognizer | pocketsphinx.Pocketsphinx | Deepgram:
    try:
        match config.provider:
            case RecognitionProvider.POCKETSPHINX:
                from glyphoxa_trio.providers import pocketsphinx

                return pocketsphinx.Pocketsphinx(
                    phrases=config.phrases, endpointing=how
                )
            case RecognitionProvider.TRANSCRIPTIONS:
                from glyphoxa_trio.providers.transcriptions import Transcriptions

                server = Transcriptions(
                    model=config.model or "",
                    base_url=config.base_url or "",
                    api_key=config.api_key,
                    prompt=", ".join(config.phrases),
                    timeout=config.timeout,
                    endpointing=how,
                )
                stack.push_async_callback(server.aclose)
                return server
            case RecognitionProvider.WYOMING:
                from glyphoxa_trio.providers import wyoming

                return wyoming.WyomingRecognition(
                    server=wyoming.WyomingServer(config.base_url or ""),
                    model=config.model,
                    names=config.phrases,
                    timeout=config.timeout,
                )
            case RecognitionProvider.DEEPGRAM:
                from glyphoxa_trio.providers.deepgram import Deepgram

                return Deepgram(
                    model=config.model,
                    base_url=config.base_url,
                    api_key=config.api_key,
                    phrases=config.phrases,
                    timeout=config.timeout,
                )
            case None:
                raise ConfigError(f"name the provider of this recognizer @ {place}")
    except ValueError as error:  # phrases without words, or an invalid key
        raise ConfigError(f"{error} @ {place}") from None
