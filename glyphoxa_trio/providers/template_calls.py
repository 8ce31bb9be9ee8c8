"""Tool calls that a model writes into its text, in the forms of chat templates. No I/O.

A server is to parse them and does not always: its parser is off, is for another model,
or gives up halfway. `calls_in` knows no template. What all forms have in common is the
name of a tool that was shown, and close behind it the arguments: an object, Python's
keywords, or elements with keys and values. Marks and words of templates around them
mean nothing.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.loose_arguments import almost_json

MOST_READ: Final = 256 * 1024  # characters of one block that are read as calls
_PYTHON: Final = 16 * 1024  # characters that are parsed as Python

# Words before a tool's name: namespaces that templates put every tool into.
_NAMESPACES: Final = frozenset(
    {*("functions", "function", "default", "api", "tools", "tool", "mcp"), "namespace"}
    | {"call"}
)
_TAIL: Final = re.compile(r"(?:<|\(|\[ARGS\]|`|\s).*\Z|:\d+\Z", re.DOTALL)
# Words of templates, between a name and its arguments or before a name.
_WORDS: Final = _NAMESPACES | {
    *("action", "input", "arguments", "parameters", "args", "call", "to", "type", "id"),
    *("name", "calls"),
    *("json", "xml", "python", "commentary", "assistant", "print", "functools"),
}

_STRUCTURE: Final = frozenset({"invoke", "use", "params", "code"})

# Keys of an object that is a call, and of one that has calls in it.
_NAME: Final = re.compile(
    r"(?:(?:tool|function|recipient|action)_?)?name|tool|function|action", re.IGNORECASE
)
_GIVEN: Final = re.compile(
    r"(?:\w+_)?(?:arguments|parameters|args|kwargs|input|params)", re.IGNORECASE
)
VENDOR: Final = r"(?:[|\uff5c]\w{1,12}[|\uff5c]|\w{1,12}:)?"  # as in <minimax:invoke>
_TOKEN: Final = re.compile(
    r"<[|\uff5c][^|\uff5c<>\n]{1,64}[|\uff5c]>|```|\[CALL_ID\]\w{0,64}|\[[A-Z_]{2,24}\]"
    rf"|<(?P<close>/?){VENDOR}(?P<tag>[\w.-]{{1,120}})"
    r"(?:(?:\s+[\w-]{1,24})?\s*=\s*[\"']?(?P<value>[^<>\"']{1,200})[^<>]{0,200})?\s*/?>"
    r"|(?P<open>[{\[])|(?P<word>\w[\w.:/-]{0,120})(?P<called>\()?"
)
_ATTRIBUTES: Final = re.compile(r"([\w-]{1,64})=[\"']([^\"'<>]{0,200})[\"']")
_KEY: Final = re.compile(r"(?:.*_)?(?:param|parameter|arg|argument|key)", re.IGNORECASE)
_ENDS: Final = re.compile(r"(?:.*_)?(?:tool|function|call|invoke|tool_use)")
_SIGNS: Final = re.compile(r"\\.|[\"'{}\[\]()]", re.DOTALL)
_CLOSED_BY: Final = {"{": "}", "[": "]", "(": ")"}
_DECODER: Final = json.JSONDecoder(strict=False)
_GEMMA_TEXT: Final = re.compile(r'<\|"\|>(.*?)<\|"\|>|<escape>(.*?)<escape>', re.DOTALL)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}

Call = tuple[str, str]
"""The name of a tool, and its arguments as JSON text."""


def tool_named(written: str, names: Iterable[str]) -> str:
    """Return which of ``names`` a model meant, "" if none or more than one.

    Templates put their own words around a name: ``functions.roll``,
    ``default_api:roll``, ``functions.roll:0``, ``roll<|channel|>commentary``.
    """
    known = names if isinstance(names, frozenset) else frozenset(names)
    if written in known:
        return written
    last = _TAIL.sub("", written.strip().strip("\"'"))
    while match := re.match(r"(\w+)[.:/](?=\w)", last):
        if match[1] not in _NAMESPACES:
            break
        last = last[match.end() :]
        if last in known:
            return last
    found = _by_key(known).get(_key(_TAIL.sub("", written.strip().strip("\"'"))), [])
    return found[0] if len(found) == 1 else ""


@lru_cache(maxsize=32)
def _by_key(names: frozenset[str]) -> Mapping[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        found.setdefault(_key(name), []).append(name)
    found.pop((), None)
    return found


def _key(name: str) -> tuple[str, ...]:
    """Return the words of a name without a namespace before it."""
    words = [word for word in re.split(r"[\W_]+", name) if word]
    while len(words) > 1 and words[0] in _NAMESPACES:
        del words[0]
    return tuple(words)


def calls_in(text: str, tools: Mapping[str, Any], *, bare: bool = False) -> list[Call]:
    """Return the calls that stand in a text, in order; [] for none.

    Args:
      tools: the schema of each tool that was shown; None or {} if it is not known.
      bare: True if no marks of a template say that it is a call: then it has nothing
        else in it, and the arguments fit the schema.
    """
    if len(text) > MOST_READ:
        return []
    reader = _CallReader(_GEMMA_TEXT.sub(_quoted, text), tools, frozenset(tools))
    reader.read()
    reader.calls += [] if bare or reader.others else reader.alone
    if bare and (reader.others or not all(_fits(x, tools) for x in reader.calls)):
        return []
    return reader.calls


def _quoted(match: re.Match[str]) -> str:
    return json.dumps(match[1] if match[1] is not None else match[2])


def _fits(call: Call, tools: Mapping[str, Any]) -> bool:
    """Return whether a tool has these fields, and some if it needs any."""
    schema = tools.get(call[0]) or {}
    fields = schema.get("properties")
    try:
        given = almost_json(call[1])
    except ValueError:
        return False
    if not isinstance(fields, Mapping) or schema.get("additionalProperties"):
        return isinstance(given, Mapping)
    needed = given or not schema.get("required")
    return isinstance(given, Mapping) and bool(needed) and given.keys() <= {*fields}


@attrs.define(eq=False)
class _CallReader:
    """The reading of one text. ``others``: True if it has words that mean nothing."""

    text: str
    tools: Mapping[str, Any]
    names: frozenset[str]
    calls: list[Call] = attrs.field(factory=list)
    others: bool = False
    _at: int = 0
    _tool: str = ""  # that was named, and has no arguments yet
    _sure: bool = False
    _rows: dict[str, str] = attrs.field(factory=dict)
    alone: list[Call] = attrs.field(factory=list)  # names without arguments

    def read(self) -> None:
        while match := _TOKEN.search(self.text, self._at):
            self._at = match.end()
            if match["open"]:
                if not self._opened(match.start()):
                    self.others, self._tool = True, ""
                    break
            elif match["called"]:
                self._python(match["word"], match.end() - 1)
            elif match["word"]:
                self._word(match["word"])
            elif match["tag"]:
                self._tag(match)
        self._end()

    def _named(self, written: str, *, sure: bool = False) -> bool:
        """Begin the call of the tool that was written, if it was shown. It is ``sure``
        where a template has nothing but names."""
        tool = tool_named(written, self.names)
        self.others = self.others or not tool
        self._end()
        self._tool, self._sure = tool, sure
        return bool(tool)

    def _end(self) -> None:
        """End the call that was begun."""
        if self._tool:
            call = self._tool, json.dumps(self._rows)
            (self.calls if self._rows or self._sure else self.alone).append(call)
        self._tool, self._rows = "", {}

    def _word(self, word: str) -> None:
        filler = _WORDS.issuperset(word.rstrip(".:-/").lower().split("_"))
        if not filler or (word in self.names and not self._tool):
            self._named(word)

    def _tag(self, match: re.Match[str]) -> None:
        tag, value = match["tag"], (match["value"] or "").strip()
        fields = (self.tools.get(self._tool) or {}).get("properties") or {}
        if match["close"]:
            if (self._rows or self._sure) and _ENDS.fullmatch(tag):
                self._end()
        elif self._tool and _KEY.fullmatch(tag):
            key = value or self._until(tag).strip()
            if not value:  # the value has an element of its own
                after = _TOKEN.match(self.text, self._blank())
                if after is None or not after["tag"]:
                    return
                tag, self._at = after["tag"], after.end()
            self._rows[key] = self._until(tag)
        elif value or tag in self.names:
            self._named(tag if tag in self.names else value, sure=True)
            fields = (self.tools.get(self._tool) or {}).get("properties") or {}
            for key, given in _ATTRIBUTES.findall(match[0]):
                if key in fields and (given != value or tag in self.names):
                    self._rows[key] = given
        elif self._tool and (tag in fields or not _is_structure(tag)):
            self._rows[tag] = self._until(tag)

    def _blank(self) -> int:
        at = self._at
        while self.text[at : at + 1].isspace():
            at += 1
        return at

    def _until(self, tag: str) -> str:
        """Return the text up to the end of this element, or to the next one."""
        found = re.compile(
            rf"</{VENDOR}{re.escape(tag)}>|(?=<{VENDOR}{re.escape(tag)}[\s=>])"
            rf"|(?=</{VENDOR}(?:function|invoke|tool_call)>)|\Z"
        ).search(self.text, self._at)
        assert found is not None
        value, self._at = self.text[self._at : found.start()], found.end()
        return value.removeprefix("\n").removesuffix("\n")

    def _opened(self, at: int) -> bool:
        """Read an object or a list; return whether it can be read."""
        if re.compile(r"(?:\[\s*){1,2}\w[\w.:/-]*\(").match(self.text, at):
            return True  # of calls in Python
        try:
            value, self._at = _DECODER.raw_decode(self.text, at)
        except (ValueError, RecursionError):
            end, missing = self._closing(at)
            if missing is None:
                return False
            try:
                value, self._at = almost_json(self.text[at:end] + missing), end
            except ValueError:
                return False
        if self._tool and isinstance(value, Mapping):
            self.calls.append((self._tool, json.dumps(value)))
            self._tool, self._rows = "", {}
            return True
        found: list[Call] = []
        with suppress(RecursionError):
            found += _of_data(value, self.names)
        self.others = self.others or not found
        self.calls += found
        return True

    def _closing(self, at: int) -> tuple[int, str | None]:
        """Return where the bracket at ``at`` is closed, and what is missing for that:
        brackets, as small models leave them out; None if it is more than brackets."""
        open_: list[str] = []
        quote = ""
        for match in _SIGNS.finditer(self.text, at):
            sign = match.group()
            if quote or sign in ('"', "'"):
                quote = "" if sign == quote else quote or sign
            elif sign in _CLOSED_BY:
                open_.append(_CLOSED_BY[sign])
            elif sign in _CLOSED_BY.values():
                if open_.pop() != sign:
                    return match.start(), None
                if not open_:
                    return match.end(), ""
        return len(self.text), None if quote else "".join(reversed(open_))

    def _python(self, name: str, at: int) -> None:
        """Read ``roll(dice="2d6")``, whose arguments are constants with names."""
        name = name.removesuffix(".call")  # of Llama 3.1
        if name == "print":
            return
        begin, (self._at, _) = at, self._closing(at)
        read: str | None = None
        if self._named(name) and self._at - begin <= _PYTHON:
            # Deeply nested text exhausts the parser, and not all constants are JSON's.
            with suppress(
                SyntaxError, ValueError, TypeError, RecursionError, MemoryError
            ):
                rows = _keywords(f"f{self.text[begin : self._at]}")
                read = None if rows is None else json.dumps(rows)
        if read is not None:
            self.calls.append((self._tool, read))
        self.others = self.others or read is None
        self._tool = ""


def _is_structure(tag: str) -> bool:
    """Return whether an element is of a template, and no argument."""
    return not (_WORDS | _STRUCTURE).isdisjoint(tag.lower().split("_"))


def _of_data(value: object, names: frozenset[str]) -> Iterator[Call]:
    """Yield the calls that plain data describe: ``{"name": …, "arguments": …}``,
    ``{"roll": {…}}``, lists of them, and those in other objects."""
    if isinstance(value, list):
        for row in value:
            yield from _of_data(row, names)
    if not isinstance(value, Mapping):
        return
    named = [key for key, x in value.items() if _NAME.fullmatch(key)]
    found = ((key, _tool_at(value, key, names)) for key in named)
    at, tool = next((row for row in found if row[1]), ("", ""))
    given = [x for key, x in value.items() if _GIVEN.fullmatch(key)][:1]
    if tool and given:
        first = given[0]
        yield tool, first if isinstance(first, str) else json.dumps(first or {})
    elif tool:
        rest = {key: x for key, x in value.items() if key not in (at, "id", "type")}
        yield tool, json.dumps(rest)
    elif value and all(x in names and isinstance(value[x], Mapping) for x in value):
        yield from ((key, json.dumps(given)) for key, given in value.items())
    elif not (named and given):  # of a tool that was not shown
        for inner in value.values():
            yield from _of_data(inner, names)


def _tool_at(value: Mapping[str, Any], key: str, names: frozenset[str]) -> str:
    return tool_named(value[key], names) if isinstance(value[key], str) else ""


def _keywords(code: str) -> dict[str, object] | None:
    """Return the arguments of a call, None if it is none, or has some without names.

    Raises:
      SyntaxError, ValueError, TypeError, RecursionError, MemoryError: if it cannot be
        read, or has more in it than constants.
    """
    with warnings.catch_warnings(action="ignore"):  # of its style
        node = _Constants().visit(ast.parse(code, mode="eval")).body
    if not isinstance(node, ast.Call):
        return None
    if node.args:
        only = node.args[0] if len(node.args) == 1 and not node.keywords else None
        return ast.literal_eval(only) if isinstance(only, ast.Dict) else None
    return {x.arg: ast.literal_eval(x.value) for x in node.keywords if x.arg}


class _Constants(ast.NodeTransformer):
    """Words of JSON become those of Python."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = node.id in _CONSTANTS
        return ast.Constant(_CONSTANTS[node.id]) if known else node
