"""Read arguments for a tool from an utterance, by the tool's JSON schema.

A parameter is filled by what it can hold (an enum, a number) and by what its name says
it is for: dice, a path, a query, a person. If a value that is needed cannot be read
from the utterance, it is missing, and the tool is not called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.tools.words import stem

from .utterance import BETWEEN, WORD, ParsedUtterance, bare, stems

_MOST_READ: Final = 20_000  # characters of a result in which ids are looked for
_DICE_NAMES: Final = {"expression", "dice", "notation", "formula"}
_PATH_NAMES: Final = {"path", "file", "filename", "filepath", "directory", "folder"}
_LINK_NAMES: Final = {"url", "uri", "link", "href", "website"}
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
    (
        {"to", "destination", "dest", "end", "target", "language"},
        ("to", "towards", "into", "reach", "find"),
    ),
    (
        {"place", "location", "city", "town", "area", "region", "room", "timezone"},
        ("in", "at", "near", "around", "of", "for", "from", "into", "on"),
    ),
)
_NEGATED: Final = re.compile(
    r"\b(?:no|not|never|off|stop|without|out|disable|[a-z]+n't)\b"
)


@attrs.frozen
class KnownThings:
    """The things that tools have told of, newest first.

    Each is the word for it, its id, its name, and if it was made in this conversation.
    ``said`` are the arguments of earlier calls.
    """

    all: tuple[tuple[str, str, str, bool], ...] = ()
    said: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> KnownThings:
        """Return the things of which the results in these messages tell."""
        calls = {call.id: call for one in messages for call in one.calls}
        told: list[tuple[str, Any, bool]] = []
        for one in reversed(messages):
            call = calls.get(one.call_id) if one.role == "tool" else None
            read = call and len(one.content) <= _MOST_READ
            data = object_in(one.content).get("data") if read else None
            if not call or not isinstance(data, dict):
                continue
            called = words_of(call.name.rpartition("__")[2])
            made = bool(called & _MAKING)
            told += [(word, data, made) for word in sorted(called - _MAKING)]
            lists = [(x, y) for x, y in data.items() if isinstance(y, list)]
            told += [(key, entry, False) for key, inner in lists for entry in inner]
        found = [
            (stem(kind), x["id"], str(x.get("name") or x.get("title") or ""), made)
            for kind, x, made in told
            if isinstance(x, dict) and isinstance(x.get("id"), str)
        ]
        arguments = [object_in(call.arguments) for call in calls.values()]
        said = {name: value for x in arguments for name, value in x.items()}
        return cls(tuple(found), said)

    def id_for(self, parameter: str, text: str, *, required: bool) -> str | None:
        """Return the id of what is named in ``text``, or of the newest one."""
        kind = stem(parameter.lower().removesuffix("id").strip("_-"))
        of_kind = [x for x in self.all if x[0] == kind and (required or x[3])]
        named = [x for x in of_kind if x[2] and x[2].lower() in text.lower()]
        return next((x[1] for x in [*named, *of_kind]), None)

    def kinds_in(self, text: str) -> str:
        """Return the words for the things that are named in ``text``."""
        named = {x[0] for x in self.all if x[2] and x[2].lower() in text.lower()}
        return " ".join(sorted(named))


def object_in(text: str) -> dict[str, Any]:
    """Return the JSON object that a text is; an empty one if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@attrs.frozen
class ReadArguments:
    """The arguments that were read of an utterance.

    ``missing`` are the required parameters that it does not give, with the values that
    their schemas list; ``evident`` counts the values that could only be for this tool.
    """

    arguments: dict[str, Any]
    missing: dict[str, list[Any]]
    evident: int


def properties_of(parameters: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters by name; the schema of a foreign tool may be anything."""
    found = parameters.get("properties")
    found = found if isinstance(found, Mapping) else {}
    return {str(x): y if isinstance(y, Mapping) else {} for x, y in found.items()}


def names_in(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the stems of the words in the names of the parameters."""
    return stems(" ".join(" ".join(words_of(x)) for x in properties_of(parameters)))


def required_of(parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of the required parameters, in alphabetical order."""
    needed = parameters.get("required")
    needed = needed if isinstance(needed, list | tuple) else ()
    return sorted({name for name in needed if isinstance(name, str)})


def arguments_for(
    parameters: Mapping[str, Any],
    utterance: ParsedUtterance,
    own: frozenset[str],
    known: KnownThings = KnownThings(),
) -> ReadArguments:
    """Return the arguments in ``utterance``.

    ``own`` are the stems of the words that name the tool: they are not arguments.
    """
    reader = _ArgumentReader(utterance, own, known, parameters, [*utterance.numbers])
    return reader.read(parameters)


@attrs.define
class _ArgumentReader:
    """Reads the arguments of one call. Each number of the utterance is used once."""

    said: ParsedUtterance
    own: frozenset[str]
    known: KnownThings
    root: Mapping[str, Any]
    numbers: list[tuple[str, str]]
    depth: int = 0

    def read(self, parameters: Mapping[str, Any]) -> ReadArguments:
        """Return the arguments, and the required parameters that are missing."""
        schemas = {x: self._plain(y) for x, y in properties_of(parameters).items()}
        required = required_of(parameters)
        arguments: dict[str, Any] = {}
        missing: dict[str, list[Any]] = {x: [] for x in required if x not in schemas}
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
                value = self.known.id_for(name, self.said.text, required=needed)
                sure = value is not None and needed
            if (
                needed
                and not sure
                and value == ""
                and self.own <= stems(self.said.text)
            ):
                value = self.said.topic  # the tool was named in full
            # What is said once is for one parameter.
            twice = isinstance(value, str) and value in arguments.values()
            if needed and not sure and (twice or self._echoes(value)):
                value = self._said_before(words_of(name), name)
            if value is None and words_of(name) <= _NAME_NAMES:
                value = self.said.called or None
            if value is not None:
                arguments[name] = value
                evident += sure
            elif needed:
                least = _type(schema) == "integer" and schema.get("minimum") == 1
                missing[name] = choices_of(schema) or ([1] if least else [])
        # A choice that is left open is the first one, a number 1, if all else was said.
        said_some = any(isinstance(x, str) for x in arguments.values())
        if said_some and all(missing.values()):
            arguments |= {name: choices[0] for name, choices in missing.items()}
            missing = {}
        # An empty search finds everything, so search for the topic.
        about = self.said.quoted or self.said.topic
        for name, schema in schemas.items() if not required else ():
            searched = words_of(name) & {"name", *QUERY_NAMES} and not choices_of(
                schema
            )
            if not arguments and searched and _type(schema) == "string":
                arguments = {} if self._echoes(about) else {name: about}
        return ReadArguments(arguments, missing, evident)

    def _plain(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema without a reference, and the part of a union that is read."""
        if isinstance(reference := schema.get("$ref"), str):
            definitions = self.root.get("$defs")
            name = reference.rpartition("/")[2]
            found = definitions.get(name) if isinstance(definitions, Mapping) else None
            return {**found, **schema} if isinstance(found, Mapping) else schema
        options = schema.get("anyOf") or schema.get("oneOf")
        if "type" not in schema and isinstance(options, list | tuple):
            for one in options:
                if isinstance(one, Mapping) and one.get("type") != "null":
                    return {**self._plain(one), **schema}
        return schema

    def _echoes(self, value: object) -> bool:
        """Return whether a value is empty or only repeats the name of the tool."""
        if value is None or value in ([], {}, ""):
            return True
        spoken = isinstance(value, str) and value != self.said.quoted
        return spoken and stems(str(value)) <= self.own

    def _said_before(self, words: frozenset[str], name: str) -> Any:
        """Return what an earlier call had, if "the note" or "it" is spoken of."""
        refers = re.search(r"(?i)\b(?:it|that|the|this|same)\b", self.said.text)
        again = refers and words & (_PATH_NAMES | PERSON_NAMES)
        return self.known.said.get(name) if again else None

    def _value(
        self, name: str, schema: Mapping[str, Any], needed: bool
    ) -> tuple[Any, bool]:
        """Return a value, and if it can only be meant for this parameter.

        It is guessed only if it is needed; None if there is none.
        """
        words, said = words_of(name), self.said
        if choices := choices_of(schema):
            chosen = _chosen(choices, said, self.own)
            if chosen is not None or not needed:
                return chosen, chosen is not None
        kind = "" if choices else _type(schema)
        if (sure := self._evident(words, kind)) is not None:
            return sure, True
        if kind == "boolean" and (
            needed or _stemmed(words) & _stemmed(said.text.split())
        ):
            return not _NEGATED.search(said.text.lower()), not needed
        value: Any = None
        if not needed or "default" in schema:
            return (schema.get("default") if needed else None), False
        if choices:
            value = choices[0] if len(choices) == 1 else None
        elif kind in ("integer", "number"):
            value = 1 if words & _COUNT_NAMES else None
            value = _number(self.numbers.pop(0)[0], kind) if self.numbers else value
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
        said = self.said
        if kind == "string":
            of_kind = (
                (_DICE_NAMES, said.dice),
                (_PATH_NAMES, said.file),
                (_LINK_NAMES, said.link),
                (_IDENTIFIER_NAMES, said.identifier),
            )
            return next((value for names, value in of_kind if words & names), None)
        if kind not in ("integer", "number"):
            return None
        dice = re.match(r"(\d+)d(\d+)(?:k\w+)?([+-]\d+)?$", said.dice or "")
        bonus = re.search(r"([+-]\d+)$", said.check)
        for at, names in enumerate(_DICE_NUMBERS, 1):
            found = dice[at] if dice else bonus[1] if bonus and at == 3 else ""
            if found and words & names:
                return int(found)
        for at, (number, unit) in enumerate(self.numbers):
            before = rf"(\w+)(?: of)? {re.escape(number)}\b"
            near = [unit, *re.findall(before, said.text.lower())]
            if _stemmed(words) & _stemmed(near):
                return _number(self.numbers.pop(at)[0], kind)
        return None

    def _several(self, name: str, schema: Mapping[str, Any]) -> list[Any] | None:
        items = schema.get("items")
        one = self._plain(items) if isinstance(items, Mapping) else {}
        if choices := choices_of(one):
            said = stems(self.said.text)
            return [x for x in choices if stems(str(x)) and stems(str(x)) <= said]
        if (kind := _type(one)) in ("integer", "number"):
            numbers, self.numbers = self.numbers, []
            return [_number(number, kind) for number, _ in numbers]
        if kind == "string" and (found := _LIST.search(self.said.text)):
            parts = re.split(r",\s*(?:and )?|\s+and\s+", found["list"])
            return [part.strip() for part in parts if part.strip()]
        text = kind == "string" and self.said.after("from", "with", "using")
        value = text or self._value(name, one, needed=True)[0]
        return [value] if value else None

    def _text(self, words: frozenset[str]) -> str | None:
        """Return text for a parameter; empty if only the rest could fill it."""
        said = self.said
        if words & _DICE_NAMES:
            return said.check if said.rolls and not said.asks_in_words else None
        if words & _PATH_NAMES:  # a note without a name is named by its words
            parts = WORD.findall(said.rest(self.own | stems("note down")).lower())[:3]
            new = f"{'-'.join(parts)}.txt" if _written(said) and parts else None
            return new or said.after("in", "from", "of") or None
        if words & _IDENTIFIER_NAMES:
            return None
        if words & _CONTENT_NAMES:
            return _written(said)
        if words & QUESTION_NAMES:
            message = "text" in words and not said.is_question and _written(said)
            return message or said.quoted or said.text
        if words & QUERY_NAMES:
            where = re.fullmatch(r"(.+) (?:on|in|from|at) (?:the )?(\w+)", said.topic)
            searched = where and stem(where[2].lower()) in self.own
            return (
                said.quoted or (where[1] if where and searched else said.topic) or None
            )
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
        # The thing that is meant: quoted, asked of, or left of the words.
        asked = (x for x in map(bare, BETWEEN.split(said.asked)) if stems(x) - self.own)
        units = _stemmed(unit for _, unit in said.numbers) & names_in(self.root)
        others = self.own | units | stems(f"{said.name} dear")
        return (
            (said.quoted or next(asked, ""))
            or (said.rest(others) or said.rest(self.own))
            or (said.subject if said.subject != said.speaker else "")
        )


def _written(said: ParsedUtterance) -> str | None:
    """Return the text that is to be written."""
    if said.quoted:
        return said.quoted
    found = (one.search(said.text) for one in _WRITTEN)
    return next((x[1].strip(" :,") for x in found if x), None)


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


def _stemmed(words: Iterable[str]) -> frozenset[str]:
    return frozenset(stem(word.lower()) for word in words)


def _chosen(choices: list[Any], said: ParsedUtterance, own: frozenset[str]) -> Any:
    """Return the choice of which most was said; None if nothing was of any."""
    spoken = _stemmed(WORD.findall(said.text.lower()))
    best, most = None, 0.0
    for choice in choices:
        words = _stemmed(words_of(str(choice)))
        common = words & spoken - (own if len(words) > 1 else frozenset())
        share = len(common) + len(common) / max(1, len(words))
        if common and share > most:
            best, most = choice, share
    return best
