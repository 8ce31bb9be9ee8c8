"""The keys for speech: providers, what each of them needs, and fallbacks."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest

from glyphoxa_trio.config import Config, ConfigError, parse
from glyphoxa_trio.config.voices import (
    RecognitionProvider,
    RecognizerConfig,
    SpeechConfig,
    SynthesisProvider,
    SynthesizerConfig,
)
from glyphoxa_trio.observability.redaction import Redaction
from glyphoxa_trio.secret import Secret

SPEECH = {
    "provider": "openai_speech",
    "model": "kokoro",
    "base_url": "http://127.0.0.1:8880/v1",
    "voice": "af_heart",
}
PIPER = {"provider": "wyoming", "base_url": "tcp://127.0.0.1:10200"}


def read(**speech: Any) -> SpeechConfig:
    env = {"KEY": "sk-of-the-other"}
    config: Config = parse({"speech": speech}, source=PurePath("t.yaml"), env=env)
    return config.speech


def problem(**speech: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**speech)
    return str(caught.value)


def test_voices_follow_each_other_in_order() -> None:
    fallback = [SPEECH | {"api_key": "${KEY}", "rate_hz": 16_000}, PIPER]
    synthesis = read(
        synthesis={"provider": "espeak", "timeout_ms": 900, "fallbacks": fallback}
    ).synthesis
    assert synthesis.provider is SynthesisProvider.ESPEAK
    assert synthesis.timeout == 0.9
    assert synthesis.fallbacks == (
        SynthesizerConfig(
            provider=SynthesisProvider.OPENAI_SPEECH,
            model="kokoro",
            base_url="http://127.0.0.1:8880/v1",
            api_key=Secret("sk-of-the-other"),
            voice="af_heart",
            rate_hz=16_000,
        ),
        SynthesizerConfig(
            provider=SynthesisProvider.WYOMING, base_url="tcp://127.0.0.1:10200"
        ),
    )


def test_ears_follow_each_other_in_order() -> None:
    recognition = read(
        recognition={"provider": "pocketsphinx", "fallbacks": [PIPER]}
    ).recognition
    assert recognition.fallbacks == (
        RecognizerConfig(
            provider=RecognitionProvider.WYOMING, base_url="tcp://127.0.0.1:10200"
        ),
    )


@pytest.mark.parametrize(
    ("synthesis", "said"),
    [
        (
            {"provider": "openai_speech"},
            ["needs model", "needs base_url", "needs voice"],
        ),
        ({"provider": "wyoming"}, ["wyoming needs base_url"]),
        (PIPER | {"base_url": "http://x"}, ["wyoming must be tcp://HOST:PORT"]),
        (SPEECH | {"base_url": "tcp://x:1"}, ["must be http:// or https://"]),
        (PIPER | {"base_url": "tcp://x"}, ["tcp://127.0.0.1:10200"]),
        (PIPER | {"base_url": "tcp://x:1/voices"}, ["tcp://127.0.0.1:10200"]),
        (PIPER | {"base_url": "tcp://x y:1"}, ["tcp://127.0.0.1:10200"]),
        (PIPER | {"base_url": "tcp://me:pw@x:1"}, ["tcp://127.0.0.1:10200"]),
        (PIPER | {"base_url": "tcp://x:port"}, ["tcp://127.0.0.1:10200"]),
        ({"provider": "elevenlabs"}, ["needs voice", "elevenlabs needs api_key"]),
        (
            {"provider": "elevenlabs", "voice": "v", "base_url": "tcp://x:1"},
            ["base_url of elevenlabs must be http:// or https://"],
        ),
        (SPEECH | {"rate_hz": 7_999}, ["must be 8000 to 48000"]),
        (SPEECH | {"timeout_ms": 0}, ["timeout_ms"]),
        ({"provider": "espeak", "fallbacks": [{"model": "m"}]}, ["provider"]),
        (
            {"provider": "espeak", "fallbacks": [{"provider": "wyoming"}]},
            ["wyoming needs base_url @ t.yaml.speech.synthesis.fallbacks[0]"],
        ),
        (
            {"provider": "espeak", "fallbacks": [PIPER | {"fallbacks": []}]},
            ["unknown key 'fallbacks' @ t.yaml.speech.synthesis.fallbacks[0]"],
        ),
    ],
)
def test_what_is_missing_is_said(synthesis: dict[str, Any], said: list[str]) -> None:
    words = problem(synthesis=synthesis)
    for part in said:
        assert part in words


def test_a_vendor_whose_address_is_known_wants_its_key() -> None:
    assert "deepgram needs api_key" in problem(recognition={"provider": "deepgram"})
    there = {"provider": "deepgram", "base_url": "http://127.0.0.1:1"}
    assert read(recognition=there).recognition.model is None
    keyed = {"provider": "deepgram", "api_key": "${KEY}"}
    assert read(recognition=keyed).recognition.base_url is None


def test_the_key_of_a_fallback_is_a_secret_like_any_other() -> None:
    fallback = SPEECH | {"api_key": "${KEY}"}
    speech = read(synthesis={"provider": "espeak", "fallbacks": [fallback]})
    config = Config(speech=speech)
    assert "sk-of-the-other" not in repr(config)
    redaction = Redaction.of(config)
    assert redaction.clean("it said sk-of-the-other") == "it said [secret]"
