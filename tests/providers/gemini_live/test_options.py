"""What may be asked of a session: each option as the vendor's types take it, and what a
family of models does not take, before any socket is opened."""

from __future__ import annotations

from typing import Any

import pytest

from glyphoxa_trio.providers.gemini_live import GeminiLive, SessionOptions
from glyphoxa_trio.providers.gemini_live.profiles import profile_of
from glyphoxa_trio.providers.gemini_live.wire import GeminiWire
from glyphoxa_trio.providers.s2s import Setup, SpeechStarted, SpeechStopped

from .support import EXTENDED_3_8, FLASH_3_1, LIVE_3_8, NATIVE_2_5, UNKNOWN, Talk


def talk(model: str = LIVE_3_8, *, automatic: bool = True, **options: Any) -> Talk:
    setup = Setup(instructions="You are Greymantle.", automatic=automatic, voice="Puck")
    profile, asked = profile_of(model), SessionOptions(**options)
    wire = GeminiWire(model=model, profile=profile, setup=setup, options=asked)
    return Talk(wire)


def setup_of(model: str = LIVE_3_8, **options: Any) -> dict[str, Any]:
    """The setup that is sent, as the vendor's types take it."""
    sent: dict[str, Any] = talk(model, **options).opened()["setup"]
    return sent


def test_how_it_hears_is_said() -> None:
    sent = setup_of(
        start_sensitivity="low",
        end_sensitivity="high",
        prefix_padding_ms=40,
        silence_ms=700,
        interrupts=False,
        turn_coverage="all_input",
    )
    assert sent["realtimeInputConfig"] == {
        "automaticActivityDetection": {
            "startOfSpeechSensitivity": "START_SENSITIVITY_LOW",
            "endOfSpeechSensitivity": "END_SENSITIVITY_HIGH",
            "prefixPaddingMs": 40,
            "silenceDurationMs": 700,
        },
        "activityHandling": "NO_INTERRUPTION",
        "turnCoverage": "TURN_INCLUDES_ALL_INPUT",
    }


def test_by_hand_it_detects_nothing_whatever_the_options() -> None:
    sent = setup_of(automatic=False, silence_ms=700, turn_coverage="activity")
    assert sent["realtimeInputConfig"] == {
        "automaticActivityDetection": {"disabled": True},
        "activityHandling": "START_OF_ACTIVITY_INTERRUPTS",
        "turnCoverage": "TURN_INCLUDES_ONLY_ACTIVITY",
    }


def test_languages_and_what_is_generated_are_said_beside_the_voice() -> None:
    sent = setup_of(
        language_code="de-DE",
        transcription_languages=("de-DE", "en-GB"),
        generation={"temperature": 0.5},
    )
    speech = sent["generationConfig"]["speechConfig"]
    assert speech["languageCode"] == "de-DE"
    assert speech["voiceConfig"]["prebuiltVoiceConfig"] == {"voiceName": "Puck"}
    assert sent["generationConfig"]["temperature"] == 0.5
    assert sent["inputAudioTranscription"] == {"languageCodes": ["de-DE", "en-GB"]}


def test_switches_and_thoughts_are_said() -> None:
    sent = setup_of(NATIVE_2_5, proactive=True, affective=True, thinking_budget=256)
    assert sent["proactivity"] == {"proactiveAudio": True}
    assert sent["generationConfig"]["enableAffectiveDialog"] is True
    assert sent["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 256}
    sent = setup_of(FLASH_3_1, thinking="low")
    assert sent["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "LOW"}


def test_what_is_not_said_is_left_to_the_vendor() -> None:
    sent = setup_of()
    assert not {"realtimeInputConfig", "proactivity"} & sent.keys()
    assert sent["inputAudioTranscription"] == {}
    assert [*sent["generationConfig"]] == ["responseModalities", "speechConfig"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"start_sensitivity": "medium"}, "start_sensitivity: one of high, low"),
        ({"silence_ms": 100_000}, "silence_ms: 0 to 60000, got 100000"),
        ({"thinking": "low", "thinking_budget": 1}, "thinking_budget: set only one"),
        ({"thinking_budget": -2}, "thinking_budget: -1 or more, got -2"),
        ({"generation": {"responseModalities": []}}, "cannot be set here"),
    ],
)
def test_what_cannot_be_says_so(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SessionOptions(**options)


BUDGET = {"thinking_budget": 128}
LEVEL = {"thinking": "low"}
SWITCHES = [{"proactive": True}, {"proactive": False}, {"affective": True}]


@pytest.mark.parametrize(
    ("model", "taken", "refused"),
    [
        (NATIVE_2_5, [BUDGET, *SWITCHES], [LEVEL]),
        (FLASH_3_1, [LEVEL], [BUDGET, *SWITCHES]),
        (LIVE_3_8, [], [BUDGET, LEVEL, *SWITCHES]),
        (EXTENDED_3_8, [LEVEL], [BUDGET, *SWITCHES]),
        (UNKNOWN, [LEVEL, BUDGET], SWITCHES),
    ],
)
def test_what_a_family_does_not_take_closes_no_socket(
    model: str, taken: list[dict[str, Any]], refused: list[dict[str, Any]]
) -> None:
    for options in taken:
        GeminiLive(model=model, options=SessionOptions(**options))
    for options in refused:
        (name,) = options
        with pytest.raises(ValueError, match=rf"^{name}: {model} .*(leave|set)"):
            GeminiLive(model=model, options=SessionOptions(**options))


@pytest.mark.parametrize("interrupts", [True, False])
def test_one_that_is_not_interrupted_says_nothing_of_who_speaks(
    interrupts: bool,
) -> None:
    found = talk(interrupts=interrupts)
    found.opened()
    found.hear({"setupComplete": {}})
    begins = {"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}}
    ends = {"voiceActivity": {"voiceActivityType": "ACTIVITY_END"}}
    events = found.hear(begins, ends)
    kinds = [SpeechStarted, SpeechStopped] if interrupts else []
    assert [type(event) for event in events] == kinds
