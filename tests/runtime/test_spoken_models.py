"""The models of NPCs that speak, as a file configures them: what the vendor's server is
asked for, and what no server would take."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import ConfigError, load_text
from glyphoxa_trio.npc import ModelSwitched, TurnDone
from glyphoxa_trio.runtime.unused_keys import idle_keys
from glyphoxa_trio.testing.gemini_server import open_gemini_server
from glyphoxa_trio.testing.realtime_server import (
    Refuse,
    Speak,
    Transcription,
    open_realtime_server,
)

OPENAI = "provider: openai_realtime, model: gpt-realtime-2"
GEMINI_38 = "provider: gemini_live, model: gemini-3.8-live"
SEMANTIC = "{turn_detection: semantic_vad}"
GEMINI = "provider: gemini_live, model: gemini-2.5-flash-native-audio"


def config(s2s: str, *npcs: str, more: str = "") -> Config:
    cast = "\n".join(f"  - {{engine: s2s, {npc}}}" for npc in npcs or ("name: Bo",))
    text = (
        f"s2s: {{api_key: k, {s2s}}}\nnpcs:\n{cast}\nmcp: {{remember: false}}\n{more}"
    )
    return load_text(text, source=Path("table.yaml"), env={})


async def say(chosen: Config, *names: str) -> None:
    """Have each of them answer once."""
    with trio.fail_after(60):
        async with open_runtime(chosen) as runtime:
            for name in names or ("Bo",):
                async with runtime.npc(name).say("Hello?") as turn:
                    assert (await turn.finish()).text == "Well met."


async def openai_session(s2s: str, *npcs: str, **more: Any) -> dict[str, Any]:
    """The session that is in force at the vendor's strict fake."""
    async with open_realtime_server([Speak("Well met.", ms=40)]) as server:
        said = f"{OPENAI}, base_url: '{server.base_url}', {s2s}"
        await say(config(said, *npcs, **more))
        assert not server.violations
    now: dict[str, Any] = server.sessions[0].settings.now
    return now


async def gemini_setup(s2s: str, model: str = GEMINI) -> dict[str, Any]:
    async with open_gemini_server([Speak("Well met.", ms=40)]) as server:
        await say(config(f"{model}, base_url: '{server.base_url}', {s2s}"))
        assert not server.violations
    setup: dict[str, Any] = server.sessions[0].setup
    return setup


async def test_a_file_says_how_openai_hears_and_speaks() -> None:
    now = await openai_session(
        "silence_ms: 700, thinking: low, language: de-DE, speed: 1.2, openai_realtime:"
        " {threshold: 0.6, prefix_padding_ms: 250, noise_reduction: far_field,"
        " transcription: gpt-4o-transcribe, transcription_prompt: Ysolde,"
        " extra: {max_output_tokens: 512}}"
    )
    hears, speaks = now["audio"]["input"], now["audio"]["output"]
    detection = hears["turn_detection"]
    assert (detection["silence_duration_ms"], detection["threshold"]) == (700, 0.6)
    assert detection["prefix_padding_ms"] == 250
    assert hears["noise_reduction"] == {"type": "far_field"}
    assert hears["transcription"] == {
        "model": "gpt-4o-transcribe",
        "prompt": "Ysolde",
        "language": "de",
    }
    assert now["reasoning"] == {"effort": "low"}
    assert speaks["speed"] == 1.2
    assert now["max_output_tokens"] == 512


async def test_an_npc_has_its_own_voice_language_and_speed() -> None:
    now = await openai_session(
        "voice: marin, language: de, speed: 0.9",
        "name: Bo, voice: {name: cedar, language: en-GB, speed: 1.3}",
    )
    assert now["audio"]["output"]["voice"] == "cedar"
    assert now["audio"]["output"]["speed"] == 1.3
    assert now["audio"]["input"]["transcription"]["language"] == "en"


async def test_a_file_says_how_gemini_hears_and_speaks() -> None:
    setup = await gemini_setup(
        "silence_ms: 700, gemini_live: {start_sensitivity: low, proactive: true,"
        " affective: true, thinking_budget: 64, turn_coverage: activity,"
        " language_code: en-GB, transcription_languages: [en-GB],"
        " interrupts: false, version: v1alpha}"
    )
    hears = setup["realtimeInputConfig"]
    assert hears["automaticActivityDetection"] == {
        "startOfSpeechSensitivity": "START_SENSITIVITY_LOW",
        "silenceDurationMs": 700,
    }
    assert hears["activityHandling"] == "NO_INTERRUPTION"
    assert hears["turnCoverage"] == "TURN_INCLUDES_ONLY_ACTIVITY"
    assert setup["proactivity"] == {"proactiveAudio": True}
    generation = setup["generationConfig"]
    assert generation["enableAffectiveDialog"] is True
    assert generation["thinkingConfig"] == {"thinkingBudget": 64}
    assert generation["speechConfig"]["languageCode"] == "en-GB"
    assert setup["inputAudioTranscription"] == {"languageCodes": ["en-GB"]}


@pytest.mark.parametrize(
    ("s2s", "why"),
    [
        (f"{OPENAI}, speed: 3", r"speed: 0\.25 to 1\.5, got 3 @ s2s"),
        (
            f"{OPENAI}, silence_ms: 9, openai_realtime: {SEMANTIC}",
            "silence_ms is for turn_detection: server_vad.*@ s2s",
        ),
        (
            "provider: openai_realtime, model: gpt-realtime, thinking: low",
            "thinking: gpt-realtime does not think; leave it out.*@ s2s",
        ),
        (
            f"{GEMINI_38}, thinking: low",
            "thinking: gemini-3.8-live decides by itself how much it thinks.*@ s2s",
        ),
        (
            f"{GEMINI_38}, gemini_live: {{proactive: false}}",
            "proactive: gemini-3.8-live is always so.*leave it out @ s2s",
        ),
        (f"{GEMINI}, speed: 1.2", "speed: gemini_live has none.*@ s2s"),
        (f"{GEMINI}, audio: pcmu", "audio: gemini_live takes pcm only.*@ s2s"),
    ],
)
async def test_what_a_model_does_not_take_is_an_error_of_the_configuration(
    s2s: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        async with open_runtime(config(s2s)):
            raise AssertionError("it was opened")


@pytest.mark.parametrize(
    ("s2s", "why"),
    [
        ("thinking: much", r"expected one of minimal, low.* @ .*s2s\.thinking"),
        (
            "openai_realtime: {turn_detection: vad}",
            r"expected one of server_vad.* @ .*s2s\.openai_realtime\.turn_detection",
        ),
        (
            "openai_realtime: {eagernes: low}",
            r"did you mean 'eagerness'\?, line 1 @ .*s2s\.openai_realtime",
        ),
        (
            "gemini_live: {prefix_padding_ms: -1}",
            r"must not be negative, line 1 @ .*s2s\.gemini_live\.prefix_padding_ms",
        ),
    ],
)
def test_a_wrong_word_names_its_place(s2s: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        config(s2s)


async def test_npcs_of_one_table_have_different_models() -> None:
    async with open_realtime_server([Speak("Well met.", ms=40)]) as server:
        chosen = config(
            f"{OPENAI}, base_url: '{server.base_url}'",
            "name: Bo",
            "name: Di, s2s_model: gpt-realtime-2.1-mini",
        )
        await say(chosen, "Bo", "Di")
        models = [session.settings.model for session in server.sessions]
    assert models == ["gpt-realtime-2", "gpt-realtime-2.1-mini"]


def test_a_model_of_another_provider_has_its_own_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "g-key")
    chosen = config(f"{OPENAI}, gemini_live: {{affective: true}}")
    other = chosen.s2s.at("gemini_live:gemini-2.5-flash-native-audio")
    assert other.api_key is not None
    assert other.api_key.reveal() == "g-key"
    assert other.gemini_live.affective
    assert other.base_url is None
    same = chosen.s2s.at("openai_realtime:gpt-realtime-1.5")
    assert same.api_key is not None
    assert (same.api_key.reveal(), same.model) == ("k", "gpt-realtime-1.5")


async def test_an_npcs_own_model_that_cannot_be_names_the_npc() -> None:
    chosen = config(f"{OPENAI}, thinking: low", "name: Di, s2s_model: gpt-realtime")
    with pytest.raises(ConfigError, match=r"does not think.*@ npcs\[Di\]\.s2s_model"):
        async with open_runtime(chosen):
            raise AssertionError("it was opened")


def test_a_section_of_a_vendor_whom_nobody_has_is_said_to_do_nothing() -> None:
    idle = config(f"{OPENAI}, gemini_live: {{affective: true}}")
    (line,) = idle_keys(idle)
    assert line.endswith("@ s2s.gemini_live")
    used = config(
        f"{OPENAI}, gemini_live: {{affective: true}}",
        "name: Bo, s2s_model: 'gemini_live:gemini-2.5-native-audio'",
    )
    assert not [*idle_keys(used)]
    reads = load_text("npcs: [{name: Bo, s2s_model: x}]", source=Path("t.yaml"), env={})
    (line,) = idle_keys(reads)
    assert line == (
        "s2s_model is for engine: s2s, and does nothing for cascaded"
        " @ npcs[Bo].s2s_model"
    )


# When the first one fails.


async def test_a_second_model_goes_on_over_another_vendors_wire() -> None:
    reply = [Speak("Well met.", ms=40)]
    async with (
        open_realtime_server(reply, handshakes=[Refuse(401)] * 9) as first,
        open_gemini_server(reply, hears=[Transcription("Who is there?")]) as second,
    ):
        chosen = config(
            f"{OPENAI}, base_url: '{first.base_url}', voice: marin, fallbacks: [{{"
            f"{GEMINI_38}, base_url: '{second.base_url}', api_key: k, voice: Puck}}]"
        )
        with trio.fail_after(60):
            async with open_runtime(chosen) as runtime:
                npc = runtime.npc("Bo")
                async with npc.say("Hello?") as turn:
                    events = [event async for event in turn]
                (switched,) = [x for x in events if isinstance(x, ModelSwitched)]
                assert (switched.model, switched.instead_of) == (
                    "gemini-3.8-live",
                    "gpt-realtime-2",
                )
                assert switched.reason.startswith("authentication: HTTP 401")
                assert turn.done is not None
                assert turn.done.text == "Well met."
                # The microphone goes on as it was: the second one wants another rate.
                async with npc.voice(rate=24_000) as voice:
                    voice.hear(_tone(24_000, 0.8) + bytes(2 * 24_000))
                    async for event in voice:
                        if isinstance(event, TurnDone):
                            break
                assert isinstance(event, TurnDone)
                assert event.text == "Well met."
                assert any("HTTP 401" in x.text for x in runtime.warnings)
        assert second.violations == []
        (session,) = second.sessions
        voice_config = session.setup["generationConfig"]["speechConfig"]["voiceConfig"]
        assert voice_config["prebuiltVoiceConfig"]["voiceName"] == "Puck"
        # 1.8 s at 16 kHz, but for what the conversion still looks ahead at.
        assert 1.6 < len(session.hearing.audio) / 32_000 < 1.9


def _tone(rate: int, seconds: float) -> bytes:
    times = range(int(rate * seconds))
    samples = (round(9000 * math.sin(2 * math.pi * 300 * i / rate)) for i in times)
    return b"".join(struct.pack("<h", sample) for sample in samples)


async def test_a_fallback_that_cannot_be_names_its_place() -> None:
    spare = f"fallbacks: [{{{GEMINI_38}, thinking: low}}]"
    with pytest.raises(ConfigError, match=r"decides by itself.*@ s2s\.fallbacks\[0\]"):
        async with open_runtime(config(f"{OPENAI}, {spare}")):
            raise AssertionError("it was opened")
    with pytest.raises(ConfigError, match=r"\[0\] needs provider.*s2s\.fallbacks"):
        config(f"{OPENAI}, fallbacks: [{{model: x}}]")


async def test_what_was_spoken_and_written_down_is_paid_as_such() -> None:
    price = "gpt-realtime-2: {input: 0, output: 0, audio_output: 2000000}"
    prices = f"cost: {{prices: {{{price}, gpt-transcribe: {{minute: 60}}}}}}\n"
    async with open_realtime_server(
        [Speak("Well met.", ms=2000)], hears=[Transcription("Who is there?")]
    ) as server:
        chosen = config(f"{OPENAI}, base_url: '{server.base_url}'", more=prices)
        with trio.fail_after(60):
            async with open_runtime(chosen) as runtime:
                npc = runtime.npc("Bo")
                async with npc.say("Hello?") as turn:
                    await turn.finish()
                spoken = runtime.cost.models["gpt-realtime-2"]
                assert spoken.audio_output_tokens == 40  # one for 50 ms
                assert spoken.cost == 80
                async with npc.voice(rate=24_000) as voice:
                    voice.hear(_tone(24_000, 0.8) + bytes(2 * 24_000))
                    async for event in voice:
                        if isinstance(event, TurnDone):
                            break
                # The words may come after the answer.
                while "gpt-transcribe" not in runtime.cost.models:  # noqa: ASYNC110
                    await trio.sleep(0.01)
                written = runtime.cost.models["gpt-transcribe"]
                assert written.audio_time == pytest.approx(1.3, abs=0.5)
                assert written.cost == pytest.approx(written.audio_time)
