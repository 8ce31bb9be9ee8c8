"""Read arguments for a tool from an utterance, by the tool's JSON schema.

A parameter is filled by what it can hold (an enum, a number) and by what its name says
it is for: dice, a path, a query, a person. If a value that is needed cannot be read
from the utterance, it is missing, and the tool is not called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.tools.words import EMPTY, stem

from .utterance import BETWEEN, WORD, ParsedUtterance, bare, stems

_MOST_READ: Final = 20_000  # characters of a result in which ids are looked for
_DICE_NAMES: Final = {"expression", "dice", "notation", "formula"}
_PATH_NAMES: Final = {"path", "file", "filename", "filepath"}
_CONTENT_NAMES: Final = {"content", "contents", "body", "data", "note", "notes"}
QUESTION_NAMES: Final = {"question", "prompt", "message", "utterance", "input", "text"}
QUERY_NAMES: Final = {
    *("query", "search", "q", "keywords", "keyword", "topic", "term", "terms"),
    *("subject", "about", "entity", "entry"),
}
_MAKING: Final = {"create", "start", "add", "open", "new", "make", "begin", "register"}
_IDENTIFIER_NAMES: Final = {"id", "ids", "uuid", "key", "session", "token"}
_NAME_NAMES: Final = {"name", "title", "display"}
PERSON_NAMES: Final = {
    *("patron", "player", "customer", "person", "who", "whom", "character", "user"),
    *("guest", "recipient", "owner", "participant", "buyer"),
}
_COUNT_NAMES: Final = {"quantity", "amount", "count", "copies"}
_DICE_NUMBERS: Final = (
    {"count", "number", "dice", "num", "rolls", "times"},
    {"sides", "faces", "die"},
    {"modifier", "bonus", "plus"},
)
_WRITTEN: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r":\s+(.+)",
        r"\b(?:saying|that says|that|with the (?:text|words?|content)) (.+)",
        r"\b(?:write|save|note|put|add|jot)(?: down)? (.+?) (?:in|to|into|on|onto)\b",
        r"\b(?:write|note|jot|record|scribble)(?: down)? (?!an? note)(.+)",
    )
)
_LIST: Final = re.compile(
    r"(?:.*\b(?:from|with|of|for|using)|^[\w']+|.*:) "
    r"(?P<list>(?:[\w'-]+ ){0,2}[\w'-]+(?:, (?:[\w'-]+ ?){1,3})*"
    r",? and (?:[\w'-]+ ?){1,3})"
)
# What stands after which words, by the name of its parameter.
_PLACES: Final = (
    ({"from", "origin", "source", "start"}, ("from",)),
    ({"to", "destination", "dest", "end"}, ("to", "towards", "into", "reach", "find")),
    (
        {"place", "location", "city", "town", "where", "area", "region", "room"},
        ("in", "at", "near", "around", "of", "for", "from", "into", "on"),
    ),
)
_NEGATED: Final = re.compile(
    r"\b(?:no|not|never|off|stop|without|out|disable|[a-z]+n't)\b"
)


@attrs.frozen
class KnownThings:
    """The things with an id that tools have told of, newest first.

    Each is the word for it, its id, its name, and if it was made in this conversation.
    ``said`` are the arguments of earlier calls, by the names of their parameters.
    """

    all: tuple[tuple[str, str, str, bool], ...] = ()
    said: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> KnownThings:
        """Return the things of which the results in these messages tell."""
        calls = {call.id: call for one in messages for call in one.calls}
        found: list[tuple[str, str, str, bool]] = []
        for one in reversed(messages):
            read = one.role == "tool" and len(one.content) <= _MOST_READ
            data = object_in(one.content).get("data") if read else None
            call = calls.get(one.call_id)
            if not isinstance(data, dict) or not call:
                continue
            called = words_of(call.name.rpartition("__")[2])
            for word in sorted(called - _MAKING):
                found += _thing(word, data, bool(called & _MAKING))
            for key, inner in data.items():
                for entry in inner if isinstance(inner, list) else ():
                    found += _thing(key, entry, made=False)
        said = {
            name: value
            for call in calls.values()
            for name, value in object_in(call.arguments).items()
        }
        return cls(tuple(found), said)

    def id_for(self, parameter: str, text: str, *, required: bool) -> str | None:
        """Return the id of what is named in ``text``, or of the newest one."""
        kind = stem(parameter.lower().removesuffix("id").strip("_-"))
        of_kind = [x for x in self.all if x[0] == kind and (required or x[3])]
        named = [x for x in of_kind if x[2] and x[2].lower() in text.lower()]
        return next((x[1] for x in [*named, *of_kind]), None)

    def kinds_in(self, text: str) -> str:
        """Return the words for the things that are named in ``text``."""
        low = text.lower()
        named = {kind for kind, _, name, _ in self.all if name and name.lower() in low}
        return " ".join(sorted(named))


def object_in(text: str) -> dict[str, Any]:
    """Return the JSON object in a text; an empty one if there is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _thing(kind: str, data: Any, made: bool) -> list[tuple[str, str, str, bool]]:
    """Return the thing with an id that a result describes, if it does."""
    if not isinstance(data, dict) or not isinstance(data.get("id"), str):
        return []
    name = data.get("name") or data.get("title") or ""
    return [(stem(kind), data["id"], str(name), made)]


@attrs.frozen
class ReadArguments:
    """The arguments that were read of an utterance.

    ``missing`` are the required parameters that it does not give, with the values that
    their schemas list; ``evident`` counts the values that could only be for this tool.
    """

    arguments: dict[str, Any]
    missing: dict[str, list[Any]]
    evident: int


def arguments_for(
    parameters: Mapping[str, Any],
    utterance: ParsedUtterance,
    own: frozenset[str],
    known: KnownThings = KnownThings(),
) -> ReadArguments:
    """Return the arguments in ``utterance``.

    ``own`` are the stems of the words that name the tool: they are not arguments.
    """
    names, numbers = names_in(parameters), [*utterance.numbers]
    definitions = parameters.get("$defs")
    reader = _ArgumentReader(utterance, own, known, names, definitions, numbers)
    return reader.read(parameters)


def properties_of(parameters: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters by name; the schema of a foreign tool may be anything."""
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {
        str(name): schema if isinstance(schema, Mapping) else {}
        for name, schema in properties.items()
    }


def names_in(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the stems of the words in the names of the parameters."""
    return stems(" ".join(" ".join(words_of(x)) for x in properties_of(parameters)))


def required_of(parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of the required parameters."""
    needed = parameters.get("required")
    needed = needed if isinstance(needed, list | tuple) else ()
    return [name for name in needed if isinstance(name, str)]


@attrs.define
class _ArgumentReader:
    """Reads the arguments of one call. Each number of the utterance is used once."""

    utterance: ParsedUtterance
    own: frozenset[str]
    known: KnownThings
    names: frozenset[str]
    definitions: Any
    numbers: list[tuple[str, str]]
    depth: int = 0

    def read(self, parameters: Mapping[str, Any]) -> ReadArguments:
        """Return the arguments, and the required parameters that are missing."""
        schemas = {x: self._plain(y) for x, y in properties_of(parameters).items()}
        required = set(required_of(parameters))
        arguments: dict[str, Any] = {}
        missing: dict[str, list[Any]] = {x: [] for x in sorted(required - set(schemas))}
        evident = 0
        # An id that is said once is for one parameter: a required one, if there is one.
        ids = [name for name in schemas if words_of(name) & _IDENTIFIER_NAMES]
        meant = [name for name in ids if name in required] or ids[:1]
        for name, schema in schemas.items():
            needed = name in required
            value, sure = None, False
            if name not in ids or name in meant:
                value, sure = self._value(name, schema, needed)
            if value is None and name in ids:
                value = self.known.id_for(name, self.utterance.text, required=needed)
                sure = value is not None and needed
            if needed and not sure and value == "" and self._named_in_full():
                value = self.utterance.topic
            if needed and not sure and self._echoes(value):
                value = self._said_before(name)
            if value is None and words_of(name) <= _NAME_NAMES:
                value = self.utterance.called or None
            if value is not None:
                arguments[name] = value
                evident += sure
            elif needed:
                missing[name] = choices_of(schema) or _least(schema)
        # A choice that is left open is the first one, a number 1, if all else was said.
        said_some = any(isinstance(x, str) for x in arguments.values())
        if said_some and all(missing.values()):
            arguments |= {name: choices[0] for name, choices in missing.items()}
            missing = {}
        # An empty search finds everything, so search for the topic.
        if not arguments and not required:
            about = self.utterance.quoted or self.utterance.topic
            for name, schema in schemas.items():
                searched = words_of(name) & {"name", *QUERY_NAMES}
                if searched and _type(schema) == "string" and not choices_of(schema):
                    arguments = {} if self._echoes(about) else {name: about}
                    break
        return ReadArguments(arguments, missing, evident)

    def _plain(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema without a reference, and the part of a union that is read."""
        if isinstance(reference := schema.get("$ref"), str):
            found = None
            if isinstance(self.definitions, Mapping):
                found = self.definitions.get(reference.rpartition("/")[2])
            return {**found, **schema} if isinstance(found, Mapping) else schema
        options = schema.get("anyOf") or schema.get("oneOf")
        if "type" not in schema and isinstance(options, list | tuple):
            for one in options:
                if isinstance(one, Mapping) and one.get("type") != "null":
                    return {**self._plain(one), **schema}
        return schema

    def _named_in_full(self) -> bool:
        return self.own <= stems(self.utterance.text)

    def _echoes(self, value: object) -> bool:
        """Return whether a value is empty or only repeats the name of the tool."""
        if value is None or value in ([], {}):
            return True
        if not isinstance(value, str) or value == self.utterance.quoted:
            return False
        return not value or stems(value) <= self.own

    def _said_before(self, name: str) -> Any:
        """Return what an earlier call had, if "the note" or "it" is spoken of."""
        refers = re.search(r"(?i)\b(?:it|that|the|this|same)\b", self.utterance.text)
        again = refers and words_of(name) & (_PATH_NAMES | PERSON_NAMES)
        return self.known.said.get(name) if again else None

    def _value(
        self, name: str, schema: Mapping[str, Any], needed: bool
    ) -> tuple[Any, bool]:
        """Return a value, and if it can only be meant for this parameter.

        It is guessed only if it is needed; None if there is none.
        """
        words, said = words_of(name), self.utterance
        choices = choices_of(schema)
        if choices and (chosen := _chosen(choices, said, self.own)) is not None:
            return chosen, True
        kind = "" if choices else _type(schema)
        if (sure := self._evident(words, kind)) is not None:
            return sure, True
        spoken = {stem(x) for x in said.text.lower().split()}
        if kind == "boolean" and (needed or {stem(word) for word in words} & spoken):
            return not _NEGATED.search(said.text.lower()), not needed
        if not needed:
            return None, False
        if "default" in schema:
            return schema["default"], False
        if choices:
            return (choices[0] if len(choices) == 1 else None), False
        value: Any = None
        if kind in ("integer", "number"):
            number = self.numbers.pop(0)[0] if self.numbers else ""
            guess = 1 if words & _COUNT_NAMES else None
            value = _number(number, kind) if number else guess
        elif kind == "array":
            value = self._several(name, schema)
        elif kind == "object" and self.depth < 3:
            self.depth += 1
            inner = self.read(schema)
            self.depth -= 1
            value = None if inner.missing else inner.arguments
        elif kind == "string":
            value = self._text(words)
        return value, False

    def _evident(self, words: frozenset[str], kind: str) -> Any:
        """Return a value that can only be meant for a parameter with this name."""
        said = self.utterance
        if kind in ("integer", "number"):
            if (dice := self._of_dice(words)) is not None:
                return dice
            for at, (number, unit) in enumerate(self.numbers):
                before = rf"(\w+)(?: of)? {re.escape(number)}\b"
                near = [unit.lower(), *re.findall(before, said.text.lower())]
                if {stem(word) for word in words} & {stem(x) for x in near}:
                    return _number(self.numbers.pop(at)[0], kind)
        for names, value in (
            (_DICE_NAMES, said.dice),
            (_PATH_NAMES, said.file),
            (_IDENTIFIER_NAMES, said.identifier),
        ):
            if kind == "string" and words & names:
                return value
        return None

    def _of_dice(self, words: frozenset[str]) -> int | None:
        """Return a number of the dice that were said: how many, of how many sides."""
        dice = re.match(r"(\d+)d(\d+)(?:k\w+)?([+-]\d+)?$", self.utterance.dice or "")
        if not dice and words & _DICE_NUMBERS[2]:
            bonus = re.search(r"[+-]\d+$", self.utterance.check)
            return int(bonus[0]) if bonus else None
        for at, names in enumerate(_DICE_NUMBERS, 1):
            if dice and words & names and dice[at]:
                return int(dice[at])
        return None

    def _several(self, name: str, schema: Mapping[str, Any]) -> list[Any] | None:
        items = schema.get("items")
        one = self._plain(items) if isinstance(items, Mapping) else {}
        if choices := choices_of(one):
            said = stems(self.utterance.text)
            return [x for x in choices if stems(str(x)) and stems(str(x)) <= said]
        if (kind := _type(one)) in ("integer", "number"):
            numbers, self.numbers = self.numbers, []
            return [_number(number, kind) for number, _ in numbers]
        if kind == "string" and (found := _LIST.search(self.utterance.text)):
            parts = re.split(r",\s*(?:and )?|\s+and\s+", found["list"])
            return [part.strip() for part in parts if part.strip()]
        text = kind == "string" and self.utterance.after("from", "with", "using")
        value = text or self._value(name, one, needed=True)[0]
        return [value] if value else None

    def _text(self, words: frozenset[str]) -> str | None:
        """Return text for a parameter; empty if only the rest could fill it."""
        said = self.utterance
        if words & _DICE_NAMES:
            return said.check if said.rolls and not said.asks_in_words else None
        if words & _PATH_NAMES:  # a note without a name is named by its words
            parts = WORD.findall(said.rest(self.own | stems("note down")).lower())[:3]
            return f"{'-'.join(parts)}.txt" if _written(said) and parts else None
        if words & _IDENTIFIER_NAMES:
            return None
        if words & _CONTENT_NAMES:
            return _written(said)
        if words & QUESTION_NAMES and not said.is_question and "text" in words:
            return _written(said) or said.text
        if words & QUESTION_NAMES:
            return said.quoted or said.text
        if words & QUERY_NAMES:
            return said.quoted or said.topic or None
        if words & PERSON_NAMES:
            if re.search(r"\b(?:my|me|mine)\b", said.text.lower()) and not said.name:
                return None  # whose that is was not said
            return said.name or said.quoted or said.after("for", "with", "to") or None
        for names, prepositions in _PLACES:
            if words & names and (place := said.after(*prepositions)):
                return place
        if words & _NAME_NAMES:
            name = said.called or said.name or said.subject or said.rest(self.own)
            return re.sub(r"^(?:N?PC|GM|AI) ", "", name)
        return said.quoted or _in_front_of(words, said.text) or self._about(said)

    def _about(self, said: ParsedUtterance) -> str:
        """Return the thing that is meant: what is asked of, or left of the words."""
        parts = [bare(part) for part in BETWEEN.split(said.asked)]
        named = (part for part in parts if stems(part) - self.own)
        units = frozenset(stem(unit.lower()) for _, unit in said.numbers) & self.names
        others = self.own | units | stems(said.name) | stems("dear")
        return (
            next(named, "") or said.rest(others) or said.rest(self.own) or said.subject
        )


def _written(said: ParsedUtterance) -> str | None:
    """Return the text that is to be written."""
    if said.quoted:
        return said.quoted
    found = (one.search(said.text) for one in _WRITTEN)
    return next((x[1].strip(" :,") for x in found if x), None)


def _in_front_of(words: frozenset[str], text: str) -> str | None:
    """Return the word before a parameter's name: of "the north gate", north."""
    for word in sorted(words):
        found = re.search(rf"\b([\w'-]+)\s+{re.escape(word)}\b", text, re.IGNORECASE)
        if found and found[1].lower() not in EMPTY | {"some", "each", "other", "every"}:
            return found[1]
    return None


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, in lower case."""
    return frozenset(WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))


def _number(text: str, kind: str) -> int | float:
    number = float(text)
    return int(number) if kind == "integer" or number.is_integer() else number


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema names."""
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):  # of ["string", "null"], the type that is not null
        kind = next((one for one in kind if one != "null"), "string")
    return str(kind)


def choices_of(schema: Mapping[str, Any]) -> list[Any]:
    """Return the values that a schema lists."""
    if "const" in schema:
        return [schema["const"]]
    # If any text is allowed, the listed values are still the likely ones.
    options = schema.get("anyOf")
    for one in [schema, *(options if isinstance(options, list | tuple) else ())]:
        choices = one.get("enum") if isinstance(one, Mapping) else None
        if isinstance(choices, list | tuple):
            return [choice for choice in choices if choice is not None]
    return []


def _least(schema: Mapping[str, Any]) -> list[Any]:
    return [1] if _type(schema) == "integer" and schema.get("minimum") == 1 else []


def _chosen(choices: list[Any], said: ParsedUtterance, own: frozenset[str]) -> Any:
    """Return the choice of which most was said; None if nothing was of any."""
    spoken = {stem(word) for word in WORD.findall(said.text.lower())}
    best, most = None, 0.0
    for choice in choices:
        words = {stem(word) for word in words_of(str(choice))}
        common = words & spoken - (own if len(words) > 1 else frozenset())
        share = len(common) + len(common) / max(1, len(words))
        if common and share > most:
            best, most = choice, share
    return best
