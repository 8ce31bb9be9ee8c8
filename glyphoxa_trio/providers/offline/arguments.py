"""Read arguments for a tool from an utterance, by the tool's JSON schema.

A parameter is filled by what it can hold (an enum, a number) and by what its name says
it is for: dice, a path, a query, a question. A value that cannot be read from the
utterance is not invented: then the tool is not called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from .utterance import WORD, ParsedUtterance, stem, stems

_DICE_NAMES: Final = {"expression", "dice", "notation", "formula"}
_PATH_NAMES: Final = {"path", "file", "filename", "filepath"}
_CONTENT_NAMES: Final = {"content", "contents", "body", "data"}
_QUESTION_NAMES: Final = {"question", "prompt", "message", "text", "utterance"}
_QUERY_NAMES: Final = {"query", "search", "q", "keywords", "topic", "term", "terms"}
_IDENTIFIER_NAMES: Final = {"id", "ids", "uuid", "key", "session", "token"}


def arguments_for(
    parameters: Mapping[str, Any], utterance: ParsedUtterance, own: frozenset[str]
) -> dict[str, Any] | None:
    """Return the arguments in ``utterance``; None if a required one is missing.

    ``own`` are the stems of the tool's name: words that name the tool are not
    arguments.
    """
    properties = properties_of(parameters)
    needed = parameters.get("required")
    needed = needed if isinstance(needed, list | tuple) else ()
    required = {name for name in needed if isinstance(name, str)}
    arguments: dict[str, Any] = {}
    # An id that is said once is for one parameter: for a required one, if there is one.
    ids = [name for name in properties if _words_of(name) & _IDENTIFIER_NAMES]
    meant = [name for name in ids if name in required] or ids[:1]
    for name, schema in properties.items():
        if name in ids and name not in meant:
            continue
        value = evident(name, schema, utterance)
        if value is None and name in required:
            value = _supposed(name, schema, utterance)
            if value == "" and own <= stems(utterance.text):
                # The tool was named in full, so the topic is left.
                value = utterance.topic
            if value is None or _echoes(value, own, utterance):
                return None
        if value is not None:
            arguments[name] = value
    # An empty search finds everything, so search for the topic.
    if not arguments and not required:
        for name, schema in properties.items():
            if _words_of(name) & {"name", *_QUERY_NAMES} and _type(schema) == "string":
                about = utterance.quoted or utterance.topic
                return None if _echoes(about, own, utterance) else {name: about}
    return None if required - set(arguments) else arguments


def properties_of(parameters: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters by name; the schema of a foreign tool may be anything."""
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {
        str(name): schema if isinstance(schema, Mapping) else {}
        for name, schema in properties.items()
    }


def _echoes(value: object, own: frozenset[str], utterance: ParsedUtterance) -> bool:
    """Return whether a value is empty or only repeats the name of the tool."""
    if not isinstance(value, str) or value == utterance.quoted:
        return False
    return not value or stems(value) <= own


def evident(name: str, schema: Mapping[str, Any], utterance: ParsedUtterance) -> Any:
    """Return a value that can only be meant for this parameter; None if none."""
    words = _words_of(name)
    if choices := _choices(schema):
        return _chosen(choices, utterance)
    if _type(schema) != "string":
        return None
    if words & _DICE_NAMES:
        return utterance.dice
    if words & _PATH_NAMES:
        return utterance.file
    if words & _IDENTIFIER_NAMES:
        return utterance.identifier
    return None


def _supposed(name: str, schema: Mapping[str, Any], utterance: ParsedUtterance) -> Any:
    """Return the likeliest value of a required parameter."""
    if "default" in schema:
        return schema["default"]
    if choices := _choices(schema):
        return choices[0] if len(choices) == 1 else None
    match _type(schema):
        case "integer" | "number" as kind:
            if utterance.number is None:
                return schema.get("minimum")
            number = float(utterance.number)
            return int(number) if kind == "integer" else number
        case "boolean":
            return not re.search(r"\b(no|not|never|off|stop)\b", utterance.text.lower())
        case "array":
            items = schema.get("items")
            value = _supposed(
                name, items if isinstance(items, Mapping) else {}, utterance
            )
            return [value] if value else None
        case "string":
            return _text(_words_of(name), utterance)
    return None


def _text(words: frozenset[str], utterance: ParsedUtterance) -> str | None:
    """Return text for a parameter; empty if only the rest could fill it."""
    if words & _DICE_NAMES:
        return "1d20" if "roll" in stems(utterance.text) else None
    if words & (_PATH_NAMES | _IDENTIFIER_NAMES):
        return None
    if words & _CONTENT_NAMES:
        return utterance.quoted or utterance.to_write
    if words & _QUESTION_NAMES:
        return utterance.text
    if words & _QUERY_NAMES:
        return utterance.quoted or utterance.topic or None
    return utterance.subject


def _words_of(name: str) -> frozenset[str]:
    """Return the words of a name, in lower case."""
    return frozenset(WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema names."""
    kind = schema.get("type", "string")
    if isinstance(kind, list):  # of ["string", "null"], the type that is not null
        kind = next((one for one in kind if one != "null"), "string")
    return str(kind)


def _choices(schema: Mapping[str, Any]) -> list[Any]:
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
        words = {stem(word) for word in WORD.findall(str(choice).lower())}
        if words <= said and len(words) > most:
            best, most = choice, len(words)
    return best
