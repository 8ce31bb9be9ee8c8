"""One call of a tool in the forms in which models write it into their text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

Form = Callable[[str, Mapping[str, Any]], str]

BAR, LOW = "\uff5c", "\u2581"


def deep(name: str) -> str:
    """A token of DeepSeek's template."""
    return f"<{BAR}{name.replace(' ', LOW)}{BAR}>"


def _named(name: str, given: Mapping[str, Any]) -> str:
    return json.dumps({"name": name, "arguments": given})


def _object(given: Mapping[str, Any]) -> str:
    return json.dumps(given)


def _single(name: str, given: Mapping[str, Any]) -> str:
    return repr({"name": name, "arguments": given})


def text_of(value: Any) -> str:
    """A value as elements have it."""
    return value if isinstance(value, str) else json.dumps(value)


def _code(name: str, given: Mapping[str, Any]) -> str:
    rows = (f"{key}={value!r}" for key, value in given.items())
    return f"{name}({', '.join(rows)})"


def _rows(form: str, given: Mapping[str, Any]) -> str:
    """The arguments, each as ``form`` has it."""
    return "".join(form.format(k=k, v=text_of(v)) for k, v in given.items())


def _gemma(given: Mapping[str, Any], quote: str) -> str:
    rows = (
        f"{k}:{quote + v + quote if isinstance(v, str) else json.dumps(v)}"
        for k, v in given.items()
    )
    return "{" + ",".join(rows) + "}"


# Those that have marks around the call.
MARKED: Final[dict[str, Form]] = {
    "hermes, qwen": lambda n, a: f"<tool_call>\n{_named(n, a)}\n</tool_call>",
    "hermes, unclosed": lambda n, a: f"<tool_call>{_named(n, a)}",
    "hermes, closed by a token": lambda n, a: f"<tool_call>{_named(n, a)}<|im_end|>",
    "hermes without a bracket": lambda n, a: (
        f"<tool_call>{_named(n, a)[:-1]}</tool_call>"
    ),
    "hermes, in single quotes": lambda n, a: f"<tool_call>{_single(n, a)}</tool_call>",
    "hermes, as code": lambda n, a: f"<tool_call>\n{_code(n, a)}\n</tool_call>",
    "hermes, in a list": lambda n, a: f"<tool_calls>[{_named(n, a)}]</tool_calls>",
    "hermes, twice": lambda n, a: (
        f"<tools><tool_call>{_named(n, a)}</tool_call></tools>"
    ),
    "qwen-coder": lambda n, a: (
        f"<tool_call>\n<function={n}>\n"
        + _rows("<parameter={k}>\n{v}\n</parameter>\n", a)
        + "</function>\n</tool_call>"
    ),
    "qwen-coder, inner": lambda n, a: (
        f"<function={n}>" + _rows("<parameter={k}>{v}</parameter>", a) + "</function>"
    ),
    "seed": lambda n, a: (
        f"<seed:tool_call><function={n}>"
        + _rows("<parameter={k}>{v}</parameter>", a)
        + "</function></seed:tool_call>"
    ),
    "llama 3.1": lambda n, a: f"<function={n}>{_object(a)}</function>",
    "llama, python tag": lambda n, a: (
        '<|python_tag|>{"name": "' + n + f'", "parameters": {_object(a)}}}<|eom_id|>'
    ),
    "llama, called": lambda n, a: f"<|python_tag|>{_code(n + '.call', a)}<|eom_id|>",
    "glm": lambda n, a: (
        f"<tool_call>{n}\n"
        + _rows("<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n", a)
        + "</tool_call>"
    ),
    "longcat": lambda n, a: (
        f"<longcat_tool_call>{n}\n"
        + _rows(
            "<longcat_arg_key>{k}</longcat_arg_key>\n"
            "<longcat_arg_value>{v}</longcat_arg_value>\n",
            a,
        )
        + "</longcat_tool_call>"
    ),
    "longcat, as json": lambda n, a: (
        f"<longcat_tool_call>{_named(n, a)}</longcat_tool_call>"
    ),
    "mistral": lambda n, a: f"[TOOL_CALLS][{_named(n, a)}]</s>",
    "mistral, newer": lambda n, a: f"[TOOL_CALLS]{n}[ARGS]{_object(a)}</s>",
    "mistral, with an id": lambda n, a: (
        f"[TOOL_CALLS]{n}[CALL_ID]abc123XYZ[ARGS]{_object(a)}</s>"
    ),
    "lm studio": lambda n, a: f"[TOOL_REQUEST]\n{_named(n, a)}\n[END_TOOL_REQUEST]",
    "kimi": lambda n, a: (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{n}:0"
        f"<|tool_call_argument_begin|>{_object(a)}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    ),
    "deepseek 3": lambda n, a: (
        f"{deep('tool calls begin')}{deep('tool call begin')}function"
        f"{deep('tool sep')}{n}\n```json\n{_object(a)}\n```{deep('tool call end')}"
        f"{deep('tool calls end')}{deep('end of sentence')}"
    ),
    "deepseek 3.1": lambda n, a: (
        f"{deep('tool calls begin')}{deep('tool call begin')}{n}{deep('tool sep')}"
        f"{_object(a)}{deep('tool call end')}{deep('tool calls end')}"
    ),
    "deepseek 3.2": lambda n, a: (
        f'<{BAR}DSML{BAR}function_calls><{BAR}DSML{BAR}invoke name="{n}">'
        + _rows(
            f'<{BAR}DSML{BAR}parameter name="{{k}}" string="true">{{v}}'
            f"</{BAR}DSML{BAR}parameter>",
            a,
        )
        + f"</{BAR}DSML{BAR}invoke></{BAR}DSML{BAR}function_calls>"
    ),
    "minimax": lambda n, a: (
        f'<minimax:tool_call>\n<invoke name="{n}">\n'
        + _rows('<parameter name="{k}">{v}</parameter>\n', a)
        + "</invoke>\n</minimax:tool_call>"
    ),
    "claude, older": lambda n, a: (
        f'<function_calls>\n<invoke name="{n}">\n'
        + _rows('<parameter name="{k}">{v}</parameter>\n', a)
        + "</invoke>\n</function_calls>"
    ),
    "claude, oldest": lambda n, a: (
        f"<function_calls><invoke><tool_name>{n}</tool_name><parameters>"
        + _rows("<{k}>{v}</{k}>", a)
        + "</parameters></invoke></function_calls>"
    ),
    "grok": lambda n, a: (
        f'<xai:function_call name="{n}">'
        + _rows('<parameter name="{k}">{v}</parameter>', a)
        + "</xai:function_call>"
    ),
    "gpt-oss": lambda n, a: (
        "<|channel|>analysis<|message|>The king is dead.<|end|><|start|>assistant"
        f"<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>"
        f"{_object(a)}<|call|>"
    ),
    "gpt-oss, recipient first": lambda n, a: (
        f"<|start|>assistant to=functions.{n}<|channel|>commentary json<|message|>"
        f"{_object(a)}<|call|>"
    ),
    "prefix and suffix": lambda n, a: (
        f"<|tools_prefix|>[{_named(n, a)}]<|tools_suffix|>"
    ),
    "apertus": lambda n, a: (
        f'<|tools_prefix|>[{{"{n}": {_object(a)}}}]<|tools_suffix|>'
    ),
    "lfm": lambda n, a: f"<|tool_call_start|>[{_code(n, a)}]<|tool_call_end|>",
    "lfm, as json": lambda n, a: (
        f"<|tool_call_start|>[{_named(n, a)}]<|tool_call_end|>"
    ),
    "command": lambda n, a: (
        "<|START_THINKING|>The king is dead.<|END_THINKING|><|START_ACTION|>"
        f'[{{"tool_call_id": "0", "tool_name": "{n}", "parameters": {_object(a)}}}]'
        "<|END_ACTION|>"
    ),
    "gemma 4": lambda n, a: (
        f"<|tool_call>call:{n}{_gemma(a, '<|' + chr(34) + '|>')}<tool_call|>"
    ),
    "functiongemma": lambda n, a: (
        f"<start_function_call>call:{n}{_gemma(a, '<escape>')}<end_function_call>"
    ),
    "granite": lambda n, a: f"<|tool_call|>[{_named(n, a)}]",
    "granite, older": lambda n, a: f"<tool_call>[{_named(n, a)}]",
    "granite, oldest": lambda n, a: f"<function_call> {_named(n, a)}",
    "phi": lambda n, a: f"<|tool_call|>[{_named(n, a)}]<|/tool_call|>",
    "cline": lambda n, a: (
        "<use_mcp_tool>\n<server_name>dice</server_name>\n"
        f"<tool_name>{n}</tool_name>\n<arguments>\n{_object(a)}\n</arguments>\n"
        "</use_mcp_tool>"
    ),
    "in elements": lambda n, a: (
        f"<tool_use><name>{n}</name><arguments>{_object(a)}</arguments></tool_use>"
    ),
    "in elements, all": lambda n, a: (
        f"<tool_call><name>{n}</name><arguments>"
        + _rows("<{k}>{v}</{k}>", a)
        + "</arguments></tool_call>"
    ),
    "attributes": lambda n, a: f'<tool_call name="{n}">{_object(a)}</tool_call>',
    "fence of tools": lambda n, a: f"```tool_call\n{_named(n, a)}\n```",
    "gemma, as code": lambda n, a: (
        f"```tool_code\nprint({_code('default_api.' + n, a)})\n```"
    ),
    "gemma, plain code": lambda n, a: f"```tool_code\n{_code(n, a)}\n```",
}

# Those that are bare, or in a fence: they are text unless they are a call.
BARE: Final[dict[str, Form]] = {
    "llama, bare": lambda n, a: json.dumps({"name": n, "parameters": a}),
    "llama, typed": lambda n, a: json.dumps(
        {"type": "function", "name": n, "parameters": a}
    ),
    "arguments first": lambda n, a: json.dumps({"arguments": a, "name": n}),
    "by its name": lambda n, a: json.dumps({n: a}),
    "llama 4, as code": lambda n, a: f"[{_code(n, a)}]",
    "openai, as text": lambda n, a: json.dumps(
        {"tool_calls": [{"function": {"name": n, "arguments": _object(a)}}]}
    ),
    "openai, one": lambda n, a: json.dumps(
        {"type": "function", "function": {"name": n, "arguments": a}}
    ),
    "anthropic, as text": lambda n, a: json.dumps(
        {"type": "tool_use", "id": "toolu_1", "name": n, "input": a}
    ),
    "with its arguments beside it": lambda n, a: json.dumps({"tool": n} | dict(a)),
    "json-rpc": lambda n, a: json.dumps(
        {"id": 1, "method": "tools/call", "params": {"name": n, "arguments": a}}
    ),
    "another element": lambda n, a: f"<execute>{_code(n, a)}</execute>",
    "an object in brackets": lambda n, a: f"functions.{n}({_object(a)})",
    "qwen, older": lambda n, a: f"✿FUNCTION✿: {n}\n✿ARGS✿: {_object(a)}",
    "bold": lambda n, a: f"**Action:** {n}\n**Action Input:** {_object(a)}",
    "a label": lambda n, a: f"TOOL_CALL: {_named(n, a)}",
    "a sign": lambda n, a: f"@{n} {_object(a)}",
    "gemini, as text": lambda n, a: json.dumps(
        {"functionCall": {"name": n, "args": a}}
    ),
    "an action": lambda n, a: json.dumps({"action": n, "action_input": a}),
    "fenced": lambda n, a: f"```json\n{_named(n, a)}\n```",
    "fenced, by its name": lambda n, a: f"```json\n{json.dumps({n: a})}\n```",
    "fenced without a language": lambda n, a: f"```\n{_named(n, a)}\n```",
    "fenced elements": lambda n, a: (
        f"```xml\n<tool_call><name>{n}</name><arguments>{_object(a)}</arguments>"
        "</tool_call>\n```"
    ),
    "python": lambda n, a: f"```python\nprint({_code('default_api.' + n, a)})\n```",
    "python, plain": lambda n, a: f"```python\n{_code(n, a)}\n```",
    "command, older": lambda n, a: (
        f'Action:```json\n[{{"tool_name": "{n}", "parameters": {_object(a)}}}]\n```'
    ),
    "phi, functools": lambda n, a: f"functools[{_named(n, a)}]",
    "its element": lambda n, a: f"<{n}>" + _rows("<{k}>{v}</{k}>", a) + f"</{n}>",
    "gpt-oss, without its start": lambda n, a: (
        f"commentary to=functions.{n} <|constrain|>json<|message|>{_object(a)}<|call|>"
    ),
    "gemini, bare": lambda n, a: _code("default_api." + n, a),
    "gemini, printed": lambda n, a: f"print({_code('default_api.' + n, a)})",
}

# Those that need a line of their own.
LINES: Final[dict[str, Form]] = {
    "a line": _code,
    "react": lambda n, a: f"Action: {n}\nAction Input: {_object(a)}",
    "functionary": lambda n, a: f">>>{n}\n{_object(a)}",
    "glm 4": lambda n, a: f"{n}\n{_object(a)}",
}
FORMS: Final = MARKED | BARE | LINES
