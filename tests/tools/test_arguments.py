"""What a model writes is JSON, small, shallow and unambiguous, or it is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.arguments import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    InvalidArguments,
    canonical,
    cut,
    load,
    shown,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


def refusal(text: str) -> str:
    with pytest.raises(InvalidArguments) as caught:
        load(text)
    message = str(caught.value)
    message.encode()  # it goes to a model, so it must have a UTF-8
    assert len(message) < 200
    return message


@pytest.mark.parametrize("text", ["", "  \n", "{}"])
def test_nothing_is_no_arguments(text: str) -> None:
    assert load(text) == {}


def test_broken_json_names_the_place() -> None:
    assert refusal('{"a": 1,\n "b" 2}') == (
        "not valid JSON: Expecting ':' delimiter at line 2, column 6, near \"2}\""
    )
    assert 'near ""' in refusal('{"a": [1,')


@pytest.mark.parametrize(
    ("text", "got"),
    [("[]", "an array"), ('"x"', '"x"'), ("true", "true")],
)
def test_arguments_are_an_object(text: str, got: str) -> None:
    assert refusal(text) == f"$: expected an object, got {got}"


def test_a_key_that_occurs_twice_is_refused_wherever_it_is() -> None:
    assert refusal('{"a": [{"b": 1, "b": 1}]}') == (
        'the key "b" occurs twice in one object'
    )
    assert "twice" in refusal('{"\\ud800": 1, "\\ud800": 2}')


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_json_does_not_have_are_refused(text: str) -> None:
    assert refusal(f'{{"x": {text}}}') == f"{text} is not a JSON value"


def test_numbers_that_no_float_or_int_holds_are_refused() -> None:
    assert refusal('{"x": 1e999}') == "1e999 is too large a number"
    assert refusal('{"x": ' + "1" * 5000 + "}") == "a number has too many digits"


@pytest.mark.parametrize(
    "text", ['{"x": "\\ud800"}', '{"\\uDFFF": 1}', '{"x": "\ud800"}']
)
def test_half_of_a_surrogate_pair_is_refused(text: str) -> None:
    assert "surrogate" in refusal(text)


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert load('{"x": "\\ud83c\\udfb2"}') == {"x": "🎲"}


def nested(levels: int, start: str, middle: str, end: str) -> str:
    return start * levels + middle + end * levels


def test_depth_is_bounded() -> None:
    assert load(nested(MAX_DEPTH, '{"a":', "1", "}"))
    too_deep = f"arguments are nested more than {MAX_DEPTH} levels deep"
    assert refusal(nested(MAX_DEPTH + 1, '{"a":', "1", "}")) == too_deep
    assert refusal('{"a":' + nested(MAX_DEPTH, "[", "", "]") + "}") == too_deep
    assert refusal('{"a":' + "[" * 30_000) == too_deep


def test_size_is_bounded_in_bytes() -> None:
    room = MAX_BYTES - len('{"a":""}')
    assert load('{"a":"' + "x" * room + '"}')
    too_large = f"arguments are larger than {MAX_BYTES} bytes"
    assert refusal('{"a":"' + "x" * (room + 1) + '"}') == too_large
    assert refusal('{"a":"' + "é" * (room // 2 + 1) + '"}') == too_large
    assert refusal("[" * (MAX_BYTES + 1)) == too_large


def test_values_are_counted_before_they_are_read() -> None:
    too_many = f"arguments have more than {MAX_VALUES} values"
    assert refusal("[" * 200_000) == too_many
    assert refusal('{"a":[' + '"",' * MAX_VALUES + '""]}') == too_many
    assert refusal('{"a":[' + "{}," * MAX_VALUES + "{}]}") == too_many


def test_the_commas_and_quotes_of_a_text_are_no_values() -> None:
    # A table of a megabyte, and one that is itself JSON.
    table = "1,2,3,4\n" * 100_000
    assert load(json.dumps({"content": table})) == {"content": table}
    nested = json.dumps([{"a": n} for n in range(40_000)])
    assert load(json.dumps({"content": nested})) == {"content": nested}


def test_a_whole_number_arrives_as_an_int() -> None:
    # Models write 5.0 for an integer; `range(5.0)` would be a crash.
    loaded = load('{"a": 5.0, "b": 1e3, "c": 0.5, "d": -0.0}')
    assert loaded == {"a": 5, "b": 1000, "c": 0.5, "d": 0}
    assert [type(value) for value in loaded.values()] == [int, int, float, int]


@given(OBJECTS)
def test_what_is_json_is_loaded_as_it_is(arguments: dict[str, Any]) -> None:
    assert load(json.dumps(arguments)) == arguments
    assert load(json.dumps(arguments, ensure_ascii=False)) == arguments


@given(st.text())
def test_any_text_is_loaded_or_refused(text: str) -> None:
    try:
        loaded = load(text)
    except InvalidArguments:
        return
    assert isinstance(loaded, dict)


# --- canonical


def test_canonical_text_is_sorted_and_without_spaces() -> None:
    assert canonical({"b": [1, {"z": None, "a": "é"}], "a": True}) == (
        '{"a":true,"b":[1,{"a":"\\u00e9","z":null}]}'
    )


def test_a_float_of_more_than_64_bits_stays_one() -> None:
    read = load('{"a": 5.0, "b": 1e300, "c": [-1e300]}')
    assert [type(x) for x in (read["a"], read["b"], read["c"][0])] == [
        int,
        float,
        float,
    ]


def test_numbers_are_the_same_by_value_and_true_is_not_one() -> None:
    assert canonical({"a": [1.0, -0.0]}) == canonical({"a": (1, 0)})
    assert canonical({"a": 1e300}) == canonical({"a": int(1e300)})
    assert canonical({"a": True}) != canonical({"a": 1})
    assert canonical({"a": "1"}) != canonical({"a": 1})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_json_does_not_have_has_no_canonical_text(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": value})


@given(OBJECTS)
def test_canonical_text_is_json_of_the_same_value_and_its_own_canon(
    arguments: dict[str, Any],
) -> None:
    text = canonical(arguments)
    assert json.loads(text) == arguments
    assert canonical(json.loads(text)) == text
    assert canonical(dict(reversed(arguments.items()))) == text


# --- for messages


def test_values_are_shown_as_json_and_cut_short() -> None:
    assert shown("é\n") == '"é\\n"'
    assert shown({"a": 1}) == "an object"
    assert shown([1]) == "an array"
    assert shown(None) == "null"
    assert shown("\ud800") == '"?"'
    assert len(shown("x" * 100_000)) == 60
    assert cut("abcd", 3) == "ab…"
    assert cut("abc", 3) == "abc"
