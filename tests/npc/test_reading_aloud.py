"""What other programs are given to speak, and what they say was heard of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import glyphoxa_trio
from glyphoxa_trio.npc import Filler, Sentence
from glyphoxa_trio.npc.reading_aloud import AnswerReader


def sentence(text: str, *, round_: int = 0, npc: str = "Bob") -> Sentence:
    return Sentence(npc=npc, turn=1, text=text, round=round_)


def test_each_response_of_a_model_is_read_by_itself() -> None:
    reader = AnswerReader()
    assert reader.read(sentence("```")).text == ""
    assert reader.read(sentence("print(1)")).text == ""
    filler = Filler(npc="Bob", turn=1, text="**Let me see.** 🤔", round=0)
    assert reader.read(filler).text == "Let me see."
    assert reader.read(sentence("print(2)")).text == ""
    assert reader.read(sentence("It is open.", round_=1)).text == "It is open."
    assert reader.read(sentence("<!-- a", round_=1)).text == ""
    assert reader.read(sentence("Hail.", round_=1, npc="Ann")).text == "Hail."


class Turn:
    """Notes what it is told was heard."""

    told = ""

    def heard(self, text: str, *, over: bool) -> None:
        self.told = " ".join(text.split())


def pipeline_answer() -> Any:
    """An answer in a pipeline, which needs nothing of that framework itself."""
    path = Path(glyphoxa_trio.__file__).parent / "pipecat" / "answer.py"
    spec = importlib.util.spec_from_file_location("pipeline_answer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PipelineAnswer()


@pytest.mark.parametrize(
    ("spoken", "told"),
    [
        ([], ""),
        ([(7, "See")], "**See**"),
        ([(7, "See the")], "**See** the"),
        ([(7, "See the old ma")], "**See** the [old"),
        (
            [(7, "See the old"), (7, "map.")],
            "**See** the [old map](https://m.example). ---",
        ),
        ([(9, "G")], "**See** the [old map](https://m.example). ---"),
        ([(9, "Go!")], "**See** the [old map](https://m.example). --- _Go!_"),
    ],
)
def test_what_a_pipeline_has_spoken_is_told_as_it_was_written(
    spoken: list[tuple[int, str]], told: str
) -> None:
    answer, turn = pipeline_answer(), Turn()
    answer.entered(turn, reported=True)
    for frame, text in (
        (7, "**See** the [old map](https://m.example)."),
        (0, "---"),
        (9, "_Go!_"),
    ):
        form = answer.reader.read(sentence(text))
        if form.text:
            answer.give(form, frame)
        else:
            answer.pass_over(form)
    for frame, text in spoken:
        answer.hear(frame, text)
    assert turn.told == told
