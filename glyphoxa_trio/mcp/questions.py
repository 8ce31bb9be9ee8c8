"""Questions of servers to a person, in the middle of a call. No I/O.

A server may ask for a form to be filled in (MCP calls this elicitation). What it wants
to know is shown as the server's question, and the answer goes to the server alone: no
model reads it as something that a player has said.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.actors import OpenTime
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.arguments import InvalidArguments, cut
from glyphoxa_trio.tools.characters import visible
from glyphoxa_trio.tools.repair import repaired_schema
from glyphoxa_trio.tools.schema import ArgumentSchema, BadSchema

LONGEST_QUESTION: Final = 300.0  # seconds for which one may stay open

_MOST_FIELDS: Final = 20
_TEXT: Final = 2000  # characters of a question
_LABEL: Final = 300  # characters of a field's name or description
_MOST_CHOICES: Final = 100
_KINDS: Final = ("string", "number", "integer", "boolean")

# What nobody may be asked for in clear: MCP forbids servers to ask for it in a form.
_SECRET: Final = re.compile(
    r"pass\s?-?_?(word|phrase|code)|passwd|\bpwd\b|credential|secret[ _-]?key"
    r"|api[ _-]?key|private[ _-]?key|access[ _-]?(key|token)|\bcvv\b|\bcvc\b|\bssn\b"
    r"|card[ _-]?number|security[ _-]?code|one[ _-]?time[ _-]?code|\botp\b"
    r"|passwort|kennwort|contraseña|mot de passe|\bsenha\b|wachtwoord|\bhasło\b|пароль"
    r"|密码|密碼|パスワード|비밀번호",
    re.IGNORECASE,
)
# A secret door and a token on the map are none; a field of text with that name is one.
_SECRET_NAME: Final = re.compile(r"\b(secret|token|pin)\b", re.IGNORECASE)
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|_")


class QuestionRefused(GlyphoxaError):
    """A question is not asked, or not answered; the message says why, to its server."""


@attrs.frozen
class QuestionField:
    """One field of a form. ``kind`` is string, number, integer, boolean or array.

    ``choices`` are the values that may be given; an array is several of them.
    """

    name: str
    kind: str = "string"
    title: str = ""
    description: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None


@attrs.frozen
class ServerQuestion:
    """A question of a server to a person. Its texts are the server's."""

    server: str
    text: str
    fields: tuple[QuestionField, ...] = ()


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


def question_of(server: str, text: str, schema: Mapping[str, Any]) -> ServerQuestion:
    """Return the question that a server's form is.

    Raises:
      QuestionRefused: for a form that cannot be shown, or asks for a secret.
    """
    fixed = repaired_schema(dict(schema))
    properties, required = fixed.get("properties"), fixed.get("required") or ()
    properties = properties if isinstance(properties, Mapping) else {}
    if len(properties) > _MOST_FIELDS:
        raise QuestionRefused(f"a form may have {_MOST_FIELDS} fields at most")
    fields = tuple(
        _field(name, each if isinstance(each, Mapping) else {}, name in required)
        for name, each in properties.items()
    )
    question = ServerQuestion(server, visible(cut(text, _TEXT)), fields)
    if _SECRET.search(_plain(text)) or any(map(_is_secret, fields)):
        raise QuestionRefused(
            "a person is not asked for secrets in a form: put them into the server's"
            " configuration (env, headers or auth)"
        )
    return question


def _is_secret(field: QuestionField) -> bool:
    """Return whether a field asks for a secret."""
    names = [_plain(_HUMP.sub(" ", x)) for x in (field.name, field.title)]
    is_text = field.kind == "string" and not field.choices
    named = is_text and any(map(_SECRET_NAME.search, names))
    words = [*names, field.name, _plain(field.description)]
    return named or any(map(_SECRET.search, words))


def _plain(text: str) -> str:
    """Return a text without the letters by which a word is disguised."""
    letters = unicodedata.normalize("NFKC", text)
    return "".join(x for x in letters if unicodedata.category(x) != "Cf")


def checked(schema: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Return an answer that fits the form.

    Raises:
      QuestionRefused: if it does not.
    """
    fixed = {"type": "object", **repaired_schema(dict(schema))}
    given = {name: value for name, value in answer.items() if value is not None}
    try:
        return ArgumentSchema(fixed, foreign=True).parse(json.dumps(given))
    except (InvalidArguments, BadSchema, TypeError, ValueError) as error:
        raise QuestionRefused(f"the answer does not fit the form: {error}") from None


def _field(name: str, schema: Mapping[str, Any], required: bool) -> QuestionField:
    kind = schema.get("type", "string")
    items = schema.get("items")
    listed = _choices(items if isinstance(items, Mapping) else {})
    choices = _choices(schema) if kind != "array" else listed
    if kind not in (*_KINDS, "array") or (kind == "array" and not choices):
        raise QuestionRefused(f"the form's field {name[:_LABEL]!r} cannot be shown")
    return QuestionField(
        name,
        str(kind),
        visible(cut(str(schema.get("title") or ""), _LABEL)),
        visible(cut(str(schema.get("description") or ""), _LABEL)),
        required,
        choices,
        schema.get("default"),
    )


def _choices(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of an enumeration, in either of its spellings."""
    values = schema.get("enum")
    if not isinstance(values, list):
        others = schema.get("oneOf") or schema.get("anyOf")
        values = [
            each.get("const")
            for each in (others if isinstance(others, list) else ())
            if isinstance(each, Mapping)
        ]
    return tuple(x for x in values if isinstance(x, str))[:_MOST_CHOICES]
