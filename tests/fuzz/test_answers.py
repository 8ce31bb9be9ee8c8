"""Nonsense in place of a model's answer: calls in forms of templates that went wrong,
and payloads that are none. A turn ends, and nothing is said that was not meant."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.anthropic.assembler import Assembler as Messages
from glyphoxa_trio.providers.chat_completions.assembler import Assembler
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    LLMError,
    LLMEvent,
    TextChunk,
)
from glyphoxa_trio.providers.templates import Templates
from tests.providers.call_forms import BARE, FORMS, LINES, MARKED

from .messages import Mill

GIVEN = {"what": "gold", "times": 2}
SCHEMAS = {
    "weigh": {
        "type": "object",
        "properties": {"what": {"type": "string"}, "times": {"type": "integer"}},
    }
}
NAMES = frozenset(SCHEMAS)
_A_MARK = re.compile(r"<[^<>\n]+>|\[/?[A-Z_]+\]")
# Marks that only templates have; those of elements may be anything's.
MARKS = sorted(
    {x for form in MARKED.values() for x in _A_MARK.findall(form("weigh", {}))}
)
OF_TEMPLATES = [
    x for x in MARKS if re.search(r"tool|call|invoke|[|\uff5c]|[A-Z]{4}", x)
]
PROSE = ("It falls. ", "I weigh (twice) and ", "\nWell met!\n", "weigh it: ", "7 < 9, ")
CALLS = (
    json.dumps({"name": "weigh", "arguments": GIVEN}),
    json.dumps(GIVEN),
    "weigh(what='gold', times=2)",
    "weigh",
    "<parameter=what>gold</parameter>",
)
CUTS = st.lists(st.integers(0, 400), max_size=8)
Told = list[tuple[str, str]]


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(at % (len(text) + 1) for at in cuts)})
    return [text[a:b] for a, b in pairwise(edges)]


def filter_of(told: Told) -> Templates:
    return Templates(
        names=NAMES,
        schemas=SCHEMAS,
        found=lambda mark, unread: told.append((mark, unread)),
    )


def ended(events: list[LLMEvent], told: Told) -> tuple[str, list[Any]]:
    """What was said and called, of an answer that must have ended."""
    assert isinstance(events[-1], Finished)
    assert len([x for x in events if isinstance(x, Finished)]) == 1
    assert len(told) <= 2
    said = "".join(x.text for x in events if isinstance(x, TextChunk))
    return said, [x.call for x in events if isinstance(x, CallReady)]


def of_completions(texts: list[str], told: Told) -> list[LLMEvent]:
    wire = Assembler(names=NAMES, templates=filter_of(told))
    events: list[LLMEvent] = []
    for text in texts:
        chunk = {"choices": [{"index": 0, "delta": {"content": text}}]}
        events += wire.feed(json.dumps(chunk))
    return [*events, *wire.feed("[DONE]")]


def of_messages(texts: list[str], told: Told) -> list[LLMEvent]:
    wire = Messages(names=NAMES, templates=filter_of(told))
    block = {"type": "text", "text": ""}
    payloads: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            }
            for text in texts
        ),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    return [x for row in payloads for x in wire.feed(json.dumps(row)) or []]


WIRES = (of_completions, of_messages)


@pytest.mark.parametrize("wire", WIRES)
@given(
    units=st.lists(st.sampled_from([*MARKS, *PROSE, *CALLS]), max_size=12), cuts=CUTS
)
def test_marks_in_any_order_end_a_turn_and_are_not_said(
    wire: Any, units: list[str], cuts: list[int]
) -> None:
    told: Told = []
    said, calls = ended(wire(pieces("".join(units), cuts), told), told)
    assert not [mark for mark in OF_TEMPLATES if mark in said]
    assert all(call.name == "weigh" for call in calls)


@st.composite
def bent(draw: st.DrawFn) -> str:
    """A call, of which pieces are cut out, doubled or in another place."""
    form = draw(st.sampled_from([*FORMS]))
    text = f"Well met.\n{FORMS[form]('weigh', GIVEN)}\nIt falls."
    for _ in range(draw(st.integers(1, 3))):
        a, b = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        at = draw(st.integers(0, len(text)))
        bends = (
            text[:a] + text[b:],
            text[:b] + text[a:],
            text[:at] + text[a:b] + text[at:],
        )
        text = draw(st.sampled_from(bends))
    return text


@pytest.mark.parametrize("wire", WIRES)
@given(text=bent(), cuts=CUTS)
def test_a_call_that_went_wrong_ends_a_turn_in_any_split(
    wire: Any, text: str, cuts: list[int]
) -> None:
    told: Told = []
    said, calls = ended(wire(pieces(text, cuts), told), told)
    at_once: Told = []
    whole, same = ended(wire([text], at_once), at_once)
    assert (said, told) == (whole, at_once)
    assert [(x.name, x.arguments) for x in calls] == [
        (x.name, x.arguments) for x in same
    ]


_bytes = st.binary(max_size=80).map(lambda x: x.decode(errors="replace"))
_milled = st.integers(0, 10**6).map(
    lambda x: Mill(x).message(1).decode("utf8", "replace")
)
_known = st.sampled_from(["[DONE]", "{}", "[]", '{"choices": [{"delta": {}}]}'])


@pytest.mark.parametrize("kind", [Assembler, Messages])
@given(lines=st.lists(_bytes | _milled | _known | st.text(max_size=80), max_size=6))
def test_any_payload_is_an_event_or_an_error(kind: Any, lines: list[str]) -> None:
    wire = kind(names=NAMES, templates=filter_of([]))
    with suppress(LLMError):
        for line in lines:
            assert not any(isinstance(x, CallReady) for x in wire.feed(line) or [])
        wire.finish()


@pytest.mark.parametrize(
    "given_",
    ["...", "{1, 2}", "b'x'", "1j", "f()", "{**x}", "*y", "1e999", "'\\ud800'"],
)
@pytest.mark.parametrize("depth", [0, 30, 900, 20_000])
@pytest.mark.parametrize("wire", WIRES)
def test_what_is_no_value_of_json_ends_a_turn(
    wire: Any, depth: int, given_: str
) -> None:
    nested = "[" * depth + given_ + "]" * depth
    for text in (
        f"weigh(what={nested})\n",
        f"<tool_call>weigh(what={nested})</tool_call>",
        f"<tool_call>weigh{{'what': {nested}}}</tool_call>",
        f'<tool_call>{{"name": "weigh", "arguments": {nested}}}</tool_call>',
        f"<tool_call>{nested}</tool_call>",
    ):
        told: Told = []
        ended(wire([text], told), told)


def test_forms_are_of_one_kind_each() -> None:
    assert len(FORMS) == len(MARKED) + len(BARE) + len(LINES)
