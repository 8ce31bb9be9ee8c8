"""What a model thinks is never said, however its stream is split."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.thoughts import Thoughts, begins_with_thought

SECRET = "the king is dead"
TAGS = [
    ("<think>", "</think>"),
    ("<THINK>", "</Think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<reasoning>", "</reasoning>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
]
NOISE = st.text(
    st.sampled_from("<>/[]|thinkTHINK \nab\xc7\u0130\u017f\u212a"), max_size=30
)


def fed(filter_: Thoughts, text: str, cuts: list[int], *, cut: bool = False) -> str:
    edges = sorted({0, len(text), *(at % (len(text) + 1) for at in cuts)})
    pieces = [text[a:b] for a, b in pairwise(edges)]
    return "".join(filter_.feed(piece) for piece in pieces) + filter_.end(cut=cut)


@pytest.mark.parametrize(("begin", "end"), TAGS)
@given(cuts=st.lists(st.integers(0, 200)), blank=st.sampled_from(["", "\n", "\n\n "]))
def test_a_thought_is_never_said(
    begin: str, end: str, cuts: list[int], blank: str
) -> None:
    text = f"{begin}{SECRET} < 3 [x]{end}{blank}Well met."
    assert fed(Thoughts(), text, cuts) == "Well met."


@given(cuts=st.lists(st.integers(0, 200)))
def test_a_thought_in_the_middle_is_not_said_either(cuts: list[int]) -> None:
    text = f"Well <think>{SECRET}</think>met."
    assert fed(Thoughts(), text, cuts) == "Well met."


@given(cuts=st.lists(st.integers(0, 200)))
def test_a_thought_that_never_ends_is_not_said(cuts: list[int]) -> None:
    assert fed(Thoughts(), f"<think>{SECRET}", cuts) == ""


@given(cuts=st.lists(st.integers(0, 200)), blank=st.sampled_from(["", "\n\n"]))
def test_a_model_that_is_known_to_begin_so_needs_no_opening_tag(
    cuts: list[int], blank: str
) -> None:
    text = f"Hm, {SECRET}.\n</think>{blank}Well met."
    assert fed(Thoughts(begins=True), text, cuts) == "Well met."


def test_without_any_tag_all_of_it_was_the_answer_unless_it_was_cut() -> None:
    assert fed(Thoughts(begins=True), "Well met.", [3]) == "Well met."
    assert fed(Thoughts(begins=True), SECRET, [3], cut=True) == ""


def test_where_the_server_tells_thoughts_apart_nothing_is_kept_back() -> None:
    thoughts = Thoughts(begins=True)
    thoughts.elsewhere()
    assert thoughts.feed("Well met.") == "Well met."


@given(cuts=st.lists(st.integers(0, 200)))
def test_of_a_model_that_nobody_knows_the_first_lone_tag_is_told(
    cuts: list[int],
) -> None:
    """The limit: what had left before the tag cannot be taken back."""
    text = f"Hm, {SECRET}.\n</think>\n\nWell met."
    edges = sorted({0, len(text), *(at % (len(text) + 1) for at in cuts)})
    told: list[str] = []
    thoughts = Thoughts(lone=lambda: told.append("lone"))
    said, gone = "", ""
    for a, b in pairwise(edges):
        piece = thoughts.feed(text[a:b])
        if thoughts.unsaid:
            thoughts.unsaid, said, gone = False, "", said
        said += piece
    assert said + thoughts.end() == "Well met."
    assert told == ["lone"]
    assert f"Hm, {SECRET}.\n".startswith(gone)
    assert gone + thoughts.written == f"Hm, {SECRET}.\n</think>\n\n"


def test_a_tag_behind_a_whole_thought_ends_nothing() -> None:
    told: list[str] = []
    thoughts = Thoughts(lone=lambda: told.append("lone"))
    assert fed(thoughts, f"<think>{SECRET}</think>Well </think>met.", []) == "Well met."
    assert told == []
    assert not thoughts.unsaid


@pytest.mark.parametrize(("begin", "end"), [*TAGS, ("", "</think>")])
@given(cuts=st.lists(st.integers(0, 200)), blank=st.sampled_from(["", "\n\n"]))
def test_what_was_withheld_is_kept_as_it_came(
    begin: str, end: str, cuts: list[int], blank: str
) -> None:
    thought = f"{begin}\n{SECRET} < 3\n{end}{blank}"
    thoughts = Thoughts(begins=not begin)
    assert fed(thoughts, f"{thought}Well met.", cuts) == "Well met."
    assert thoughts.written == thought


@given(cuts=st.lists(st.integers(0, 200)))
def test_a_thought_in_a_thought_ends_with_the_outer_one(cuts: list[int]) -> None:
    text = f"<think>Hm. <think>{SECRET}</think> {SECRET}</think>\nWell met."
    assert fed(Thoughts(), text, cuts) == "Well met."


@given(cuts=st.lists(st.integers(0, 200)), cut=st.booleans())
def test_a_thought_may_speak_of_its_tag(cuts: list[int], cut: bool) -> None:
    text = f"<think>A <think> tag? {SECRET}</think>\nWell met."
    assert fed(Thoughts(), text, cuts, cut=cut) == ("" if cut else "Well met.")


def test_of_an_answer_in_one_piece_nothing_has_left_before_a_lone_tag() -> None:
    for cut in (False, True):
        thoughts = Thoughts()
        thoughts.come_whole()
        assert fed(thoughts, f"Hm, {SECRET}.\n</think>\nWell met.", []) == "Well met."
        plain = Thoughts()
        plain.come_whole()
        assert fed(plain, "Well met.", [], cut=cut) == "Well met."


def test_an_answer_without_any_tag_is_told_of() -> None:
    told: list[str] = []
    for text, cut in (("Well met.", False), ("Hm</think>Yes.", False), ("Hm", True)):
        thoughts = Thoughts(begins=True, none=partial(told.append, text))
        fed(thoughts, text, [], cut=cut)
    assert told == ["Well met."]


@given(text=NOISE, cuts=st.lists(st.integers(0, 200)), begins=st.booleans())
def test_any_split_says_the_same(text: str, cuts: list[int], begins: bool) -> None:
    whole = fed(Thoughts(begins=begins), text, [])
    assert fed(Thoughts(begins=begins), text, cuts) == whole


@given(text=st.text(max_size=60), cuts=st.lists(st.integers(0, 200)))
def test_text_without_tags_is_all_said(text: str, cuts: list[int]) -> None:
    if "think" not in text and "thought" not in text and "reasoning" not in text:
        assert fed(Thoughts(), text, cuts) == text


def test_models_that_begin_so_are_known_by_name() -> None:
    for name in ("deepseek-r1:8b", "deepseek-ai/DeepSeek-R1", "qwq:32b"):
        assert begins_with_thought(name)
    for name in ("llama3.2", "gpt-5-mini", "qwen2.5:7b", "grok-4-fast-non-reasoning"):
        assert not begins_with_thought(name)
