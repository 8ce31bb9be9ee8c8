"""Questions of servers to a person, in the middle of a call. No I/O.

A server may ask for a form to be filled in, or for an address to be opened (MCP calls
this elicitation). It is shown as the server's question, and the answer goes to the
server alone: no model reads it as something that a player has said. Nothing is opened
here: a person who agrees does that.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import date, datetime
from itertools import zip_longest
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from glyphoxa_trio.actors import OpenTime
from glyphoxa_trio.config.servers import is_private
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.arguments import InvalidArguments, cut
from glyphoxa_trio.tools.characters import visible
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.tools.repair import repaired_schema
from glyphoxa_trio.tools.schema import ArgumentSchema, BadSchema

LONGEST_QUESTION: Final = 300.0  # seconds for which one may stay open

_MOST_FIELDS: Final = 20
_TEXT: Final = 2000  # characters of a question
_ADDRESS: Final = 2000  # characters of an address
_LABEL: Final = 300  # characters of a field's name or description
_MOST_CHOICES: Final = 1000
_MOST_STEPS: Final = 8  # from a schema to the one that it refers to
_KINDS: Final = ("string", "number", "integer", "boolean")
_YES: Final = ("yes", "y", "true", "on", "1")
_NO: Final = ("no", "n", "false", "off", "0")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
}
# Keywords that tell the type of a schema that has none.
_TELLING: Final = {"items": "array", "properties": "object", "minimum": "number"}
_NUMBERS: Final = re.compile(r"\s*\d+(\s*[\s,;]\s*\d+)+\s*")
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+|[^@\s]+@localhost")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_TIMED: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*([Zz]|[+-]\d\d:?\d\d)")

# What nobody may be asked for in clear: MCP forbids servers to ask for it in a form.
_SECRET: Final = re.compile(
    r"pass\s?-?_?(word|phrase|code)|passwd|\bpwd\b|credential|secret[ _-]?key"
    r"|api[ _-]?key|private[ _-]?key|access[ _-]?(key|token)|\bcvv\b|\bcvc\b|\bssn\b"
    r"|card[ _-]?number|security[ _-]?code|one[ _-]?time[ _-]?code|\botp\b"
    r"|passwort|kennwort|contraseña|mot de passe|\bsenha\b|wachtwoord|\bhasło\b|пароль"
    r"|密码|密碼|パスワード|비밀번호",
    re.IGNORECASE,
)
# A secret door and a token on the map are none; a field to type into, with that name,
# is one.
_SECRET_NAME: Final = re.compile(r"\b(secret|token|pin)\b", re.IGNORECASE)
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|_")


class QuestionRefused(GlyphoxaError):
    """A question is not asked, or not answered; the message says why, to its server."""


class AnswerWrong(GlyphoxaError):
    """A value does not fit its field; the message says why, to the person."""


@attrs.frozen
class QuestionField:
    """One field of a form. ``kind`` is string, number, integer, boolean or array.

    ``choices`` are the values that may be given, texts or numbers, and ``titles`` how
    each is shown; of an array, several may be given. ``schema`` is the JSON schema of
    the value, as plain as it can be made.
    """

    name: str
    kind: str = "string"
    title: str = ""
    description: str = ""
    required: bool = False
    choices: tuple[Any, ...] = ()
    titles: tuple[str, ...] = ()
    default: Any = None
    schema: Mapping[str, Any] = attrs.field(factory=dict, repr=False, eq=False)

    def shown(self, value: Any) -> str:
        """Return a value as it is shown to the person: by its title, if it has one."""
        if isinstance(value, list | tuple):
            return ", ".join(map(self.shown, value))
        if isinstance(value, bool):
            return "yes" if value else "no"
        for choice, title in zip(self.choices, self.titles, strict=False):
            if choice == value:
                return title
        return visible(str(value))

    def read(self, line: str) -> Any:
        """Return the value that a person has typed: None if the field is left out.

        A choice is its value, its title or its number in the list, from 1; several
        have commas between them. An empty line is the default.

        Raises:
          AnswerWrong: if the value does not fit.
        """
        line = line.strip()
        if not line:
            if self.default is None and self.required:
                raise AnswerWrong("it needs a value")
            return self.default
        value = self._listed(line) if self.kind == "array" else self._one(line)
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Check a value of the field.

        Raises:
          AnswerWrong: if it does not fit.
        """
        values = value if isinstance(value, list) else [value]
        whole = {"type": "object", "properties": {"value": self.schema}}
        try:
            schema = ArgumentSchema(whole, foreign=True)
            if schema.parse(json.dumps({"value": value})) != {"value": value}:
                raise AnswerWrong(f"it must be of the type {self.kind}")
        except (InvalidArguments, BadSchema, TypeError, ValueError) as error:
            raise AnswerWrong(str(error).replace("$.value: ", "")) from None
        form = self.schema.get("format") or _items(self.schema).get("format")
        fits, name = _FORMATS.get(str(form), (None, ""))
        if fits is not None and not all(isinstance(x, str) and fits(x) for x in values):
            raise AnswerWrong(f"it must be {name}")

    def _listed(self, line: str) -> list[Any]:
        if self.choices:
            with suppress(AnswerWrong):  # a title may have a comma
                return [self._one(line)]
        parts = line.split() if self.choices and _NUMBERS.fullmatch(line) else [line]
        words = [x.strip() for part in parts for x in re.split("[,;]", part)]
        return list(dict.fromkeys(self._one(x) for x in words if x))

    def _one(self, text: str) -> Any:
        if self.choices:
            return self._chosen(text)
        kind = self.kind
        if kind == "array":
            kind = str(_items(self.schema).get("type", "string"))
        if kind == "boolean":
            if text.lower() in (*_YES, *_NO):
                return text.lower() in _YES
            raise AnswerWrong("answer yes or no")
        if kind not in ("integer", "number"):
            return text
        try:
            number = float(text.replace("_", "?"))
            whole = int(text) if text.lstrip("+-").isdecimal() else None
        except ValueError:
            number, whole = math.nan, None
        if not math.isfinite(number):
            raise AnswerWrong("it must be a number")
        if kind == "integer":
            if whole is None and not number.is_integer():
                raise AnswerWrong("it must be a whole number")
            return int(number) if whole is None else whole
        return number if whole is None else whole

    def _chosen(self, text: str) -> Any:
        values, titles = [str(x) for x in self.choices], self.titles
        for names in (values, titles):
            for same in (str, str.casefold):
                found = [n for n, x in enumerate(names) if same(x) == same(text)]
                if len(found) == 1:
                    return self.choices[found[0]]
        if text.isdecimal() and 0 < int(text) <= len(values):
            return self.choices[int(text) - 1]
        some = ", ".join(nearest(text, titles) or titles[:10])
        more = ", …" if len(titles) > 10 else ""
        raise AnswerWrong(f"it must be one of {some}{more}")


@attrs.frozen
class ServerQuestion:
    """A question of a server to a person. Its texts are the server's.

    A question without fields wants a yes or a no: ``{}`` is yes. With an ``address``,
    which is in the text as well, yes means that the person opens it.
    """

    server: str
    text: str
    fields: tuple[QuestionField, ...] = ()
    address: str = ""

    def checked(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of an answer, without those that are None.

        Raises:
          QuestionRefused: if they do not fit the form.
        """
        try:
            given = {name: x for name, x in dict(answer).items() if x is not None}
        except (TypeError, ValueError):
            raise QuestionRefused("the answer is no form") from None
        known = {field.name: field for field in self.fields}
        wrong = [f"{x}: there is no such field" for x in given if x not in known]
        for name, field in known.items():
            try:
                if name in given:
                    if isinstance(given[name], tuple):
                        given[name] = list(given[name])
                    field.check(given[name])
                elif field.required:
                    raise AnswerWrong("it needs a value")
            except AnswerWrong as error:
                wrong.append(f"{name}: {error}")
        if wrong:
            said = "; ".join(wrong)
            raise QuestionRefused(f"the answer does not fit the form: {said}")
        return given


Answer = Mapping[str, Any]
Answers = Callable[[ServerQuestion], Awaitable[Answer | None]]
"""Asks a person; returns a value for each field, or None if the person declines."""


@attrs.define(eq=False)
class TimedQuestions:
    """Asks a person on behalf of one server, and counts the time that it takes."""

    _answers: Answers
    open: OpenTime = attrs.field(factory=OpenTime, init=False)

    async def ask(self, question: ServerQuestion) -> Answer | None:
        """Return the person's answer; None if they decline.

        Raises:
          QuestionRefused: as the function that asks.
        """
        self.open.begin()
        try:
            return await self._answers(question)
        finally:
            self.open.end()


def asked(server: str, params: Mapping[str, Any]) -> ServerQuestion:
    """Return the question that a server asks with these parameters.

    Raises:
      QuestionRefused: for what a person cannot be asked.
    """
    mode = params.get("mode")
    if mode == "url":
        return _of_address(server, params.get("message"), params.get("url"))
    if mode not in (None, "form"):
        raise QuestionRefused("ask in a form, or to open a url")
    text, schema = params.get("message"), params.get("requestedSchema")
    if schema is None or schema == []:
        schema = {}
    if not isinstance(text, str | None) or not isinstance(schema, Mapping):
        raise QuestionRefused("its message must be a text, its form a JSON schema")
    question = question_of(server, text or "", schema)
    if not (question.text.strip() or question.fields):
        raise QuestionRefused("the question has neither a message nor a form")
    return question


def _of_address(server: str, text: Any, address: Any) -> ServerQuestion:
    """Return the question whether a person opens an address.

    Raises:
      QuestionRefused: for an address that does not show where it leads.
    """
    if not isinstance(text, str | None) or not isinstance(address, str):
        raise QuestionRefused("its message and its url must be texts")
    if len(address) > _ADDRESS:
        raise QuestionRefused(f"its url has more than {_ADDRESS} characters")
    try:
        parts = urlsplit(address)
        leads = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        shown = all("!" <= x <= "~" for x in address) and "@" not in parts.netloc
        safe = leads and shown and is_private(address)
    except ValueError:  # it has no such parts
        safe = False
    if not safe:
        raise QuestionRefused(
            "its url must be https://…, in plain ASCII and without credentials"
        )
    said = visible(cut(text or "", _TEXT)).strip()
    return ServerQuestion(server, f"{said}\n{address}".lstrip(), address=address)


def question_of(server: str, text: str, schema: Mapping[str, Any]) -> ServerQuestion:
    """Return the question that a server's form is.

    Raises:
      QuestionRefused: for a form that cannot be shown, or asks for a secret.
    """
    fixed = repaired_schema(dict(schema))
    others = {**_mapping(fixed.get("definitions")), **_mapping(fixed.get("$defs"))}
    fixed = _plain_schema(fixed, others)
    properties, required = fixed.get("properties"), fixed.get("required")
    if fixed.get("type", "object") != "object" or not isinstance(
        properties, Mapping | None
    ):
        raise QuestionRefused("a form is an object with a schema for each field")
    if len(properties or {}) > _MOST_FIELDS:
        raise QuestionRefused(f"a form may have {_MOST_FIELDS} fields at most")
    fields = tuple(
        _field(name, _plain_schema(_mapping(each), others), name in _list(required))
        for name, each in (properties or {}).items()
    )
    text = cut(text, _TEXT)  # the rest is not shown, and takes the event loop's time
    question = ServerQuestion(server, visible(text), fields)
    if _SECRET.search(_plain(text)) or any(map(_is_secret, fields)):
        raise QuestionRefused(
            "a person is not asked for secrets in a form: put them into the server's"
            " configuration (env, headers or auth)"
        )
    return question


def _is_secret(field: QuestionField) -> bool:
    """Return whether a field asks for a secret."""
    names = [_plain(_HUMP.sub(" ", x)) for x in (field.name, field.title)]
    is_typed = field.kind != "boolean" and not field.choices  # a PIN may be a number
    named = is_typed and any(map(_SECRET_NAME.search, names))
    words = [*names, field.name, _plain(field.description)]
    return named or any(map(_SECRET.search, words))


def _plain(text: str) -> str:
    """Return a text without the letters by which a word is disguised."""
    letters = unicodedata.normalize("NFKC", text)
    return "".join(x for x in letters if unicodedata.category(x) != "Cf")


def _field(name: str, schema: Mapping[str, Any], required: bool) -> QuestionField:
    kind = _kind(schema)
    items = _items(schema) if kind == "array" else {}
    choices, titles = _choices(items if kind == "array" else schema)
    inner = _kind(items) if kind == "array" and not choices else "string"
    shown = len(name) <= _LABEL
    if not shown or kind not in (*_KINDS, "array") or inner not in _KINDS:
        raise QuestionRefused(f"the form's field {name[:_LABEL]!r} cannot be shown")
    if len(choices) > _MOST_CHOICES:
        raise QuestionRefused(f"a field may have {_MOST_CHOICES} choices at most")
    plain = _checks(schema)
    if kind == "array":
        of_one: dict[str, Any] = {"type": inner}
        of_one |= {k: v for k, v in _checks(items).items() if k != "type"}
        plain |= {"type": "array", "items": {"enum": choices} if choices else of_one}
    else:
        plain = {"enum": choices} if choices else plain | {"type": kind}
    field = QuestionField(
        name,
        kind,
        visible(cut(_text(schema.get("title")), _LABEL)),
        visible(cut(_text(schema.get("description")), _LABEL)),
        required or schema.get("required") is True,
        tuple(choices),
        tuple(titles),
        schema=plain,
    )
    default = schema.get("default")
    try:
        if default is not None:
            field.check(default)
    except AnswerWrong:
        default = None
    return attrs.evolve(field, default=default)


# The keywords that a field is checked by.
_CHECKED: Final = ("type", "pattern", "uniqueItems")
_LIMITS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minLength", "maxLength", "minItems", "maxItems"),
)


def _checks(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a value is checked by, and a person is shown: limits that are
    numbers, and the formats that MCP has. Others could be any text of the server's."""
    return {
        key: value
        for key, value in schema.items()
        if key in _CHECKED
        or (key in _LIMITS and type(value) in (int, float))
        or (key == "format" and isinstance(value, str) and value in _FORMATS)
    }


def _plain_schema(
    schema: Mapping[str, Any], others: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return a schema without references, and without null as an alternative.

    Args:
      others: those that it may refer to, by name.
    """
    for _ in range(_MOST_STEPS):
        rest = dict(schema)
        if isinstance(ref := rest.pop("$ref", None), str):
            schema = {**_mapping(others.get(ref.rpartition("/")[2])), **rest}
            continue
        for key in ("allOf", "anyOf", "oneOf"):
            parts = [
                x
                for x in _list(rest.get(key))
                if isinstance(x, Mapping) and x.get("type") != "null"
            ]
            if len(parts) == 1 and "const" not in parts[0]:
                del rest[key]
                schema = {**parts[0], **rest}
                break
        else:
            break
    return schema


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema, as it says or as its other keywords tell."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [x for x in kind if x != "null"]
        kind = kinds[0] if len(kinds) == 1 else "several types"
    values = [value for value, _ in _listed_values(schema) if value is not None]
    if values and kind in (None, *_KINDS):
        for told, types in _TYPES.items():
            if all(type(x) in types for x in values):
                return told
        return "several types"
    if kind is None:
        kind = next((x for key, x in _TELLING.items() if key in schema), "string")
    return str(kind)


def _choices(schema: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """Return the texts or numbers of an enumeration, and their titles."""
    found: dict[Any, str] = {}
    for value, name in _listed_values(schema):
        if type(value) in (str, int, float):
            title = name if isinstance(name, str) and name else str(value)
            found.setdefault(value, visible(cut(title, _LABEL)))
    return list(found), list(found.values())


def _listed_values(schema: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the values of an enumeration and their names, in any of its spellings."""
    values, names = schema.get("enum"), schema.get("enumNames")
    if isinstance(values, list):
        return list(zip_longest(values, _list(names)))[: len(values)]
    if "const" in schema:
        return [(schema["const"], None)]
    listed = _list(schema.get("oneOf")) or _list(schema.get("anyOf"))
    entries = [x for x in listed if isinstance(x, Mapping) and "const" in x]
    return [(x["const"], x.get("title")) for x in entries]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(schema.get("items"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    try:
        return bool(_TIMED.fullmatch(text) and datetime.fromisoformat(text))
    except ValueError:
        return False


_FORMATS: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "date": (_is_date, "a date, such as 2025-12-31"),
    "date-time": (_is_time, "a time with its zone, such as 2025-12-31T18:30:00Z"),
    "email": (lambda x: _EMAIL.fullmatch(x) is not None, "an e-mail address"),
    "uri": (
        lambda x: _URI.fullmatch(x) is not None,
        "an address, such as https://example.org",
    ),
}
"""The formats that MCP has: the check of each, and its name for a person."""
