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
from .utterance import ParsedUtterance, stems, words_in

NOTHING_KNOWN: Final = "I remember nothing of that."
_FIXED: Final = {RESULT_PHRASE, NOTHING_PHRASE, ERROR_PHRASE, NOTHING_KNOWN, ""}
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
_TEXTS: Final = words_in(
    "answer reply text description summary excerpt result message content value"
)
_NAMES: Final = words_in("name display_name title label item fact snippet text id")
_SILENT: Final = re.compile(
    r"^(?:.*_)?(?:id|ids|uuid|url|uri|score|system|type|version|hash|ok|success|status"
    r"|token|schema|href|[a-z]+_at|timestamp|confidence)$"
)
_UNITS: Final = words_in(
    "km miles m minutes hours days seconds gold silver copper kg percent celsius"
    " fahrenheit gp sp cp feet ft"
)
_LISTS: Final = words_in("results items entries matches data lines hits")
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
            query = _query(call.arguments if call else "")
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
    found = _found(data)
    if found is not None and query:
        # Search engines find what shares a word; a player's own question is no answer.
        relevant = [x for x in found if _answers(x, query, said)]
        if not relevant:
            return ""
        if relevant[0] is not found[0] or message in _FIXED:
            return closed(_entry(relevant[0], wording.name))
    if message == NOTHING_KNOWN or (query and message in _FIXED and not data):
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


def _query(arguments: str) -> str:
    """Return the words that a call searched for; empty if it was no search."""
    values = object_in(arguments)
    names = {"name", *QUERY_NAMES}
    words = (x for key, x in values.items() if key in names and isinstance(x, str))
    return next(words, "")


def _found(data: Any) -> list[Any] | None:
    """Return the entries of a search's result; None if it is no list of such."""
    if isinstance(data, Mapping):
        data = next((data[x] for x in _LISTS if isinstance(data.get(x), list)), None)
    if isinstance(data, list) and all(isinstance(x, Mapping) for x in data):
        return data
    return None


def _answers(entry: Any, query: str, said: ParsedUtterance | None) -> bool:
    about = stems(query)
    words = stems(" ".join(str(x) for x in entry.values() if isinstance(x, str)))
    if about and len(about & words) * 2 < len(about) + (len(about) > 1):
        return False
    if "speaker" not in entry:
        return True
    quoted = entry.get("snippet") or entry.get("text") or _entry(entry, "")
    line = ParsedUtterance(str(quoted).strip("… "))
    return not (line.is_question or line.asked) and (
        said is None or line.text not in said.text
    )


def _entry(entry: Any, me: str) -> str:
    """Return what one entry of a list says, in a sentence."""
    if not isinstance(entry, Mapping):
        return describe(entry)
    if speaker := entry.get("speaker"):
        who = "I" if speaker == me else str(speaker)
        when = next((x for x in (entry.get("when"), entry.get("day")) if x), "")
        text = entry.get("snippet") or entry.get("text") or ""
        return f"{who} said{f' {when}' if when else ''}: {_words(text)}"
    name, text = (
        next((_words(entry[x]) for x in keys if entry.get(x)), "")
        for keys in (_NAMES, _TEXTS)
    )
    if name and text and name != text:
        return cut(f"{name}: {text}")
    return cut(text or name or describe(entry))


def describe(value: Any) -> str:
    """Return data in words: the values that can be spoken, with their names."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"it comes to {_words(value)}"
        case str():
            inner = _json(value) if value.lstrip().startswith(("{", "[")) else None
            return cut(_words(value)) if inner is None else describe(inner)
        case list():
            return cut(_listed(value))
        case Mapping():
            return cut(_object(value))
    return ""


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
        if " " in name:
            return f"{name}, {'yes' if value else 'no'}"
        return f"it is {'' if value else 'not '}{name}"
    if isinstance(value, list | Mapping) and not value:
        return f"there are no {name}"
    if isinstance(value, list):
        verb, listed = "is" if len(value) == 1 else "are", _listed(value)
        return f"the {name} {verb} {listed}" if listed else f"{name}: {len(value)}"
    if isinstance(value, Mapping):
        return f"of the {name}, {text}" if (text := _object(value)) else ""
    if value is None or not (text := _words(value)):
        return ""
    unit = name.rpartition(" ")[2]
    if unit in _UNITS and unit != name and not isinstance(value, str):
        return f"the {name.removesuffix(f' {unit}')} is {text} {unit}"
    return f"the {name} is {text}"


def _listed(values: Sequence[Any]) -> str:
    parts = [x for x in map(_part, values) if x]
    more = len(parts) - _MOST_LISTED
    return joined([*parts[:_MOST_LISTED], f"{more} more"] if more > 1 else parts)


def _part(value: Any) -> str:
    if isinstance(value, list):
        return joined([_part(x) for x in value])
    if not isinstance(value, Mapping):
        return _words(value)
    named = next((x for x in _NAMES if value.get(x)), "")
    if not named or (named == "id" and len(value) > 1):
        return _object(value)
    numbers = [
        f"{_key(key)} {_words(inner)}"
        for key, inner in value.items()
        if isinstance(inner, int | float)
        and not isinstance(inner, bool)
        and key != named
        and not _SILENT.match(str(key).lower())
    ]
    more = f" ({', '.join(numbers[:2])})" if numbers else ""
    return f"{_words(value[named])}{more}"


def joined(parts: Sequence[str], *, last: str = "and") -> str:
    """Return "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def _key(key: object) -> str:
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", str(key))
    return text.replace("_", " ").replace("-", " ").lower().strip() or "thing"


def _words(value: object) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if isinstance(value, int) else describe(value)


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
