"""Nothing of a chat template is spoken, and a call in the text is a call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.anthropic.assembler import Assembler as Messages
from glyphoxa_trio.providers.chat_completions.assembler import Assembler
from glyphoxa_trio.providers.llm import CallReady, LLMEvent, TextChunk
from glyphoxa_trio.providers.template_calls import tool_named
from glyphoxa_trio.providers.templates import Templates
from glyphoxa_trio.tools.arguments import load
from glyphoxa_trio.tools.outcome import ToolCall

from .call_forms import FORMS, LINES, MARKED, deep, text_of

SCHEMA = {
    "type": "object",
    "properties": {"what": {"type": "string"}, "times": {"type": "integer"}},
    "required": ["what"],
}
FIELDS = ("sides", "text", "name", "input", "x_1")
ANY = {"type": "object", "properties": {name: {} for name in FIELDS}}
TOOLS = ("roll", "look", "search", "mcp__files__read", "note-it")
SCHEMAS = {"weigh": SCHEMA, "look_up": {}} | dict.fromkeys(TOOLS, ANY)
NAMES = frozenset({"weigh", "mcp__files__read", "look_up"})
ARGUMENTS = {"what": "gold", "times": 2}
OBJECT = json.dumps(ARGUMENTS)
CALL = json.dumps({"name": "weigh", "arguments": ARGUMENTS})
CUTS = st.lists(st.integers(0, 400), max_size=12)


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(at % (len(text) + 1) for at in cuts)})
    return [text[a:b] for a, b in pairwise(edges)]


def read(
    text: str, cuts: list[int], names: Iterable[str] = NAMES
) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """What is spoken of a text, and the calls in it."""
    names = frozenset(names)
    templates = Templates(names=names, schemas=SCHEMAS)
    said = "".join(map(templates.feed, pieces(text, cuts))) + templates.end()
    return said, [(name, load(written)) for name, written in templates.besides([])]


def plain(arguments: dict[str, Any]) -> dict[str, str]:
    """Arguments as text: forms without types have nothing else."""
    return {key: text_of(value) for key, value in arguments.items()}


@pytest.mark.parametrize("form", FORMS)
@given(cuts=CUTS)
def test_a_call_in_the_text_is_a_call(form: str, cuts: list[int]) -> None:
    before = "Let me see.\n" if form in LINES else "Let me see. "
    said, calls = read(before + FORMS[form]("weigh", ARGUMENTS), cuts)
    assert said == before
    ((name, arguments),) = calls
    assert (name, plain(arguments)) == ("weigh", plain(ARGUMENTS))


@pytest.mark.parametrize("form", FORMS)
@given(cuts=CUTS)
def test_a_call_of_a_tool_that_was_not_shown_is_not_run(
    form: str, cuts: list[int]
) -> None:
    written = FORMS[form]("destroy", ARGUMENTS)
    said, calls = read(written, cuts)
    assert not calls
    without_marks = re.sub(r"<\|\w+\|>", "", written)
    assert said == ("" if form in MARKED else without_marks)  # may be meant as words


WORDS = (
    *("roll", "look", "search", "note", "weigh", "I", "the die", "Bo's", "and", "6"),
    *("(d6)", "(fast)", "(look=3", "`roll`", "`roll(sides=6)`", "*looks*", "[laughs]"),
    *("roll:", "look,", '"search"', "„note“", "{the king}", "<3", "a<b", "x = 2", "="),
    *("[roll]", "roll (sides)", "{", "}", "[3", "(", "'", "5'11", "# Roll", "- look"),
    *("Action", "Action:", "print", "functions", "to", "commentary", ">", ">>", "call"),
    *("würfeln", "骰子", "看。", "бросок", "…", "!", "?", ".", ":", "\n", "\n\n"),
    *("roll 6", "roll{6}", "look[3]", "roll(6)", "note(this)", '{"note": 3}', "roll()"),
    *("search(a == b)", "Look", "ROLL(x=1)", "roll.", "roll/look", "look-", "roll:2"),
    *("<i>look</i>", "<b>roll it</b>", "<br>", "<roll> of drums"),
)


@given(words=st.lists(st.sampled_from(WORDS), max_size=14), cuts=CUTS)
def test_prose_with_names_of_tools_is_said_whole(
    words: list[str], cuts: list[int]
) -> None:
    names = {"roll", "look", "search", "note"}
    text = " ".join(words)
    schemas = {name: {**ANY, "required": ["sides"]} for name in names}
    templates = Templates(names=frozenset(names), schemas=schemas)
    said = "".join(map(templates.feed, pieces(text, cuts))) + templates.end()
    assert (said, templates.besides([])) == (text, [])


STORIES = (
    "Let me see. The mare's owner (old Bo) says: weigh it!",
    "Ich schlage es nach: das Buch, «Band 2», kostet 3,50 Gulden; look_up it.",
    "¿Qué pesa? Lo peso [suspira] y ya está…",
    "我来称一下。",
    "Сейчас взвешу - подожди, 5 < 7.",
    "فلنزن الذهب.",
)
TEXTS = st.text("ab é日\"'\\{}[](),:;=.!?#&\n\t-_/<b>`", max_size=24)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    form=st.sampled_from([*FORMS]),
    name=st.sampled_from(TOOLS),
    given_=st.dictionaries(
        st.sampled_from(FIELDS),
        VALUES,
        min_size=1,
        max_size=4,
    ),
    before=st.sampled_from(STORIES),
    after=st.sampled_from(STORIES),
    cuts=CUTS,
)
def test_any_call_in_any_form_amid_speech_is_read_and_the_speech_is_said(
    form: str,
    name: str,
    given_: dict[str, Any],
    before: str,
    after: str,
    cuts: list[int],
) -> None:
    written = FORMS[form](name, given_)
    untyped = "</" in written.replace(json.dumps(given_), "")
    if untyped and any(
        "<" in text or text != text.strip() for text in plain(given_).values()
    ):
        return  # elements cannot tell that from their own
    if form == "with its arguments beside it" and "input" in given_:
        return  # all of its arguments may be in that
    if "```" in json.dumps(given_) and "```" in FORMS[form](name, {}):
        return  # nor can code
    said, calls = read(f"{before}\n{written}\n{after}", cuts, TOOLS)
    assert said.split() == f"{before}\n{after}".split()
    ((called, arguments),) = calls
    assert called == name
    assert arguments == given_ or (untyped and plain(arguments) == plain(given_))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<|channel|>analysis<|message|>Hm.<|end|>Well met.", "Well met."),
        (
            "<|channel|>analysis<|message|>Hm.<|end|>"  # noqa: ISC004
            "<|start|>assistant<|channel|>final<|message|>Well met.<|return|>",
            "Well met.",
        ),
        ("Well met.<|im_end|>", "Well met."),
        ("<|im_start|>assistant\nWell met.<|im_end|>\n", "Well met.\n"),
        ("Well met.<|im_end|><|im_start|>user\nThe king is dead.", "Well met."),
        ("<start_of_turn>model\nWell met.<end_of_turn>", "Well met."),
        ("Well met.</s>", "Well met."),
        ("[INST]The king is dead.[/INST]Well met.", "Well met."),
        ("<tool_response>The king is dead.</tool_response>Well met.", "Well met."),
        (f"Well met.{deep('end of sentence')}", "Well met."),
        ("Well met.</tool_call></function>", "Well met."),
        (
            "<|start_header_id|>assistant<|end_header_id|>\n\nWell met.<|eot_id|>",
            "\n\nWell met.",
        ),
    ],
)
@given(cuts=CUTS)
def test_nothing_of_a_template_is_spoken(text: str, said: str, cuts: list[int]) -> None:
    assert read(text, cuts) == (said, [])


@pytest.mark.parametrize(
    "text",
    [
        "I <3 you, traveller. <invoke the spirits> HP <5 means trouble.",
        "If a < b and c > d, then <3 [sic] `x`, [ARGH] {hm} and [laughs].",
        'The sign says {"name": "The Mare", "beds": 4}, no more.',
        "<b>Bold</b> words, 2 < 3, <- and ->, a|b.",
        '```json\n{"beds": 4}\n```',
        "[whispers (softly)] Come.",
        "{",
        "A list: [1, 2, {3}].",
    ],
)
@given(cuts=CUTS)
def test_what_is_no_template_is_spoken_as_it_was(text: str, cuts: list[int]) -> None:
    assert read(text, cuts) == (text, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "I write [INST] on the door, as they do.",
            "I write  on the door, as they do.",
        ),
        ("The <tool_use> of a smith is loud.", "The  of a smith is loud."),
        ("Say <function> and it opens.", "Say  and it opens."),
        ("He shouted [INST and ran (fast).", "He shouted [INST and ran (fast)."),
        ("<tool_response> The king is dead.", ""),
        ('<tool_call>{"name": "weigh", "argu', ""),
    ],
)
@given(cuts=CUTS)
def test_a_mark_without_an_end_takes_no_words_away(
    text: str, said: str, cuts: list[int]
) -> None:
    assert read(text, cuts) == (said, [])


@pytest.mark.parametrize(
    "mark",
    [
        *("<tool_call>", "<|tool_call|>", "[TOOL_CALLS]", "[INST]", "<function=weigh>"),
        *('{"sign": ', "weigh: {the ", "<weigh>", "```\n", '{"a": {"b": "', "[weigh("),
        *("Action: ", "weigh", "```json\n{", "weigh(what is "),
    ],
)
@given(cuts=CUTS)
def test_speech_after_a_mark_goes_on_soon(mark: str, cuts: list[int]) -> None:
    templates = Templates(names=NAMES)
    text = f"Ha!\n{mark} he said and went on his way home. " + "It was late. " * 120
    said, fed = "", 0
    for piece in pieces(text, [*cuts, 1_200]):
        said, fed = said + templates.feed(piece), fed + len(piece)
        assert len(said) > fed - 1_000 - len(mark)
    said += templates.end()
    assert said in (text, text.replace(mark, ""))
    assert not templates.besides([])


@given(cuts=CUTS)
def test_a_call_in_two_forms_is_one_and_two_in_one_form_are_two(
    cuts: list[int],
) -> None:
    first = FORMS["hermes, qwen"]("weigh", ARGUMENTS)
    other = FORMS["minimax"]("weigh", ARGUMENTS)
    assert len(read(f"{first}\n{other}", cuts)[1]) == 1
    assert len(read(f"{first}\n{first}", cuts)[1]) == 2


@given(cuts=CUTS, at=st.integers(len('{"name": "weigh"'), 60))
def test_the_beginning_of_a_call_is_not_spoken(at: int, cuts: list[int]) -> None:
    templates = Templates(names=NAMES)
    written = '{"name": "weigh", "arguments": {"item": "a gold ring", "times": 2}}'[:at]
    said = "".join(map(templates.feed, pieces(written, cuts)))
    assert (said + templates.end(cut=True), templates.besides([])) == ("", [])


@given(cuts=CUTS, at=st.integers(len("weigh(what='"), 40))
def test_the_beginning_of_a_bare_call_is_not_spoken(at: int, cuts: list[int]) -> None:
    templates = Templates(names=NAMES)
    written = "weigh(what='a gold ring', times=2)"[:at]
    said = "".join(map(templates.feed, pieces(written, cuts)))
    assert (said + templates.end(cut=True), templates.besides([])) == ("", [])


@given(text=st.text("ab <>[]{}|/`\"'\n:.,=()_tolcai\uff5c", max_size=80), cuts=CUTS)
def test_any_split_says_and_calls_the_same(text: str, cuts: list[int]) -> None:
    assert read(text, cuts) == read(text, [])


@given(blanks=st.text(" \t", min_size=1, max_size=9), cuts=CUTS)
def test_a_line_of_code_that_is_set_in_is_said_in_any_split(
    blanks: str, cuts: list[int]
) -> None:
    text = f"It is written so:\n\n{blanks}weigh(what='gold', times=2)\n\nYou see?"
    for each in (cuts, [*range(len(text))]):
        assert read(text, each) == (text, [])


PLAIN = st.text(st.characters(exclude_characters="<[{`"), max_size=80)


@given(text=PLAIN, cuts=CUTS)
def test_plain_text_is_spoken_at_once(text: str, cuts: list[int]) -> None:
    templates = Templates()
    for piece in pieces(text, cuts):
        assert templates.feed(piece) == piece


@given(text=PLAIN | st.lists(st.sampled_from(WORDS)).map(" ".join), cuts=CUTS)
def test_with_tools_only_a_first_word_is_held_back(text: str, cuts: list[int]) -> None:
    templates = Templates(names=frozenset({"roll", "look"}))
    fed = said = ""
    for piece in pieces(re.sub(r"[<[{`(\n]", "", text), cuts):
        fed += piece
        said += templates.feed(piece)
        held = fed.removeprefix(said)
        assert len(held) < 32
        assert not held or said.rstrip(" \t")[-1:] in ("", *"\n.!?:…\u3002\uff01\uff1f")
        assert templates.feed("The ") == held + "The "
        fed, said = f"{fed}The ", f"{said}{held}The "


@pytest.mark.parametrize(
    "mark",
    [
        *("<", "{", "[", "</s>", "[TOOL_CALLS]", "<function=", '{"name":', "```json{"),
        *("[INST]", "<tool_call>a b", "\nweigh\n{", "\n>", '{"weigh":', "<weigh>"),
        *("[weigh(", "<tool_call>{", "\nweigh(what='", "Action: ", "```\n", "\n"),
    ],
)
def test_a_million_marks_end(mark: str) -> None:
    """Work that grows with the square of the length would not."""
    templates = Templates(names=NAMES)
    templates.feed((mark * 1_000_000)[:1_000_000])
    templates.end()


def test_many_calls_are_read_in_linear_time() -> None:
    call = json.dumps({"name": "weigh", "arguments": {"what": "gold", "times": 7}})
    many = "".join(
        f"<tool_call>{call.replace('7', str(n))}</tool_call>" for n in range(15_000)
    )
    assert len(read(many, [])[1]) == 15_000  # in a second; it was half an hour


WRITTEN = {
    "weigh": "weigh",
    "functions.weigh": "weigh",
    "default_api:weigh": "weigh",
    "default_api.weigh": "weigh",
    "functions.weigh:0": "weigh",
    "weigh<|channel|>commentary": "weigh",
    "tools/look_up": "look_up",
    "look.up": "look_up",
    "files.read": "mcp__files__read",
    "functions.mcp__files__read": "mcp__files__read",
    " weigh\n": "weigh",
    "read": "",
    "weigher": "",
    "": "",
    "functions.": "",
}


@pytest.mark.parametrize("written", WRITTEN)
def test_a_name_with_words_of_the_template_finds_its_tool(written: str) -> None:
    assert tool_named(written, NAMES) == WRITTEN[written]


def test_a_name_that_may_be_two_tools_is_neither() -> None:
    assert tool_named("look/up", {"look_up", "look.up"}) == ""
    assert tool_named("functions.look_up", {"look_up", "tool_look_up"}) == "look_up"


def events(assembler: Assembler | Messages, *payloads: object) -> list[LLMEvent]:
    found: list[LLMEvent] = []
    for payload in payloads:
        found += assembler.feed(json.dumps(payload)) or []
    return found


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def test_a_text_that_is_a_number_is_the_same_as_the_number() -> None:
    for form in ("minimax", "hermes, qwen", "a line"):
        templates = Templates(names=NAMES, schemas=SCHEMAS)
        templates.feed(FORMS[form]("weigh", ARGUMENTS))
        templates.end()
        for times in (2, "2", 2.0):
            given_ = json.dumps({"what": "gold", "times": times})
            assert templates.besides([ToolCall("c1", "weigh", given_)]) == []
        given_ = json.dumps({"what": "gold", "times": 3})
        assert len(templates.besides([ToolCall("c1", "weigh", given_)])) == 1


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("<tool_call>{'name': weigh weigh}</tool_call>", "{'name': weigh weigh}"),
        (f"Ha! {FORMS['minimax']('destroy', {})} Ha!", '<invoke name="destroy">'),
        (f"<|im_start|>assistant\n{FORMS['lfm']('destroy', {})}", "[destroy()]"),
        (FORMS["minimax"]("weigh", ARGUMENTS), ""),
        ("Well met.<|im_end|></s>", ""),
    ],
)
@given(cuts=CUTS)
def test_a_block_that_cannot_be_read_is_reported_once(
    text: str, unread: str, cuts: list[int]
) -> None:
    told: list[tuple[str, str]] = []
    templates = Templates(names=NAMES, found=lambda *found: told.append(found))
    for piece in pieces(f"{text} {text}", cuts):
        templates.feed(piece)
    templates.end()
    assert [x for _, x in told if unread in x][-1:] == [told[-1][1]]
    assert len(told) <= 1 + bool(unread)


@pytest.mark.parametrize("form", ["hermes, qwen", "minimax", "llama, bare"])
def test_a_call_that_is_repeated_as_text_runs_once(form: str) -> None:
    text = f"Well. {FORMS[form]('weigh', ARGUMENTS)}"
    function = {"name": "functions.weigh", "arguments": OBJECT}
    row = {"index": 0, "id": "c1", "type": "function", "function": function}
    shown = Templates(names=NAMES)
    assembler = Assembler(names=NAMES, templates=shown)
    got = events(
        assembler,
        chunk(content=text),
        chunk(tool_calls=[row]),
        chunk("tool_calls"),
    )
    got += assembler.finish()
    (call,) = (event.call for event in got if isinstance(event, CallReady))
    assert (call.id, call.name, call.arguments) == ("c1", "weigh", OBJECT)
    assert "".join(x.text for x in got if isinstance(x, TextChunk)) == "Well. "


def test_a_server_of_the_messages_api_may_leave_a_template_in_the_text() -> None:
    assembler = Messages(names=NAMES, templates=Templates(names=NAMES))
    text = {"type": "text", "text": FORMS["minimax"]("weigh", ARGUMENTS)}
    got = events(
        assembler,
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    (call,) = (event.call for event in got if isinstance(event, CallReady))
    assert call.name == "weigh"
    assert not [x for x in got if isinstance(x, TextChunk)]


def test_a_call_in_a_text_that_was_cut_is_not_run() -> None:
    assembler = Messages(names=NAMES, templates=Templates(names=NAMES))
    written = '<invoke name="weigh"><parameter name="item">a gold'
    got = events(
        assembler,
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": written},
        },
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    )
    assert not [x for x in got if isinstance(x, CallReady | TextChunk)]
