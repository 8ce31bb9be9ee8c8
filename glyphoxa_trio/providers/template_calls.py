"""Tool calls that a model writes into its text, in the forms of chat templates. No I/O.

A server is to parse them and does not always: its parser is off, is for another model,
or gives up halfway. `calls_in` reads what stands between the marks of a template
(`templates`), and knows the forms by their looks, not by the model's name.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from glyphoxa_trio.tools.loose_arguments import almost_json

MOST_READ: Final = 256 * 1024  # characters of one block that are read as calls
_PYTHON: Final = 16 * 1024  # characters that are parsed as Python

_NAMES: Final = (
    "name",
    "tool_name",
    "function_name",
    "tool",
    "function",
    "recipient_name",
    "action",
)
_ARGUMENTS: Final = (
    "arguments",
    "parameters",
    "args",
    "tool_input",
    "input",
    "params",
    "action_input",
)
# Words before a tool's name: namespaces that templates put every tool into.
_NAMESPACES: Final = frozenset(
    {"functions", "function", "default", "api", "tools", "tool", "mcp", "namespace"}
)
_TAIL: Final = re.compile(r"(?:<|\(|\[ARGS\]|`|\s).*\Z|:\d+\Z", re.DOTALL)

_SIGNS: Final = re.compile(r'\\.|["{}\[\]]', re.DOTALL)
_CLOSED_BY: Final = {"{": "}", "[": "]"}
_DECODER: Final = json.JSONDecoder(strict=False)
# A name, then its arguments as an object; between them marks of a template.
_NAMED: Final = re.compile(
    r"(?<![\w.:/-])(?P<name>[A-Za-z_][\w.:/-]{0,120})\s{0,9}"
    r"(?:\[CALL_ID\][^\[{]{0,64})?"
    r"(?:\[ARGS\]|<[|\uff5c][^<>]{0,40}[|\uff5c]>|\s|```(?:json)?){0,9}"
    r"(?=\{)"
)
_VENDOR: Final = r"(?:[|\uff5c]\w{1,12}[|\uff5c]|\w{1,12}:)?"
_TAGS: Final = r"function|invoke|function_call|tool_call|tool_use"
_TAGGED: Final = re.compile(
    rf"<{_VENDOR}(?:function=|(?:{_TAGS})\s+name=)\s*[\"']?"
    r"(?P<name>[^>\"'<]{1,200})[^>]{0,200}>(?P<body>.*?)"
    rf"(?:</{_VENDOR}(?:{_TAGS})>|\Z)",
    re.DOTALL,
)
_PARAMETER: Final = re.compile(
    rf"<{_VENDOR}parameter(?:=|\s+name=)\s*[\"']?(?P<key>[^>\"'\s<]{{1,200}})"
    rf"[^>]{{0,200}}>(?P<value>.*?)(?:</{_VENDOR}parameter>|(?=<{_VENDOR}parameter)|\Z)",
    re.DOTALL,
)
_WRAPPING: Final = re.compile(r"</?(?:tool_?calls?|function_?calls?)>", re.IGNORECASE)
_GEMMA_TEXT: Final = re.compile(r'<\|"\|>(.*?)<\|"\|>|<escape>(.*?)<escape>', re.DOTALL)
_CALLED: Final = re.compile(r"call:(?P<name>[A-Za-z_][\w.:/-]{0,120})\s{0,9}\{")
_ALONE: Final = re.compile(r"[A-Za-z_][\w.:/-]{0,120}")
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_WORD: Final = re.compile(r"\s*(?P<name>[A-Za-z_][\w.:/-]*)")

Call = tuple[str, str]
"""The name of a tool and its arguments as JSON text, both as they were written."""


def tool_named(written: str, names: Iterable[str]) -> str:
    """Return which of ``names`` a model meant, "" if none or more than one.

    Templates put their own words around a name: ``functions.roll``,
    ``default_api:roll``, ``functions.roll:0``, ``roll<|channel|>commentary``.
    """
    known = frozenset(names)
    if written in known:
        return written
    last = _TAIL.sub("", written.strip().strip("\"'"))
    while match := re.match(r"(\w+)[.:/](?=\w)", last):
        if match[1] not in _NAMESPACES:
            break
        last = last[match.end() :]
        if last in known:
            return last
    word = _key(_TAIL.sub("", written.strip().strip("\"'")))
    found = [name for name in known if word and _key(name) == word]
    return found[0] if len(found) == 1 else ""


def _key(name: str) -> tuple[str, ...]:
    """Return the words of a name without a namespace before it."""
    words = [word for word in re.split(r"[\W_]+", name) if word]
    while len(words) > 1 and words[0] in _NAMESPACES:
        del words[0]
    return tuple(words)


def calls_in(text: str) -> list[Call]:
    """Return the calls that stand in a block of a template, in order; [] for none."""
    text = _WRAPPING.sub("\n", text).strip()
    if len(text) > MOST_READ:
        return []
    for form in (
        _as_json,
        _as_tags,
        _as_keys,
        _as_called,
        _as_names,
        _as_python,
        _as_word,
    ):
        if found := form(text):
            return found
    return []


def _as_json(text: str) -> list[Call]:
    """Read objects such as ``{"name": "roll", "arguments": {…}}``, or a list."""
    text = _bare(text)
    text += _missing_brackets(text) if text[:1] in ("{", "[") else ""
    values: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values += value if isinstance(value, list) else [value]
        at = end
        while at < len(text) and text[at] in " \t\r\n,;":
            at += 1
    if not values and text[:1] in ("{", "["):
        with suppress(ValueError):
            value = almost_json(text)
            values += value if isinstance(value, list) else [value]
    return [call for value in values for call in _of_object(value)]


def _missing_brackets(text: str) -> str:
    """Return what closes the brackets that were left open, as small models leave
    them; empty in a text, since then more than brackets is missing."""
    open_: list[str] = []
    quoted = False
    for sign in _SIGNS.findall(text):
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in _CLOSED_BY:
            open_.append(_CLOSED_BY[sign])
        elif not quoted and sign in ("}", "]") and (not open_ or open_.pop() != sign):
            return ""
    return "" if quoted else "".join(reversed(open_))


def _bare(text: str) -> str:
    """Return a text without the fence around it, of which an end may be missing."""
    text = re.sub(r"\A```\w*", "", text).strip()
    return text.removesuffix("```").rstrip()


def _as_called(text: str) -> list[Call]:
    """Read ``call:roll{dice:<|"|>2d6<|"|>}`` of Gemma, with its own quotes."""
    calls: list[Call] = []
    for piece in re.split(r"\b(?=call:[A-Za-z_])", _GEMMA_TEXT.sub(_quoted, text)):
        if match := _CALLED.match(piece):
            with suppress(ValueError):
                begin, end = match.end() - 1, piece.rindex("}") + 1
                value = almost_json(piece[begin:end])
                calls.append((match["name"], json.dumps(value)))
    return calls


def _quoted(match: re.Match[str]) -> str:
    return json.dumps(match[1] if match[1] is not None else match[2])


def _as_word(text: str) -> list[Call]:
    """Read a name that stands alone: a call without arguments."""
    return [(text, "{}")] if _ALONE.fullmatch(text) else []


def _of_object(value: object) -> Iterator[Call]:
    """Yield the call that an object describes, if it does."""
    if not isinstance(value, Mapping):
        return
    for key in ("function", "function_call", "tool_call", "tool_calls"):
        inner = value.get(key)
        if isinstance(inner, Mapping | list):
            for row in inner if isinstance(inner, list) else [inner]:
                yield from _of_object(row)
            return
    name = next((x for key in _NAMES if isinstance(x := value.get(key), str)), "")
    given = next((value[key] for key in _ARGUMENTS if key in value), None)
    if name and (given is not None or len(value) == 1):
        yield name, _json(given)


def _as_tags(text: str) -> list[Call]:
    """Read ``<function=roll>…</function>`` and ``<invoke name="roll">…</invoke>``."""
    calls: list[Call] = []
    for match in _TAGGED.finditer(text):
        body = match["body"].strip()
        rows = {x["key"]: _value(x["value"]) for x in _PARAMETER.finditer(body)}
        written = body if body.startswith("{") else "{}"
        calls.append((match["name"].strip(), json.dumps(rows) if rows else written))
    return calls


def _as_keys(text: str) -> list[Call]:
    """Read a name and ``<arg_key>…</arg_key><arg_value>…</arg_value>``."""
    head, *rows = text.split("<arg_key>")
    found: dict[str, str] = {}
    for row in rows:
        key, _, rest = row.partition("</arg_key>")
        value = rest.partition("<arg_value>")[2].partition("</arg_value>")[0]
        found[key.strip()] = _value(value)
    name = _WORD.match(head)
    return [(name["name"], json.dumps(found))] if found and name else []


def _as_names(text: str) -> list[Call]:
    """Read names with an object after each: ``roll[ARGS]{…}``, ``roll:0<|…|>{…}``."""
    calls: list[Call] = []
    at = 0
    while match := _NAMED.search(text, at):
        try:
            value, at = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            break
        calls.append((match["name"], json.dumps(value)))
    return calls


def _as_python(text: str) -> list[Call]:
    """Read ``roll(dice="2d6")``, alone, printed, or in a list."""
    text = _bare(text)
    if len(text) > _PYTHON or "(" not in text:
        return []
    try:
        with warnings.catch_warnings(action="ignore"):  # of its style
            tree = ast.parse(text.strip())
        if not all(isinstance(line, ast.Expr | ast.Assign) for line in tree.body):
            return []  # a program is no list of calls
        return [
            call
            for line in tree.body
            for call in _of_expression(line.value)  # type: ignore[attr-defined]
        ]
    # Deeply nested text exhausts the parser.
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []


def _of_expression(node: ast.expr) -> Iterator[Call]:
    """Yield the calls of an expression, whose arguments are constants with names."""
    if isinstance(node, ast.List | ast.Tuple):
        for inner in node.elts:
            yield from _of_expression(inner)
    elif isinstance(node, ast.Call):
        name = ast.unparse(node.func).removesuffix(".call")  # of Llama 3.1
        if name == "print":
            for inner in node.args:
                yield from _of_expression(inner)
        elif not node.args:
            rows = {x.arg: _literal(x.value) for x in node.keywords if x.arg}
            yield name, json.dumps(rows)


def _literal(node: ast.expr) -> object:
    """Return a constant, in which JSON's words stand for Python's."""
    for inner in ast.walk(node):
        for name, value in ast.iter_fields(inner):
            if isinstance(value, ast.Name) and value.id in _CONSTANTS:
                setattr(inner, name, ast.Constant(_CONSTANTS[value.id]))
            elif isinstance(value, list):
                value[:] = [
                    ast.Constant(_CONSTANTS[x.id])
                    if isinstance(x, ast.Name) and x.id in _CONSTANTS
                    else x
                    for x in value
                ]
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    return ast.literal_eval(node)


def _value(text: str) -> str:
    """Return the text of a parameter, without the line breaks around it."""
    return text.removeprefix("\n").removesuffix("\n")


def _json(given: object) -> str:
    return (
        given if isinstance(given, str) else json.dumps({} if given is None else given)
    )
