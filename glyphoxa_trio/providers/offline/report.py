"""Tell the results of tools as an NPC would: short, in sentences, and true."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.tools.speech import ERROR_PHRASE, NOTHING_PHRASE, RESULT_PHRASE

from .arguments import QUERY_NAMES, object_in
from .sayings import Wording
from .utterance import ParsedUtterance, stems

_NOTHING_KNOWN: Final = "I remember nothing of that."
_FIXED: Final = {RESULT_PHRASE, NOTHING_PHRASE, ERROR_PHRASE, _NOTHING_KNOWN, ""}
_MOST_SAID: Final = 300  # characters spoken of one result
_MOST_LISTED: Final = 5
_TECHNICAL: Final = re.compile(
    r"(?i)traceback|exception|errno|https?:|\bjson\b|\bnull\b|validation|[{}<>]|\w+Error\b"
    r"|0x[0-9a-f]+|stack|\b\d{3} (?:internal|bad|not found)"
)
_PREFIX: Final = re.compile(
    r"(?i)^(?:(?:error(?: \w+){0,4}|\w*error|failed(?: \w+){0,4}|tool error)\s*:\s*)+"
)
# Keys whose value is the answer itself, and those that say nothing to a person.
_TEXTS: Final = re.findall(
    r"\w+", "answer reply text description summary excerpt result message content value"
)
_NAMES: Final = re.findall(
    r"\w+", "name display_name title label item fact snippet text id"
)
_SILENT: Final = re.compile(
    r"^(?:.*_)?(?:id|ids|uuid|url|uri|score|system|type|version|hash|ok|success|status"
    r"|token|schema|href|[a-z]+_at|timestamp|confidence)$"
)
_UNIT: Final = re.compile(
    r"(.+) (km|miles|m|minutes|hours|days|seconds|gold|silver|copper|kg|percent|celsius"
    r"|fahrenheit|gp|sp|cp|feet|ft)"
)
_LISTS: Final = ("results", "items", "entries", "matches", "data", "lines", "hits")
_STRANGE: Final = re.compile(r"[{\[][\"'{\[]|^\s*[{\[].*[}\]]\s*$", re.DOTALL)
_BAD: Final = {
    **dict.fromkeys(("timeout", "skipped", "pending"), "late"),
    **dict.fromkeys(("unavailable", "crashed"), "broken"),
    "cancelled": "stopped",
    "denied": "denied",
}


def report(
    turn: Sequence[Message], said: ParsedUtterance, wording: Wording
) -> list[str]:
    """Return a sentence for each result of this turn that tells something.

    Empty if the tools were asked what they know of something, and know nothing.
    """
    calls = {call.id: call for one in turn for call in one.calls}
    told: list[str] = []
    for one in turn:
        if one.role == "tool":
            call = calls.get(one.call_id)
            values = object_in(call.arguments if call else "")
            queries = (values.get(x) for x in ("name", *sorted(QUERY_NAMES)))
            query = next((x for x in queries if isinstance(x, str)), "")
            name = call.name if call else one.name
            told.append(sentence_of(name, one.content, wording, said, query))
    known = [x for x in dict.fromkeys(told) if x]
    return known if known or "" in told else [wording.answer("done", {})]


def sentence_of(
    name: str,
    content: str,
    wording: Wording,
    said: ParsedUtterance | None = None,
    query: str = "",
) -> str:
    """Return a sentence about a tool's result; empty if a search found nothing."""
    result = _json(content, content)
    status, message, data = "ok", "", result
    envelope = {"status", "message", "data", "error"}
    if isinstance(result, dict) and result.keys() & envelope:
        failed = result.get("error")
        status = str(result.get("status") or ("tool_error" if failed else "ok"))
        message = _words(result.get("message") or failed)
        data = result.get("data")
    if status == "ok":
        return _good(message, data, wording, said, query)
    message = _PREFIX.sub("", message)
    why = "" if message in _FIXED or _TECHNICAL.search(message) else message
    if why and status not in _BAD:
        return closed(f"I cannot: {cut(why)}")
    tool = name.rpartition("__")[2].replace("_", " ").strip() or name or "that"
    values = {"tool": tool, "Tool": tool[:1].upper() + tool[1:]}
    return wording.answer(_BAD.get(status, "failed"), values)


def _good(
    message: str,
    data: Any,
    wording: Wording,
    said: ParsedUtterance | None,
    query: str,
) -> str:
    if isinstance(data, Mapping) and data.get("found") is False:
        return ""
    found = data
    if isinstance(data, Mapping):
        found = next((data[x] for x in _LISTS if isinstance(data.get(x), list)), None)
    if isinstance(found, list) and all(isinstance(x, Mapping) for x in found) and query:
        # Search engines find what shares a word; a player's own question is no answer.
        relevant = [x for x in found if _answers(x, query, said)]
        if not relevant:
            return ""
        if relevant[0] is not found[0] or message in _FIXED:
            return closed(_entry(relevant[0], wording.name))
    if message == _NOTHING_KNOWN or (query and message in _FIXED and not data):
        return ""
    if re.fullmatch(r"-?\d+(?:\.\d+)?", message):
        return closed(describe(float(message)))
    if message in _FIXED or _STRANGE.search(message):
        message = describe(data) or ("" if message in _FIXED else describe(message))
    if message:
        return closed(cut(message))
    listing = isinstance(data, str | list) or (
        isinstance(data, Mapping)
        and (not data or any(isinstance(x, list) for x in data.values()))
    )
    return wording.answer("nothing" if listing else "done", {})


def _answers(
    entry: Mapping[str, Any], query: str, said: ParsedUtterance | None
) -> bool:
    about = stems(query)
    words = stems(" ".join(str(x) for x in entry.values() if isinstance(x, str)))
    if about and len(about & words) * 2 < len(about) + (len(about) > 1):
        return False
    if "speaker" not in entry:
        return True
    line = ParsedUtterance(_quoted(entry).strip("… "))
    asks = line.is_question or line.asked
    return not asks and (said is None or line.text not in said.text)


def _quoted(entry: Mapping[str, Any]) -> str:
    return _words(entry.get("snippet") or entry.get("text") or "")


def _entry(entry: Mapping[str, Any], me: str) -> str:
    """Return what one entry of a list says, in a sentence."""
    if speaker := entry.get("speaker"):
        who = "I" if speaker == me else str(speaker)
        when = entry.get("when") or entry.get("day") or ""
        return f"{who} said{f' {when}' if when else ''}: {_quoted(entry)}"
    name, text = (
        next((_words(entry[x]) for x in keys if entry.get(x)), "")
        for keys in (_NAMES, _TEXTS)
    )
    both = name and text and name != text
    return cut(f"{name}: {text}" if both else text or name or describe(entry))


def describe(value: Any) -> str:
    """Return data in words: the values that can be spoken, with their names."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"it comes to {_words(value)}"
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        inner = _json(value)
        return cut(_words(value)) if inner is None else describe(inner)
    return cut(_object(value) if isinstance(value, Mapping) else _words(value))


def _json(text: str, otherwise: Any = None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def _object(value: Mapping[str, Any]) -> str:
    if set(value) == {"text", "structured"}:
        return describe(value["structured"]) or describe(value["text"])
    only = next(iter(value.values())) if len(value) == 1 else None
    if only in ([], {}, ""):
        return ""
    if isinstance(only, list | Mapping) and (said := describe(only)):
        return said
    for key in _TEXTS:
        if isinstance(value.get(key), str) and len(value[key].split()) > 2:
            return _words(value[key])
    spoken = {k: v for k, v in value.items() if not _SILENT.match(str(k).lower())}
    told = [_pair(_key(key), inner) for key, inner in (spoken or value).items()]
    return joined([x for x in told if x])


def _pair(name: str, value: Any) -> str:
    """Return what is said of one value and its name."""
    if isinstance(value, bool):
        return f"it is {'' if value else 'not '}{name}"
    if isinstance(value, list | Mapping) and not value:
        return f"there are no {name}"
    text = _object(value) if isinstance(value, Mapping) else _words(value)
    if not text:
        return ""
    if isinstance(value, Mapping):
        return f"of the {name}, {text}"
    if isinstance(value, int | float) and (unit := _UNIT.fullmatch(name)):
        return f"the {unit[1]} is {text} {unit[2]}"
    many = isinstance(value, list) and len(value) > 1
    return f"the {name} {'are' if many else 'is'} {text}"


def _words(value: Any) -> str:
    """Return a value as it is said inside a sentence."""
    match value:
        case str():
            return " ".join(value.split())
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case list():
            parts = [x for x in map(_words, value) if x]
            more = len(parts) - _MOST_LISTED
            few = [*parts[:_MOST_LISTED], f"{more} more"]
            return joined(few if more > 1 else parts)
        case Mapping():
            named = next((x for x in _NAMES if value.get(x)), "")
            if not named or (named == "id" and len(value) > 1):
                return _object(value)
            numbers = [
                f"{_key(key)} {_words(inner)}"
                for key, inner in value.items()
                if isinstance(inner, int | float) and not isinstance(inner, bool)
                if key != named and not _SILENT.match(str(key).lower())
            ]
            more_of_it = f" ({', '.join(numbers[:2])})" if numbers else ""
            return f"{_words(value[named])}{more_of_it}"
    return ""


def joined(parts: Sequence[str], *, last: str = "and") -> str:
    """Return "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def _key(key: object) -> str:
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", str(key))
    return text.replace("_", " ").replace("-", " ").lower().strip() or "thing"


def cut(text: str) -> str:
    """Return a text short enough to be spoken: whole sentences, if there are some."""
    text = " ".join(text.split())
    if len(text) <= _MOST_SAID:
        return text
    short = text[: _MOST_SAID - 1]
    end = max(short.rfind(". "), short.rfind("! "), short.rfind("? "))
    return short[: end + 1] if end > _MOST_SAID // 3 else f"{short.rsplit(' ', 1)[0]}…"


def closed(text: str) -> str:
    """Return a text as a sentence: with a capital letter and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", "…", '"', "'")) else f"{text}."
