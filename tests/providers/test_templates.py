"""Nothing of a chat template is spoken, and a call in the text is a call."""

from __future__ import annotations

import json
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

NAMES = frozenset({"weigh", "mcp__files__read", "look_up"})
ARGUMENTS = {"what": "gold", "times": 2}
OBJECT = json.dumps(ARGUMENTS)
CALL = json.dumps({"name": "weigh", "arguments": ARGUMENTS})
BAR, LOW = "\uff5c", "\u2581"


def deep(name: str) -> str:
    """A token of DeepSeek's template."""
    return f"<{BAR}{name.replace(' ', LOW)}{BAR}>"


# What each template makes of one call, by the family of models.
FORMS = {
    "hermes, qwen": f"<tool_call>\n{CALL}\n</tool_call>",
    "hermes, unclosed": f"<tool_call>{CALL}",
    "hermes, closed by a token": f"<tool_call>{CALL}<|im_end|>",
    "qwen-coder": (
        "<tool_call>\n<function=weigh>\n<parameter=what>\ngold\n</parameter>\n"
        "<parameter=times>\n2\n</parameter>\n</function>\n</tool_call>"
    ),
    "llama 3.1": f"<function=weigh>{OBJECT}</function>",
    "llama, python tag": f'<|python_tag|>{{"name": "weigh", "parameters": {OBJECT}}}',
    "llama, bare": json.dumps({"name": "weigh", "parameters": ARGUMENTS}),
    "llama, typed": json.dumps(
        {"type": "function", "name": "weigh", "parameters": ARGUMENTS}
    ),
    "llama 4, as code": '[weigh(what="gold", times=2)]',
    "glm": (
        "<tool_call>weigh\n<arg_key>what</arg_key>\n<arg_value>gold</arg_value>\n"
        "<arg_key>times</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
    ),
    "mistral": f"[TOOL_CALLS][{CALL}]",
    "mistral, newer": f"[TOOL_CALLS]weigh[ARGS]{OBJECT}",
    "mistral, with an id": f"[TOOL_CALLS]weigh[CALL_ID]abc123XYZ[ARGS]{OBJECT}</s>",
    "lm studio": f"[TOOL_REQUEST]\n{CALL}\n[END_TOOL_REQUEST]",
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.weigh:0"
        f"<|tool_call_argument_begin|>{OBJECT}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    ),
    "deepseek 3": (
        f"{deep('tool calls begin')}{deep('tool call begin')}function"
        f"{deep('tool sep')}weigh\n```json\n{OBJECT}\n```{deep('tool call end')}"
        f"{deep('tool calls end')}{deep('end of sentence')}"
    ),
    "deepseek 3.1": (
        f"{deep('tool calls begin')}{deep('tool call begin')}weigh{deep('tool sep')}"
        f"{OBJECT}{deep('tool call end')}{deep('tool calls end')}"
    ),
    "deepseek 3.2": (
        f'<{BAR}DSML{BAR}function_calls><{BAR}DSML{BAR}invoke name="weigh">'
        f'<{BAR}DSML{BAR}parameter name="what" string="true">gold'
        f"</{BAR}DSML{BAR}parameter>"
        f'<{BAR}DSML{BAR}parameter name="times" string="false">2'
        f"</{BAR}DSML{BAR}parameter></{BAR}DSML{BAR}invoke>"
        f"</{BAR}DSML{BAR}function_calls>"
    ),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="weigh">\n<parameter name="what">gold'
        '</parameter>\n<parameter name="times">2</parameter>\n</invoke>\n'
        "</minimax:tool_call>"
    ),
    "claude, older": (
        '<function_calls><invoke name="weigh"><parameter name="what">gold</parameter>'
        '<parameter name="times">2</parameter></invoke></function_calls>'
    ),
    "grok": (
        '<xai:function_call name="weigh"><parameter name="what">gold</parameter>'
        '<parameter name="times">2</parameter></xai:function_call>'
    ),
    "gpt-oss": (
        "<|channel|>analysis<|message|>The king is dead.<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.weigh <|constrain|>json<|message|>"
        f"{OBJECT}<|call|>"
    ),
    "gpt-oss, recipient first": (
        "<|start|>assistant to=functions.weigh<|channel|>commentary json<|message|>"
        f"{OBJECT}<|call|>"
    ),
    "gemma, as code": (
        '```tool_code\nprint(default_api.weigh(what="gold", times=2))\n```'
    ),
    "gemma, as python": (
        "```python\nprint(default_api.weigh(what='gold', times=2))\n```"
    ),
    "longcat": f"<longcat_tool_call>{CALL}</longcat_tool_call>",
    "prefix and suffix": f"<|tools_prefix|>[{CALL}]<|tools_suffix|>",
    "llama, called": '<|python_tag|>weigh.call(what="gold", times=2)<|eom_id|>',
    "gemma, fenced": f"```json\n{CALL}\n```",
    "command": (
        "<|START_THINKING|>The king is dead.<|END_THINKING|><|START_ACTION|>"
        f'[{{"tool_call_id": "0", "tool_name": "weigh", "parameters": {OBJECT}}}]'
        "<|END_ACTION|>"
    ),
    "gemma 4": '<|tool_call>call:weigh{what:<|"|>gold<|"|>,times:2}<tool_call|>',
    "functiongemma": (
        "<start_function_call>call:weigh{what:<escape>gold<escape>,times:2}"
        "<end_function_call>"
    ),
    "hermes, in single quotes": (
        "<tool_call>{'name': 'weigh', 'arguments': {'what': 'gold', 'times': 2}}"
        "</tool_call>"
    ),
    "fence of tools": f"```tool_call\n{CALL}\n```",
    "granite, phi": f"<|tool_call|>[{CALL}]<|/tool_call|>",
    "an object without its last bracket": CALL[:-1],
    "hermes without a bracket": f"<tool_call>{CALL[:-1]}</tool_call>",
    "openai, as text": json.dumps(
        {"tool_calls": [{"function": {"name": "weigh", "arguments": OBJECT}}]}
    ),
}
CUTS = st.lists(st.integers(0, 400), max_size=12)


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(at % (len(text) + 1) for at in cuts)})
    return [text[a:b] for a, b in pairwise(edges)]


def read(text: str, cuts: list[int]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """What is spoken of a text, and the calls in it."""
    templates = Templates(names=NAMES)
    said = "".join(map(templates.feed, pieces(text, cuts))) + templates.end()
    return said, [(name, load(written)) for name, written in templates.besides([])]


def plain(arguments: dict[str, Any]) -> dict[str, str]:
    """Arguments as text: forms without types have nothing else."""
    return {key: str(value) for key, value in arguments.items()}


@pytest.mark.parametrize("form", FORMS)
@given(cuts=CUTS)
def test_a_call_in_the_text_is_a_call(form: str, cuts: list[int]) -> None:
    said, calls = read(f"Let me see. {FORMS[form]}", cuts)
    assert said == "Let me see. "
    ((name, arguments),) = calls
    assert (name, plain(arguments)) == ("weigh", plain(ARGUMENTS))


@pytest.mark.parametrize("form", FORMS)
@given(cuts=CUTS)
def test_a_call_of_a_tool_that_was_not_shown_is_not_run(
    form: str, cuts: list[int]
) -> None:
    said, calls = read(FORMS[form].replace("weigh", "destroy"), cuts)
    assert not calls
    if not said.lstrip().startswith(
        ("{", "[", "```json", "```py")
    ):  # may be meant as words
        assert said == ""


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
        ("<tool_response> The king is dead.", ""),
        ('<tool_call>{"name": "weigh", "argu', ""),
    ],
)
@given(cuts=CUTS)
def test_a_mark_without_an_end_takes_no_words_away(
    text: str, said: str, cuts: list[int]
) -> None:
    assert read(text, cuts) == (said, [])


@given(cuts=CUTS)
def test_a_call_in_two_forms_is_one_and_two_in_one_form_are_two(
    cuts: list[int],
) -> None:
    first, other = FORMS["hermes, qwen"], FORMS["gemma, fenced"]
    assert len(read(f"{first}\n{other}", cuts)[1]) == 1
    assert len(read(f"{first}\n{first}", cuts)[1]) == 2


@given(cuts=CUTS, at=st.integers(len('{"name": "weigh"'), 60))
def test_the_beginning_of_a_call_is_not_spoken(at: int, cuts: list[int]) -> None:
    templates = Templates(names=NAMES)
    written = '{"name": "weigh", "arguments": {"item": "a gold ring", "times": 2}}'[:at]
    said = "".join(map(templates.feed, pieces(written, cuts)))
    assert (said + templates.end(cut=True), templates.besides([])) == ("", [])


@given(text=st.text("ab <>[]{}|/`\"'\n:.,=()_tolcai\uff5c", max_size=80), cuts=CUTS)
def test_any_split_says_and_calls_the_same(text: str, cuts: list[int]) -> None:
    assert read(text, cuts) == read(text, [])


@given(text=st.text(st.characters(exclude_characters="<[{`"), max_size=80), cuts=CUTS)
def test_plain_text_is_spoken_at_once(text: str, cuts: list[int]) -> None:
    templates = Templates(names=NAMES)
    for piece in pieces(text, cuts):
        assert templates.feed(piece) == piece


@pytest.mark.parametrize(
    "mark",
    ["<", "{", "[", "</s>", "[TOOL_CALLS]", "<function=", '{"name":', "```json{"],
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


@pytest.mark.parametrize("text", [f"Well. {FORMS['hermes, qwen']}", f"Well. {CALL}"])
def test_a_call_that_is_repeated_as_text_runs_once(text: str) -> None:
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
    text = {"type": "text", "text": FORMS["minimax"]}
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
