"""One answer in any of the manners in which servers stream it: it stays the answer.

The model is the answer itself, as a text and a list of calls. Manners that could mean
another answer as well are left out: `_means` says which.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.providers.anthropic import Anthropic
from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec

from .test_failing_answers import STREAM, answers, called, said

TOOLS = tuple(
    ToolSpec(name=x, description=x, parameters={"type": "object"})
    for x in ("weigh", "weigh_all", "look")
)
ASK = LLMRequest(messages=(Message(role="user", content="Go on"),), tools=TOOLS)

WORDS = st.text("abc ,.é🎲", max_size=6)
VALUES = st.integers(-9, 9) | st.booleans() | st.text('ab"\\{}:é', max_size=4)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["what", "n", "and"]),
    VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.just("in"), VALUES),
    max_size=3,
)


@attrs.frozen
class Call:
    """A call, and the manner in which it is streamed."""

    name: str
    arguments: dict[str, Any]
    ids: str
    index: str
    names: str
    form: str
    cuts: list[int]
    flat: bool

    @property
    def text(self) -> str:
        return json.dumps(self.arguments)

    def pieces(self) -> list[Any]:
        """The values of ``arguments``, one a piece."""
        cuts = sorted({0, len(self.text), *(x % len(self.text) for x in self.cuts)})
        pieces: list[Any] = [self.text[a:b] for a, b in pairwise(cuts)]
        match self.form:
            case "an object":
                return [self.arguments]
            case "a list of it":
                return [[self.arguments]]
            case "a list of pieces":
                return [pieces]
            case "empty first":
                return ["{}", *pieces]
            case "an empty object first":
                return [{}, *pieces]
            case "blank first and last":
                return ["", *pieces, ""]
            case "null first":
                return [None, *pieces]
            case "whole at the end":
                return [*pieces, self.text]
            case "all so far":
                return [self.text[:at] for at in cuts[1:]]
        return pieces

    def entries(self, number: int) -> Iterator[dict[str, Any]]:
        """The entries of ``tool_calls``."""
        for at, piece in enumerate(self.pieces()):
            entry: dict[str, Any] = {"type": "function"}
            match self.ids:
                case "once" if at == 0:
                    entry["id"] = f"id{number}"
                case "blank later":
                    entry["id"] = "" if at else f"id{number}"
                case "each":
                    entry["id"] = f"id{number}"
                case "fresh":
                    entry["id"] = f"id{number}-{at}"
            match self.index:
                case "number":
                    entry["index"] = number
                case "text":
                    entry["index"] = str(number)
                case "null":
                    entry["index"] = None
                case "zero":
                    entry["index"] = 0
            function: dict[str, Any] = {"arguments": piece}
            if at == 0 or self.names == "each":
                function["name"] = self.name
            elif self.names == "null later":
                function["name"] = None
            yield entry | (function if self.flat else {"function": function})


def _means(call: Call) -> bool:
    """Return whether a call in this manner means this call and no other."""
    again = call.names == "each"
    # An object after an object, each with the name, is another call, unless the id says
    # that it is the same.
    repeats = "first" in call.form or "end" in call.form
    if again and repeats and call.ids != "each":
        return False
    # Without an id and a place, a name alone could be that of the call before.
    placed = call.index in ("number", "text")
    first = call.form in ("blank first and last", "null first")
    if first and not placed and call.ids in ("none", "fresh"):
        return False
    # Several ids at no place are several calls, each with its name.
    return not (call.ids == "fresh" and again and call.index in ("null", "missing"))


CALLS = st.builds(
    Call,
    name=st.sampled_from(["weigh", "weigh_all", "look"]),
    arguments=ARGUMENTS,
    ids=st.sampled_from(["once", "blank later", "each", "fresh", "none"]),
    index=st.sampled_from(["number", "text", "null", "zero", "missing"]),
    names=st.sampled_from(["once", "each", "null later"]),
    form=st.sampled_from(
        [
            *("text", "an object", "a list of it", "a list of pieces", "empty first"),
            *("an empty object first", "blank first and last", "null first"),
            *("whole at the end", "all so far"),
        ]
    ),
    cuts=st.lists(st.integers(0, 99), max_size=4),
    flat=st.booleans(),
).filter(_means)


def content_in(form: str, text: str) -> Any:
    match form:
        case "parts":
            return [{"type": "text", "text": text}]
        case "a part":
            return {"type": "text", "text": text}
        case "texts":
            return [text]
        case "halves":
            return [text[:1], {"type": "output_text", "text": text[1:]}]
    return text


@attrs.frozen
class Answer:
    """An answer, and the chunks in which it is streamed."""

    text: str
    calls: list[tuple[str, Any]]
    chunks: list[dict[str, Any]]


@st.composite
def answers_in_pieces(draw: st.DrawFn) -> Answer:
    flip = st.booleans()
    texts, calls = draw(st.lists(WORDS, max_size=4)), draw(st.lists(CALLS, max_size=3))
    form = draw(st.sampled_from(["text", "parts", "a part", "texts", "halves"]))
    said: list[dict[str, Any]] = [{"content": content_in(form, x)} for x in texts]
    left = [x for n, call in enumerate(calls) for x in call.entries(n)]
    legacy = len(calls) == 1 and not calls[0].flat and draw(flip)
    asked: list[dict[str, Any]] = []
    while left:
        rows = [left.pop(0)]
        while left and not legacy and draw(flip):
            rows.append(left.pop(0))
        key, shape = str(rows[0].get("index")), draw(st.integers(0, 3))
        if legacy:
            asked.append({"function_call": rows[0]["function"]})
        elif len(rows) == 1 and shape == 1:
            asked.append({"tool_calls": rows[0]})
        elif len(rows) == 1 and shape == 2 and key.isdecimal():
            asked.append({"tool_calls": {key: rows[0]}})
        else:
            asked.append({"tool_calls": [None, *rows] if shape == 3 else rows})
    deltas: list[dict[str, Any]] = []
    while said or asked:  # each kind in its order
        deltas.append((asked if asked and (not said or draw(flip)) else said).pop(0))
    key = draw(st.sampled_from(["delta", "message"]))
    early, place = draw(flip), draw(st.sampled_from([0, "0", None, "missing"]))
    reason = draw(st.sampled_from(["stop", "tool_calls", "function_call"]))
    chunks: list[dict[str, Any]] = []
    for at, delta in enumerate([{"role": "assistant"}, *deltas]):
        if draw(flip):
            delta = {"content": None, "role": "assistant", "refusal": None} | delta
        choice: dict[str, Any] = {
            key: delta,
            "finish_reason": reason if early and at == 0 else None,
        }
        choice |= {} if place == "missing" else {"index": place}
        chunks.append({"choices": [choice]})
    nothing: Any = st.sampled_from([None, {}])
    last: dict[str, Any] = {key: draw(nothing)}
    once_more = draw(flip)
    if key == "delta" and deltas and once_more:  # and the whole answer once more
        whole = [{"function": {"name": x.name, "arguments": x.text}} for x in calls]
        last["message"] = {"content": "".join(texts), "tool_calls": whole}
    chunks.append({"choices": [last | {"finish_reason": None if early else reason}]})
    if draw(flip):
        chunks.append({"choices": [], "usage": {"prompt_tokens": 1}})
    if draw(flip):
        chunks.insert(draw(st.integers(0, len(chunks))), {"choices": None})
    return Answer("".join(texts), [(x.name, x.arguments) for x in calls], chunks)


@st.composite
def framings(draw: st.DrawFn, chunks: Sequence[dict[str, Any]]) -> str:
    """The body of a response with these chunks."""
    form = draw(st.sampled_from(["stream", "lines", "no blank lines"]))
    texts = [json.dumps(x, ensure_ascii=draw(st.booleans())) for x in chunks]
    if form == "lines":
        return "\n".join(
            x for x, row in zip(texts, chunks, strict=True) if row["choices"]
        )
    texts += ["[DONE]"] * draw(st.booleans())
    space = draw(st.sampled_from(["", " ", " data: "]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    gap = end if form == "no blank lines" else end * 2
    tail = "" if draw(st.booleans()) else end * 2
    comment = f": alive{end}" if draw(st.booleans()) else ""
    return comment + gap.join(f"data:{space}{x}" for x in texts) + tail


@given(data=st.data(), answer=answers_in_pieces())
def test_an_answer_is_the_same_in_any_manner(
    data: st.DataObject, answer: Answer
) -> None:
    body = data.draw(framings(answer.chunks))
    events, _ = trio.run(answers_to, body)
    assert said(events) == answer.text
    assert called(events) == answer.calls


async def answers_to(body: str) -> Any:
    return await answers((200, STREAM, body), ask=ASK)


# Anthropic's API, and servers that claim it.


@attrs.frozen
class Block:
    """A block of an answer, and the manner in which it is streamed."""

    name: str  # of a tool; empty for a text
    text: str
    arguments: dict[str, Any]
    form: str
    cuts: list[int]
    closed: bool

    def events(self, number: int, index: dict[str, Any]) -> Iterator[dict[str, Any]]:
        written = json.dumps(self.arguments) if self.name else self.text
        cuts = sorted({0, len(written), *(x % (len(written) + 1) for x in self.cuts)})
        pieces: list[Any] = [written[a:b] for a, b in pairwise(cuts)]
        first: dict[str, Any] = {"type": "text", "text": ""}
        if self.name:
            first = {"type": "tool_use", "id": f"id{number}", "name": self.name}
        match self.form:
            case "in its start":
                first |= {"input": self.arguments} if self.name else {"text": written}
                pieces = []
            case "as text in its start" if self.name:
                first["input"], pieces = written, []
            case "empty first":
                first["input"] = {}
                pieces = ["", *pieces, ""]
            case "null first":
                pieces = [None, *pieces]
            case "an empty object first" if self.name:
                pieces = ["{}", *pieces]
            case "an object" if self.name:
                pieces = [self.arguments]
            case "whole at the end" if self.name:
                pieces = [*pieces, written]
            case "begun twice":
                yield {"type": "content_block_start", "content_block": first, **index}
        yield {"type": "content_block_start", "content_block": first, **index}
        kind, key = ("input_json_delta", "partial_json") if self.name else ("", "text")
        kind = kind or "text_delta"
        for piece in pieces:
            delta = {"type": kind, key: piece}
            yield {"type": "content_block_delta", "delta": delta, **index}
        if self.closed:
            yield {"type": "content_block_stop", **index}


BLOCKS = st.builds(
    Block,
    name=st.sampled_from(["", "weigh", "look"]),
    text=WORDS,
    arguments=ARGUMENTS,
    form=st.sampled_from(
        [
            *("text", "in its start", "as text in its start", "empty first"),
            *("null first", "an empty object first", "an object", "whole at the end"),
            "begun twice",
        ]
    ),
    cuts=st.lists(st.integers(0, 99), max_size=4),
    closed=st.booleans(),
)


@given(data=st.data(), blocks=st.lists(BLOCKS, max_size=4))
def test_an_answer_of_blocks_is_the_same_in_any_manner(
    data: st.DataObject, blocks: list[Block]
) -> None:
    flip, ends = st.booleans(), data.draw(st.sampled_from(["stop", "[DONE]", "none"]))
    numbering = data.draw(st.sampled_from(["number", "text", "zero", "null", "none"]))
    rows: list[dict[str, Any]] = []
    if data.draw(flip):
        rows.append({"type": "message_start", "message": {"role": "assistant"}})
    for number, block in enumerate(blocks):
        forms: dict[str, Any] = {"number": number, "text": str(number), "zero": 0}
        index = {} if numbering == "none" else {"index": forms.get(numbering)}
        rows += block.events(number, index)
        if data.draw(flip):
            rows.append({"type": "ping"})
    rows.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    rows += [{"type": "message_stop"}] * (ends == "stop")
    if data.draw(flip):  # only the name of the event says what it is
        rows = [{key: x for key, x in row.items() if key != "type"} for row in rows]
    texts = [*map(json.dumps, rows), *["[DONE]"] * (ends == "[DONE]")]
    body = "".join(f"data: {x}\n\n" for x in texts)
    events, _ = trio.run(blocks_in, body)
    assert said(events) == "".join(x.text for x in blocks if not x.name)
    assert called(events) == [(x.name, x.arguments) for x in blocks if x.name]


async def blocks_in(body: str) -> Any:
    return await answers((200, STREAM, body), kind=Anthropic, ask=ASK)
