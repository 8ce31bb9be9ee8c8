"""Template variables: values for placeholders, in one pass that cannot fail."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.npc.templates import DEFAULTS, filled, variables

NOBODY: dict[str, object] = {}


def values(**given_: object) -> dict[str, str]:
    return variables(given_, {}, call_id="c0ffee")


def test_each_variable_has_its_default() -> None:
    # A32
    assert values() == {
        "caller_name": "there",
        "caller_number": "unknown",
        "call_id": "c0ffee",
        "context_name": "",
        "call_direction": "inbound",
        "campaign_id": "",
        "lead_id": "",
    }
    text = "Hi {caller_name} ({caller_number}), {call_id}{context_name}{lead_id}!"
    assert filled(text, values()) == "Hi there (unknown), c0ffee!"


def test_what_is_given_stands_in_place_of_the_default() -> None:
    given_ = values(caller_name="Aria", lead_id=7, call_id="mine", weather="rain")
    text = "{caller_name} {lead_id} {call_id} {weather} {call_direction}"
    assert filled(text, given_) == "Aria 7 mine rain inbound"


def test_missing_data_use_the_default() -> None:
    # A35
    assert values(caller_name="", caller_number="  ", call_id=None) == values()


def test_defaults_can_be_others() -> None:
    # A36
    defaults = {"caller_name": "traveller", "tavern": "the Broken Wheel"}
    found = variables(NOBODY, defaults, call_id="c")
    text = filled("Welcome to {tavern}, {caller_name}!", found)
    assert text == "Welcome to the Broken Wheel, traveller!"
    # A call id is nobody's default: each session has its own.
    assert variables(NOBODY, {"call_id": "x"}, call_id="c")["call_id"] == "c"


def test_whatever_is_no_placeholder_stays_as_it_was_written() -> None:
    # A35
    for text in (
        "{unknown_var} stays",
        "{caller_name",
        "caller_name}",
        "{}",
        "{0} {caller name} {caller-name}",
        "{caller_name!r} {caller_name:>10} {caller_name.__class__}",
        "{{caller_name}} is somebody else's",
        '{"caller_name": {"a": [1, 2]}}',
        "{" * 50 + "caller_name",
    ):
        assert filled(text, values(caller_name="Aria")) == text


def test_one_broken_placeholder_does_not_spoil_the_others() -> None:
    text = 'Call {caller_number}, answer {"ok": true}, {nobody}, {caller_name'
    wanted = text.replace("{caller_number}", "555")
    assert filled(text, values(caller_number="555")) == wanted


def test_a_value_is_never_looked_at_again() -> None:
    nested = values(caller_name="{caller_number}", caller_number="{caller_name}")
    both = filled("{caller_name} {caller_number}", nested)
    assert both == "{caller_number} {caller_name}"
    # Nor do two values make a placeholder together.
    assert filled("{{lead_id}caller_name}", values(lead_id="x")) in (
        "{{lead_id}caller_name}",
        "{xcaller_name}",
    )


NAMES = st.sampled_from([*DEFAULTS, "call_id", "unknown", "tavern", ""])
PIECES = st.one_of(
    st.text(max_size=8),
    NAMES.map("{{{}}}".format),
    st.sampled_from(["{", "}", "{{", "}}", "{caller_name!r}", "\\1", "\\g<0>", "%s"]),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


PLACEHOLDER = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")


@given(text=TEXTS, given_=st.dictionaries(NAMES, TEXTS))
def test_filling_is_one_pass_and_never_fails(text: str, given_: dict[str, str]) -> None:
    found = variables(dict(given_), {}, call_id="c0ffee")
    once = filled(text, found)
    # What is between placeholders is untouched, and between it are the values as they
    # are: a split by a pattern with a group has the names at every second place.
    pieces = PLACEHOLDER.split(text)
    for at in range(1, len(pieces), 2):
        pieces[at] = found.get(pieces[at], f"{{{pieces[at]}}}")
    assert once == "".join(pieces)


@given(st.text())
def test_without_braces_nothing_changes(text: str) -> None:
    plain = text.replace("{", "(")
    assert filled(plain, values()) == plain
