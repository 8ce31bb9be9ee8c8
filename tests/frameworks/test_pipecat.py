"""The adapter for Pipecat in real pipelines: `pipecat_program` plays the scenes, in the
environment of that framework, and this judges what happened.

The environment is made by ``make peers``; without it these tests are skipped, and with
``GLYPHOXA_PEERS=required`` they fail.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = Path(__file__).parent / ".pipecat" / "bin" / "python"
BEGIN, END = "LLMFullResponseStartFrame", "LLMFullResponseEndFrame"
USER, SILENT = "UserStartedSpeakingFrame", "UserStoppedSpeakingFrame"
TEXT, CUT = "AggregatedTextFrame", "InterruptionFrame"
ALL: Final = "One is one. Two words are here. Three comes last."

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if PYTHON.with_name("pip").exists() and shutil.which("espeak-ng"):
        return
    missing = "Pipecat is not installed beside (make peers), or no espeak-ng"
    if os.environ.get("GLYPHOXA_PEERS") == "required":
        pytest.fail(missing)
    pytest.skip(missing)


def run(*words: str | Path, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": f"{path}:{ROOT}"}
    return subprocess.run(
        [PYTHON, *words],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@attrs.frozen
class Played:
    """What the scenes brought, by name, and the log of all of them."""

    scenes: dict[str, dict[str, Any]]
    log: str

    def __getitem__(self, name: str) -> dict[str, Any]:
        found = self.scenes[name]
        assert "failed" not in found, found["failed"]
        return found


@pytest.fixture(scope="module")
def played(installed: None) -> Played:
    ran = run("-m", "tests.frameworks.pipecat_program")
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return Played({line["scene"]: line for line in lines}, ran.stderr)


def test_a_user_turn_is_one_utterance_and_gives_a_response(played: Played) -> None:
    found = played["frames"]
    assert found["down"] == [USER, SILENT, BEGIN, TEXT, TEXT, TEXT, END]
    assert found["up"] == []
    assert found["heard"][0] == ["ann", "What is one?"]


def test_words_outside_of_a_user_turn_are_answered_too(played: Played) -> None:
    assert played["frames"]["alone"] == [BEGIN, TEXT, TEXT, TEXT, END]
    assert played["frames"]["heard"][-1] == ["ann", "And two?"]


def test_metrics_are_those_of_a_language_model(played: Played) -> None:
    assert {"TTFBMetricsData", "ProcessingMetricsData", "LLMUsageMetricsData"} == set(
        played["frames"]["metrics"]
    )


def test_an_answer_may_begin_while_the_user_still_speaks(played: Played) -> None:
    assert (played["foreseen"]["early"], played["foreseen"]["in_all"]) == (1, 1)


def test_with_aggregators_only_the_newest_words_are_said(played: Played) -> None:
    found = played["contexts"]
    assert found["heard"] == [
        ["assistant", "Welcome, stranger."],
        ["Ann", "What is one?"],
        ["assistant", ALL],
        ["Ann", "And two?"],
    ]
    # And the framework's own context is what it would be with another model.
    assert found["context"] == [
        ["assistant", "Welcome, stranger."],
        ["user", "What is one?"],
        ["assistant", ALL],
        ["user", "And two?"],
        ["assistant", ALL],
    ]


def test_speakers_are_told_apart_by_their_ids(played: Played) -> None:
    assert played["speakers"]["said"] == [
        ["Ann", "I ask first."],
        ["assistant", ALL],
        ["u-2", "And I?"],
    ]


def test_of_more_utterances_than_may_wait_the_newest_are_refused(
    played: Played,
) -> None:
    (error,) = played["speakers"]["errors"]
    assert error == "8 utterances wait already; the newest words are lost"


def test_a_scene_answers_as_who_is_addressed_and_hears_the_rest(
    played: Played,
) -> None:
    found = played["scene"]
    assert found["spoken_by"] == ["Ysolde"] * 3 + ["Bartok"] * 3
    assert found["errors"] == []
    assert "Nice weather." in found["known"][0][0][1]


def test_another_npc_answers_from_the_next_utterance_on(played: Played) -> None:
    assert played["another"]["spoken_by"] == ["Bartok"] * 3 + ["Ysolde"] * 3


def test_speech_goes_through_silero_and_smart_turn(played: Played) -> None:
    assert played["aloud"]["frames"] == [
        *(USER, CUT, SILENT, BEGIN, END),
        *(USER, CUT, SILENT, BEGIN, END),
        *(USER, SILENT, BEGIN, END),
    ]


def test_what_was_spoken_is_what_is_remembered(played: Played) -> None:
    found = played["aloud"]
    assert found["first"][0] == ["ann", "What is one?"]
    role, heard = found["first"][1]
    assert role == "assistant"
    assert ALL.startswith(heard)
    assert heard != ALL, "the second question interrupted the first answer"
    assert found["last"][3] == ["assistant", ALL]


def test_a_sentence_that_was_cut_is_remembered_to_its_last_word(
    played: Played,
) -> None:
    found = played["by_words"]
    assert found["words"][:5] == ["One", "is", "one.", "Two", "words"]
    role, heard = found["heard"][1]
    assert role == "assistant"
    assert heard.startswith("One is one. Two words")
    assert ALL.startswith(heard)


def test_an_interruption_reaches_a_running_tool(played: Played) -> None:
    found = played["interrupted"]
    # The tool has said that it was cancelled; benchmarks/pipecat.py measures how soon.
    calls = [x for x in found["frames"] if x.startswith(("External", "Interruption"))]
    assert set(calls) == {
        "ExternalFunctionCallsStartedFrame",
        "ExternalFunctionCallInProgressFrame",
        "InterruptionFrame",
        "ExternalFunctionCallCancelFrame",  # may overtake the interruption
    }


def test_a_hung_tool_ends_at_its_ceiling_and_theirs_goes_on(played: Played) -> None:
    found = played["hung"]
    assert found["status"] == "timeout"
    assert found["ended_ms"] > 400  # how soon is measured by benchmarks/pipecat.py
    assert " ".join(found["said"]) == ALL
    assert played["theirs"]["ended_after_3_s"] == []


def test_a_model_that_is_away_is_an_error_and_an_audible_line(played: Played) -> None:
    found = played["away"]
    assert found["down"] == [USER, SILENT, BEGIN, TEXT, END]
    assert found["said"] == ["Hm. My thoughts wandered off just now. Say that again?"]
    ((category, text),) = found["errors"]
    assert category == "connectivity"
    assert text.startswith("the model failed (unreachable): ")
    assert found["usable"]


def test_a_refused_key_makes_it_unusable_until_a_turn_succeeds(
    played: Played,
) -> None:
    found = played["refused"]
    assert found["usable"] == [False, True]
    assert found["said"] == ["One is one."]


def test_no_key_is_in_the_log(played: Played) -> None:
    assert "the model failed (unreachable)" in played.log
    assert "sk-not-for-any-log" not in played.log


def test_a_runtime_that_has_ended_makes_the_processor_unusable(played: Played) -> None:
    found = played["closed"]
    assert found == {
        "scene": "closed",
        "errors": ["the runtime is closed"],
        "usable": False,
    }


@pytest.mark.parametrize("version", ["0.0.108", "1.13.2", "2.0.0"])
def test_another_version_is_named_when_it_is_imported(
    version: str, tmp_path: Path
) -> None:
    info = tmp_path / f"pipecat_ai-{version}.dist-info"
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: pipecat-ai\nVersion: {version}\n"
    (info / "METADATA").write_text(about)
    ran = run("-c", "import glyphoxa_trio.pipecat", path=tmp_path)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        "glyphoxa_trio.extras.UnsupportedVersion: an NPC in Pipecat is for"
        f" pipecat-ai 1.14 and later, before 2, and {version} is installed:"
        " pip install 'glyphoxa-trio[pipecat]'"
    )


EXAMPLE: Final = ROOT / "docs" / "examples" / "pipecat" / "bot.py"


def test_the_example_runs() -> None:
    ran = run(EXAMPLE)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert re.search(r"(?m)^Greymantle: Blinded: ", ran.stdout), ran.stdout


def test_the_types_fit_those_of_the_framework() -> None:
    # What the rest of the package imports is not there.
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--python-executable", PYTHON),
            *("--cache-dir", os.devnull, "--follow-imports", "silent"),
            *("-p", "glyphoxa_trio.pipecat"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=ROOT,
    )
    assert checked.returncode == 0, checked.stdout
