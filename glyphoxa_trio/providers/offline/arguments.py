"""Read arguments for a tool from an utterance, by the tool's JSON schema.

A parameter is filled by what it can hold (an enum, a number) and by what its name says
it is for: dice, a path, a query, a person. A value that cannot be read from the
utterance is not invented: then the tool is not called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.words import stem

from .utterance import BETWEEN, WORD, ParsedUtterance, bare, stems

_DICE_NAMES: Final = {"expression", "dice", "notation", "formula"}
_PATH_NAMES: Final = {"path", "file", "filename", "filepath"}
_CONTENT_NAMES: Final = {"content", "contents", "body", "data", "text", "note"}
QUESTION_NAMES: Final = {"question", "prompt", "message", "utterance", "input"}
QUERY_NAMES: Final = {
    *("query", "search", "q", "keywords", "keyword", "topic", "term", "terms"),
    *("subject", "about", "entity", "entry"),
}
_IDENTIFIER_NAMES: Final = {"id", "ids", "uuid", "key", "session", "token"}
_PERSON_NAMES: Final = {
    *("patron", "player", "customer", "person", "who", "whom", "character", "user"),
    *("guest", "recipient", "owner", "participant", "buyer"),
}
_QUANTITY_NAMES: Final = {"quantity", "amount", "count", "number", "copies", "many"}
_COUNT_NAMES: Final = {"count", "number", "dice", "num", "rolls", "times"}
_BONUSES: Final = {"modifier", "bonus", "plus"}
_SAYING: Final = re.compile(
    r"\b(?:saying|that says|that|:)\s+(?P<text>.+)", re.IGNORECASE
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
        ("in", "at", "near", "around", "of", "for", "from"),
    ),
)
_NOT_NAMES: Final = {
    *("the", "a", "an", "this", "that", "which", "what", "my", "your", "any", "every"),
    *("at", "of", "to", "is", "are", "and", "or", "no", "some", "each", "other"),
}
_NEGATED: Final = re.compile(
    r"\b(?:no|not|never|off|stop|without|out|disable|[a-z]+n't)\b"
)


def arguments_for(
    parameters: Mapping[str, Any], utterance: ParsedUtterance, own: frozenset[str]
) -> dict[str, Any] | None:
    """Return the arguments in ``utterance``; None if a required one is missing.

    ``own`` are the stems of the words that name the tool: they are not arguments.
    """
    arguments, missing = _read(parameters, utterance, own)
    return None if missing else arguments


def missing_for(
    parameters: Mapping[str, Any], utterance: ParsedUtterance, own: frozenset[str]
) -> list[str]:
    """Return the names of the required parameters that the utterance does not give."""
    return _read(parameters, utterance, own)[1]


def _read(
    parameters: Mapping[str, Any], utterance: ParsedUtterance, own: frozenset[str]
) -> tuple[dict[str, Any], list[str]]:
    reader = _ArgumentReader(
        utterance, own, parameters.get("$defs"), [*utterance.numbers]
    )
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
    definitions: Any
    numbers: list[tuple[str, str]]
    depth: int = 0

    def read(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments, and the required parameters that are missing."""
        properties = properties_of(parameters)
        required = set(required_of(parameters))
        arguments: dict[str, Any] = {}
        missing = sorted(required - set(properties))
        # An id that is said once is for one parameter: a required one, if there is one.
        ids = [name for name in properties if words_of(name) & _IDENTIFIER_NAMES]
        meant = [name for name in ids if name in required] or ids[:1]
        for name, raw in properties.items():
            schema = self._plain(raw)
            if name in ids and name not in meant:
                continue
            value = self._evident(name, schema, name in required)
            if value is None and name in required:
                value = self._supposed(name, schema)
                if value == "" and self.own <= stems(self.utterance.text):
                    # The tool was named in full, so the topic is left.
                    value = self.utterance.topic
                if value is None or self._echoes(value):
                    missing.append(name)
                    continue
            if value is not None:
                arguments[name] = value
        # An empty search finds everything, so search for the topic.
        if not arguments and not required:
            for name, schema in properties.items():
                if (
                    words_of(name) & {"name", *QUERY_NAMES}
                    and _type(schema) == "string"
                ):
                    about = self.utterance.quoted or self.utterance.topic
                    if self._echoes(about):
                        return {}, [name]
                    return {name: about}, []
        return arguments, missing

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

    def _echoes(self, value: object) -> bool:
        """Return whether a value is empty or only repeats the name of the tool."""
        if value == [] or value == {}:
            return True
        if not isinstance(value, str) or value == self.utterance.quoted:
            return False
        return not value or stems(value) <= self.own

    def _evident(self, name: str, schema: Mapping[str, Any], required: bool) -> Any:
        """Return a value that can only be meant for this parameter; None if none."""
        words = words_of(name)
        if choices := choices_of(schema):
            return _chosen(choices, self.utterance)
        stemmed = {stem(word) for word in words}
        match _type(schema):
            case "integer" | "number" as kind:
                if (dice := self._of_dice(words)) is not None:
                    return dice
                for at, (_, unit) in enumerate(self.numbers):
                    if stem(unit.lower()) in stemmed:
                        return _number(self.numbers.pop(at)[0], kind)
                return None
            case "boolean" if not required:
                if stemmed & {stem(x) for x in self.utterance.text.lower().split()}:
                    return not _NEGATED.search(self.utterance.text.lower())
                return None
            case "string":
                if words & _DICE_NAMES:
                    return self.utterance.dice
                if words & _PATH_NAMES:
                    return self.utterance.file
                if words & _IDENTIFIER_NAMES:
                    return self.utterance.identifier
        return None

    def _supposed(self, name: str, schema: Mapping[str, Any]) -> Any:
        """Return the likeliest value of a required parameter."""
        if "default" in schema:
            return schema["default"]
        if choices := choices_of(schema):
            return choices[0] if len(choices) == 1 else None
        match _type(schema):
            case "integer" | "number" as kind:
                if self.numbers:
                    return _number(self.numbers.pop(0)[0], kind)
                return 1 if words_of(name) & _QUANTITY_NAMES else None
            case "boolean":
                return not _NEGATED.search(self.utterance.text.lower())
            case "array":
                return self._several(name, schema)
            case "object" if self.depth < 3:
                self.depth += 1
                arguments, missing = self.read(schema)
                self.depth -= 1
                return None if missing else arguments
            case "string":
                return self._text(words_of(name))
        return None

    def _of_dice(self, words: frozenset[str]) -> int | None:
        """Return a number of the dice that were said: how many, of how many sides."""
        dice = re.match(r"(\d+)d(\d+)(?:[+](\d+))?$", self.utterance.dice or "")
        for at, names in enumerate(
            (_COUNT_NAMES, {"sides", "faces", "die"}, _BONUSES), 1
        ):
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
        if found := _LIST.search(self.utterance.text):
            parts = re.split(r",\s*(?:and )?|\s+and\s+", found["list"])
            return [part.strip() for part in parts if part.strip()]
        text = self.utterance.after("from", "with", "using") or self._supposed(
            name, one
        )
        return [text] if text else None

    def _text(self, words: frozenset[str]) -> str | None:
        """Return text for a parameter; empty if only the rest could fill it."""
        said = self.utterance
        if words & _DICE_NAMES:
            return said.check if said.rolls else None
        if words & (_PATH_NAMES | _IDENTIFIER_NAMES):
            return None
        if words & (_CONTENT_NAMES | {"message"}):
            found = _SAYING.search(said.text)
            written = said.quoted or (found["text"] if found else said.to_write)
            if written or words & {"content", "contents", "body"}:
                return written
        if words & (QUESTION_NAMES | {"text"}):
            return said.quoted or said.text
        if words & QUERY_NAMES:
            return said.quoted or said.topic or None
        if words & _PERSON_NAMES:
            return said.name or said.quoted or said.after("for", "with", "to") or None
        for names, prepositions in _PLACES:
            if words & names and (place := said.after(*prepositions)):
                return place
        if words & {"name", "title", "display"}:
            return said.subject
        return said.quoted or _in_front_of(words, said.text) or self._about(said)

    def _about(self, said: ParsedUtterance) -> str:
        """Return the thing that is meant: what is asked of, or left of the words."""
        parts = [bare(part) for part in BETWEEN.split(said.asked)]
        named = (part for part in parts if stems(part) - self.own)
        return next(named, "") or said.rest(self.own) or said.subject


def _in_front_of(words: frozenset[str], text: str) -> str | None:
    """Return the word before a parameter's name: of "the north gate", north."""
    for word in words:
        found = re.search(rf"\b([\w'-]+)\s+{re.escape(word)}\b", text, re.IGNORECASE)
        if found and found[1].lower() not in _NOT_NAMES:
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


def _chosen(choices: list[Any], utterance: ParsedUtterance) -> Any:
    """Return the choice with the most words, if all of them were said."""
    said = {stem(word) for word in WORD.findall(utterance.text.lower())}
    best, most = None, 0
    for choice in choices:
        words = {stem(word) for word in words_of(str(choice))}
        if words <= said and len(words) > most:
            best, most = choice, len(words)
    return best
