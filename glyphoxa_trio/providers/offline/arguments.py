"""Arguments for a tool, read out of an utterance along the tool's JSON schema.

A parameter is filled by what it can hold (an enum, a number) and by what its
name says it is for: dice, a path, a query, a question. What cannot be read from
the utterance is not made up: then the tool is not called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

_WORD: Final = re.compile(r"[a-z0-9]+")
QUOTED: Final = re.compile(r"\"([^\"]+)\"|(?<!\w)'(.+?)'(?!\w)")
STRAIGHT_QUOTES: Final = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
_DICE: Final = re.compile(
    r"\b\d*d\d+(?:k[hl]\d+)?(?:\s*[+-]\s*\d+(?:d\d+)?)*", re.IGNORECASE
)
_FILE: Final = re.compile(r"(?<![\w.])(?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,4}\b")
_IDENTIFIER: Final = re.compile(r"\b[a-z0-9]+(?:[-_:][a-z0-9]+)+\b")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
_TO_WRITE: Final = re.compile(r"\b(?:write|save|note|put|add)\b(.+?)\b(?:in|to|into)\b")
_SUBJECT: Final = re.compile(
    r"\b(?:about|for|named|called|in|at|from|with|to|on|by) (.+)", re.IGNORECASE
)
_NEXT: Final = re.compile(r"\W+(?:about|of|for|in|at|from|with|to|on|by|please|now)\b")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*")
_ARTICLE: Final = re.compile(r"^(?:the|a|an|my|your|our|this|that) ", re.IGNORECASE)

_DICE_NAMES: Final = {"expression", "dice", "notation", "formula"}
_PATH_NAMES: Final = {"path", "file", "filename", "filepath"}
_CONTENT_NAMES: Final = {"content", "contents", "body", "data"}
_QUESTION_NAMES: Final = {"question", "prompt", "message", "text", "utterance"}
_QUERY_NAMES: Final = {"query", "search", "q", "keywords", "topic", "term", "terms"}
_IDENTIFIER_NAMES: Final = {"id", "ids", "uuid", "key", "session", "token"}

_FUNCTION_WORDS: Final = frozenset(
    _WORD.findall(
        """
        a about again all am an and any are as at be been but by can could did
        do does for from get give had has have he her here hers him his how i if
        in into is it its just let like may me might my now of off on or our out
        over please she should so some than that the their them then there these
        they thing this those to under up us was we were what when where which
        who whom whose why will with would you your
        """
    )
)
_ASKING_WORDS: Final = frozenset(
    _WORD.findall(
        """ask find know look mean means meant recall remember say search tell think
    work works"""
    )
)


@attrs.frozen
class Utterance:
    """What was said, and what is plain to see in it."""

    text: str

    @property
    def dice(self) -> str | None:
        """Dice notation, closed up: ``2d6+3``."""
        if found := _DICE.search(self.text):
            closed = re.sub(r"\s", "", found[0]).lower()
            return f"1{closed}" if closed.startswith("d") else closed
        return None

    @property
    def file(self) -> str | None:
        found = _FILE.search(QUOTED.sub(_only_files, self.text))
        return found[0] if found else None

    @property
    def quoted(self) -> str | None:
        """The first thing in quotes that is not the name of a file."""
        for found in QUOTED.finditer(self.text):
            inside = next(group for group in found.groups() if group)
            if not _FILE.fullmatch(inside):
                return inside
        return None

    @property
    def topic(self) -> str:
        """What is asked about, as written: all that follows "about", "of", "for"."""
        bare = _DICE.sub("", self.text).strip(" .!?")
        if found := _SUBJECT.search(bare):
            return _ARTICLE.sub("", found[1])
        marked = re.findall(r"[\w'-]+", bare)
        dull = _FUNCTION_WORDS | _ASKING_WORDS
        return " ".join(word for word in marked if word.lower() not in dull)

    @property
    def subject(self) -> str:
        """Who or what is plainly meant: quoted, after "for" and the like, a name."""
        if self.quoted:
            return self.quoted
        bare = _DICE.sub("", self.text).strip(" .!?")
        if _SUBJECT.search(bare):
            return _NEXT.split(self.topic)[0]
        found = _NAME.search(bare)
        return found[0] if found else ""


def _only_files(quoted: re.Match[str]) -> str:
    inside = next(group for group in quoted.groups() if group)
    return f" {inside} " if _FILE.fullmatch(inside) else " "


def stems(text: str) -> frozenset[str]:
    """The words of ``text`` that carry meaning, without their endings."""
    found = _WORD.findall(text.lower().replace("'s", ""))
    return frozenset(stem(word) for word in found if word not in _FUNCTION_WORDS)


def stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word.removesuffix(ending)
    return word


def arguments_for(
    parameters: Mapping[str, Any], utterance: Utterance, own: frozenset[str]
) -> dict[str, Any] | None:
    """The arguments that ``utterance`` gives; None if something required is missing.

    ``own`` are the stems of the tool's name: said to name it, not to fill it.
    """
    properties = properties_of(parameters)
    needed = parameters.get("required")
    required = set(needed) if isinstance(needed, list | tuple) else set()
    arguments: dict[str, Any] = {}
    for name, schema in properties.items():
        value = evident(name, schema, utterance)
        if value is None and name in required:
            value = _supposed(name, schema, utterance)
            if value == "" and own <= stems(utterance.text):
                value = utterance.topic  # the tool was named in full: what is left
            if value is None or _echoes(value, own, utterance):
                return None
        if value is not None:
            arguments[name] = value
    # A search for nothing finds everything: give it what the talk is about.
    if not arguments and not required:
        for name, schema in properties.items():
            if _words_of(name) & {"name", *_QUERY_NAMES} and _type(schema) == "string":
                echo = _echoes(utterance.topic, own, utterance)
                return None if echo else {name: utterance.topic}
    return None if required - set(arguments) else arguments


def properties_of(parameters: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The parameters by name; a schema of somebody else's may be anything."""
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {
        str(name): schema if isinstance(schema, Mapping) else {}
        for name, schema in properties.items()
    }


def _echoes(value: object, own: frozenset[str], utterance: Utterance) -> bool:
    """Whether this only says the name of the tool again, or nothing."""
    if not isinstance(value, str) or value == utterance.quoted:
        return False
    return not value or stems(value) <= own


def evident(name: str, schema: Mapping[str, Any], utterance: Utterance) -> Any:
    """A value that can be meant for nothing else; None if there is none."""
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
        found = _IDENTIFIER.search(utterance.text.lower())
        return found[0] if found else None
    return None


def _supposed(name: str, schema: Mapping[str, Any], utterance: Utterance) -> Any:
    """The likeliest value of a parameter that must have one."""
    if "default" in schema:
        return schema["default"]
    if choices := _choices(schema):
        return choices[0] if len(choices) == 1 else None
    match _type(schema):
        case "integer" | "number" as kind:
            found = _NUMBER.search(_DICE.sub("", utterance.text))
            if not found:
                return schema.get("minimum")
            return int(float(found[0])) if kind == "integer" else float(found[0])
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


def _text(words: frozenset[str], utterance: Utterance) -> str:
    if words & _DICE_NAMES:
        return "1d20" if "roll" in stems(utterance.text) else ""
    if words & (_PATH_NAMES | _IDENTIFIER_NAMES):
        return ""
    if words & _CONTENT_NAMES:
        found = _TO_WRITE.search(utterance.text)
        return utterance.quoted or (found[1].strip(" :,") if found else "")
    if words & _QUESTION_NAMES:
        return utterance.text
    if words & _QUERY_NAMES:
        return utterance.quoted or utterance.topic
    return utterance.subject


def _words_of(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "string")
    if isinstance(kind, list):  # ["string", "null"]: the one that says something
        kind = next((one for one in kind if one != "null"), "string")
    return str(kind)


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    choices = schema.get("enum")
    return list(choices) if isinstance(choices, list | tuple) else []


def _chosen(choices: list[Any], utterance: Utterance) -> Any:
    """The choice whose words are all said; the one with the most words."""
    said = {stem(word) for word in _WORD.findall(utterance.text.lower())}
    best, most = None, 0
    for choice in choices:
        words = {stem(word) for word in _WORD.findall(str(choice).lower())}
        if words <= said and len(words) > most:
            best, most = choice, len(words)
    return best
