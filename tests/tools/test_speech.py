"""What is spoken of a result, and what a model reads of an outcome.

Decision D18, rows A13 to A17 and A20.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.outcome import (
    Effect,
    Limit,
    Media,
    Outcome,
    Status,
    ToolCall,
    ToolResult,
)
from glyphoxa_trio.tools.speech import (
    MESSAGE_LIMIT,
    MIN_CAP,
    Presented,
    outcome_text,
    present,
)

WEATHER = {"place": "Neverwinter", "sky": {"now": "rain", "later": ["fog", "snow"]}}


def shown(
    *text: str,
    structured: Any = None,
    is_error: bool = False,
    template: str | None = None,
    field: str | None = None,
) -> Presented:
    return present(
        ToolResult(text=text, structured=structured, is_error=is_error),
        ToolDefinition(name="t", speech_template=template, speech_field=field),
    )


def said(*text: str, **more: Any) -> str:
    return shown(*text, **more).message


# --- media: a model of text reads placeholders, nobody speaks them

MAP = Media("image/png", bytes(41_200))
WIND = Media("audio/ogg", bytes(900))


def test_of_media_a_model_reads_placeholders_and_nobody_speaks_them() -> None:  # G13
    definition = ToolDefinition(name="t", speech_template="It is at {path}.")
    result = ToolResult(structured={"path": "a.png"}, media=(MAP, WIND))
    said = present(result, definition)
    assert said.message == "It is at a.png."
    assert said.data == {
        "text": "[image: image/png, 41 kB]\n[audio: audio/ogg, 900 B]",
        "structured": {"path": "a.png"},
    }
    outcome = Outcome(
        call=ToolCall("c", "t"),
        tool="t",
        status=Status.OK,
        data=said.data,
        media=result.media,
    )
    assert "[image: image/png, 41 kB]" in outcome_text(outcome)
    assert len(outcome_text(outcome)) < 300


def test_an_image_alone_is_a_result_without_words() -> None:
    said = present(ToolResult(media=(MAP,)), ToolDefinition(name="t"))
    assert said == Presented("I have the result.", "[image: image/png, 41 kB]")
    said = present(ToolResult(text=("A map.",), media=(MAP,)), ToolDefinition(name="t"))
    assert said == Presented("A map.", "A map.\n[image: image/png, 41 kB]")


# --- the order of the message


def test_the_template_comes_first_then_the_field_then_text_then_a_phrase() -> None:
    # A15, A16, A17, D18
    data: dict[str, Any] = {"structured": WEATHER}
    template, field = "It will {sky.now} in {place}.", "sky.now"
    assert said("words", **data, template=template, field=field) == (
        "It will rain in Neverwinter."
    )
    assert said("words", **data, field=field) == "rain"
    assert said("words", "and more", **data) == "words\nand more"
    assert said(**data) == "I have the result."  # A17


def test_a_tool_that_says_nothing_is_done() -> None:
    assert shown() == Presented("Done.", None)


@pytest.mark.parametrize("wrapper", ["structured", "data", "result", "output"])
def test_fields_are_found_inside_the_usual_wrappers(wrapper: str) -> None:
    assert said(structured={wrapper: WEATHER}, field="sky.now") == "rain"
    assert said(structured={wrapper: WEATHER}, template="In {place}.") == (
        "In Neverwinter."
    )


def test_the_top_level_wins_over_a_wrapper() -> None:
    assert said(structured={"x": "outer", "data": {"x": "inner"}}, field="x") == "outer"


@pytest.mark.parametrize(
    ("value", "spoken"),
    [
        (7, "7"),
        (0, "0"),
        (2.5, "2.5"),
        (True, "yes"),
        (False, "no"),
        (["fog", 3], "fog, 3"),
        ("  rain \n", "rain"),
    ],
)
def test_scalars_and_lists_of_them_can_be_spoken(value: Any, spoken: str) -> None:
    assert said(structured={"x": value}, field="x") == spoken


@pytest.mark.parametrize(
    "value", [None, "", "  ", {}, {"a": 1}, [], [[1]], [{}], [None], [10**5000]]
)
def test_what_cannot_be_spoken_falls_through(value: Any) -> None:
    assert said("words", structured={"x": value}, field="x") == "words"
    assert said("words", structured={"x": value}, template="{x}") == "words"


def test_a_list_inside_itself_falls_through() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert said("words", structured={"x": endless}, field="x") == "words"


@pytest.mark.parametrize("path", ["nowhere", "sky.nowhere", "place.x", "sky.later.7"])
def test_a_field_that_is_not_there_falls_through(path: str) -> None:
    assert said("words", structured=WEATHER, field=path) == "words"


def test_a_path_may_go_through_a_list() -> None:
    assert said(structured=WEATHER, field="sky.later.1") == "snow"


# --- templates


def test_a_template_with_a_hole_does_not_apply() -> None:
    # "It will  in ." helps nobody.
    template = "It will {sky.now} in {town}."
    assert said("Rain.", structured=WEATHER, template=template) == "Rain."
    assert said(structured=WEATHER, template=template, field="sky.now") == "rain"


def test_a_template_without_placeholders_is_spoken_as_it_is() -> None:
    assert said(structured={}, template="The music starts.") == "The music starts."


def test_braces_that_are_no_placeholder_stay() -> None:
    text = "{} {place!r} {a b} {{place}} {.x} }{"
    assert said(structured=WEATHER, template=text) == text.replace(
        "{place}", "Neverwinter"
    )


def test_a_value_is_never_read_as_a_template() -> None:
    # The program of seed 003 expands it, so that a tool reads what it should not.
    sly = {"a": "{b}", "b": "the secret", "c": "{c.__class__} \\1 \\g<0>"}
    assert said(structured=sly, template="{a}, {c}!") == (
        "{b}, {c.__class__} \\1 \\g<0>!"
    )


def test_a_template_cannot_reach_attributes() -> None:
    assert said("words", structured=WEATHER, template="{place.__class__}") == "words"


NAMES = st.text("ab", min_size=1, max_size=2)
VALUES = st.text("{}ab.", min_size=1, max_size=8).filter(str.strip)


@given(st.lists(NAMES | st.just(" "), max_size=6), st.dictionaries(NAMES, VALUES))
def test_a_template_is_filled_in_one_pass(
    parts: list[str], values: dict[str, str]
) -> None:
    template = "x" + "".join("{" + p + "}" if p.strip() else p for p in parts)
    names = [part for part in parts if part.strip()]
    # Word by word, with no substitution at all.
    expected = "x" + "".join(
        values.get(part, "") if part.strip() else part for part in parts
    )
    if all(name in values for name in names):
        assert said(structured=values, template=template) == expected.strip()
    else:
        assert said("words", structured=values, template=template) == "words"


# --- errors


def test_an_error_speaks_for_itself_and_not_through_the_template() -> None:
    refused = shown(
        "No such town.", structured=WEATHER, is_error=True, template="In {place}."
    )
    assert refused.message == "No such town."
    assert said(structured=WEATHER, is_error=True) == "That did not work."
    assert said(is_error=True) == "That did not work."


# --- data


def test_data_keeps_everything() -> None:  # A14
    assert shown(structured=WEATHER).data == WEATHER
    assert shown("a", "b").data == "a\nb"
    assert shown("a", structured=WEATHER).data == {"text": "a", "structured": WEATHER}
    assert shown(structured=0).data == 0
    long = "word " * 10_000
    assert shown(long).data == long


def test_json_in_a_text_block_is_data_and_not_spoken() -> None:
    # Servers from before structured content answer like this.
    text = json.dumps(WEATHER)
    assert shown(text) == Presented("I have the result.", WEATHER)
    assert said(text, template="In {place}.") == "In Neverwinter."
    assert shown("Look:", text) == Presented(
        "Look:", {"text": "Look:", "structured": WEATHER}
    )
    assert shown("[1]", "[2]").data == [[1], [2]]


def test_text_that_repeats_structured_content_is_not_kept_twice() -> None:
    again = json.dumps(WEATHER, indent=2)
    assert shown(again, structured=WEATHER) == Presented("I have the result.", WEATHER)
    items = {"result": [{"a": 1}, {"a": 2}]}
    assert shown('{"a": 1}', '{"a": 2.0}', structured=items).data == items


def test_json_text_that_says_something_else_is_kept() -> None:
    assert shown('{"b": 1}', structured={"a": 1}).data == {
        "text": '{"b": 1}',
        "structured": {"a": 1},
    }


@pytest.mark.parametrize("text", ["{not json", "[1,", "[" * 200_000, "{" + "x" * 2**20])
def test_what_only_begins_like_json_is_words(text: str) -> None:
    assert shown(text).data == text
    assert len(said(text)) <= MESSAGE_LIMIT


def test_a_message_is_short_and_says_that_it_was_cut() -> None:
    message = said("word " * 1000)
    assert len(message) <= MESSAGE_LIMIT
    assert message.endswith("word…")
    assert said("x" * MESSAGE_LIMIT) == "x" * MESSAGE_LIMIT


# --- outcomes for a model


def text_of(
    status: Status = Status.OK,
    message: str = "m",
    data: Any = None,
    *,
    effect: Effect = Effect.NONE,
    limit: Limit | None = None,
    cap: int = 16 * 1024,
    max_depth: int | None = None,
) -> str:
    outcome = Outcome(
        call=ToolCall("1", "t"),
        tool="g.t",
        status=status,
        message=message,
        data=data,
        effect=effect,
        limit=limit,
    )
    return outcome_text(outcome, cap=cap, max_depth=max_depth)


def test_a_good_outcome_is_its_message_and_its_data() -> None:
    assert text_of(message="Rain.", data=WEATHER) == (
        '{"message":"Rain.","data":{"place":"Neverwinter",'
        '"sky":{"now":"rain","later":["fog","snow"]}}}'
    )


def test_any_other_outcome_says_its_status() -> None:
    # A13
    for status in set(Status) - {Status.OK}:
        assert json.loads(text_of(status)) == {"status": str(status), "message": "m"}


def test_a_limit_and_an_unknown_effect_are_told() -> None:  # D6
    text = text_of(Status.TIMEOUT, limit=Limit.TURN, effect=Effect.UNKNOWN)
    assert json.loads(text) == {
        "status": "timeout",
        "limit": "turn",
        "effect": "unknown",
        "message": "m",
    }
    assert "effect" not in json.loads(text_of(effect=Effect.DONE))


def test_data_that_only_repeats_the_message_is_left_out() -> None:
    assert text_of(message="Rain.", data="Rain.\n") == '{"message":"Rain."}'
    assert json.loads(text_of(message="Rain.", data="Rain. Fog."))["data"] == (
        "Rain. Fog."
    )
    assert json.loads(text_of(data=0))["data"] == 0


def test_other_alphabets_are_not_escaped() -> None:
    assert text_of(message="Grüße, 冒険者 🎲") == '{"message":"Grüße, 冒険者 🎲"}'


def test_what_does_not_fit_is_cut_and_marked() -> None:  # A20
    text = text_of(Status.TOOL_ERROR, data={"a": "x" * 1000, "b": 1}, cap=300)
    cut = json.loads(text)
    assert len(text.encode()) == 300  # to the last byte
    assert cut["status"] == "tool_error"
    assert cut["truncated"] is True
    assert cut["message"] == "m"
    assert cut["data"].keys() == {"a"}
    assert cut["data"]["a"].strip("x") == "…"


def test_a_list_is_cut_between_its_entries() -> None:
    cut = json.loads(text_of(data=[123456789] * 1000, cap=300))
    assert cut["truncated"] is True
    assert set(cut["data"]) == {123456789}
    assert len(cut["data"]) == 25  # (300 - 36) // 10, less the brackets


def test_what_just_fits_is_not_cut() -> None:
    whole = text_of(data=["é" * 100, {"k": [1.5, None, True]}], message="x" * 100)
    size = len(whole.encode())
    assert (
        text_of(data=["é" * 100, {"k": [1.5, None, True]}], message="x" * 100, cap=size)
        == whole
    )
    shorter = text_of(
        data=["é" * 100, {"k": [1.5, None, True]}], message="x" * 100, cap=size - 1
    )
    assert json.loads(shorter)["truncated"] is True


def test_depth_is_cut_and_marked() -> None:  # D18: depth 4 for S2S
    deep = {"1": {"2": {"3": {"4": {"5": "x"}}, "also": "kept"}}}
    assert json.loads(text_of(data=deep, max_depth=4)) == {
        "truncated": True,
        "message": "m",
        "data": {"1": {"2": {"3": {"4": "…"}, "also": "kept"}}},
    }
    assert json.loads(text_of(data=deep, max_depth=5)) == {"message": "m", "data": deep}
    assert json.loads(text_of(data=[], max_depth=0))["data"] == "…"


def test_what_is_not_json_is_named_by_its_type() -> None:
    data = {1: object(), "b": b"\x00", "n": float("nan"), "i": 10**5000, "s": {1}}
    assert json.loads(text_of(data=data))["data"] == {
        "1": "[object]",
        "b": "[bytes]",
        "n": "nan",
        "i": "[int]",
        "s": "[set]",
    }


def test_half_of_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert json.loads(text_of(data={"\ud800": "\udfff"}))["data"] == {"?": "?"}


def test_a_container_inside_itself_ends() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = [endless, endless]
    text = text_of(data=endless, cap=1000)
    assert len(text.encode()) <= 1000
    assert json.loads(text)["truncated"] is True


def test_a_cap_without_room_for_the_outcome_is_refused() -> None:
    with pytest.raises(ValueError, match="256"):
        text_of(cap=MIN_CAP - 1)


ANY_TEXT = st.text(st.characters())  # control characters and surrogates included
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
)


@given(
    status=st.sampled_from(Status),
    message=ANY_TEXT | ANY_TEXT.map(lambda text: text * 50),
    data=DATA | DATA.map(lambda data: [data] * 30),
    effect=st.sampled_from(Effect),
    limit=st.none() | st.sampled_from(Limit),
    cap=st.integers(MIN_CAP, 600),
    max_depth=st.none() | st.integers(0, 5),
)
def test_the_text_is_always_json_within_its_cap(
    status: Status,
    message: str,
    data: Any,
    effect: Effect,
    limit: Limit | None,
    cap: int,
    max_depth: int | None,
) -> None:
    text = text_of(
        status, message, data, effect=effect, limit=limit, cap=cap, max_depth=max_depth
    )
    assert len(text.encode()) <= cap
    read = json.loads(text, parse_constant=pytest.fail)
    assert read.get("status", "ok") == status
    assert read.get("limit") == limit
    assert read.get("effect", "unknown") == "unknown"
    if "truncated" not in read:
        assert read["message"] == message.encode(errors="replace").decode()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON.filter(lambda data: data is not None and data != "m"))
def test_data_that_fits_comes_through_whole(data: Any) -> None:
    text = text_of(data=data, cap=1_000_000)
    if not (isinstance(data, str) and data.strip() == "m"):
        assert json.loads(text) == {"message": "m", "data": data}


@given(JSON, st.integers(MIN_CAP, 1000))
def test_a_cut_happens_exactly_when_it_must(data: Any, cap: int) -> None:
    whole = text_of(data=data, cap=1_000_000)
    text = text_of(data=data, cap=cap)
    fits = len(whole.encode()) <= cap
    assert (text == whole) == fits
    assert ("truncated" in json.loads(text)) == (not fits)
