"""Tell the results of tools as an NPC would: short, in sentences, and true."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.tools.speech import ERROR_PHRASE, NOTHING_PHRASE, RESULT_PHRASE

from .arguments import QUERY_NAMES
from .sayings import Wording
from .utterance import ParsedUtterance, stems

NOTHING_KNOWN: Final = "I remember nothing of that."
_FIXED: Final = {RESULT_PHRASE, NOTHING_PHRASE, ERROR_PHRASE, NOTHING_KNOWN, ""}
_MOST_SAID: Final = 300  # characters spoken of one result
_MOST_LISTED: Final = 5
_TECHNICAL: Final = re.compile(
    r"traceback|exception|errno|https?:|\bjson\b|\bnull\b|validation|[{}<>]|\w+Error\b"
    r"|0x[0-9a-f]+|stack|\b\d{3} (?:internal|bad|not found)",
    re.IGNORECASE,
)
_PREFIX: Final = re.compile(
    r"^(?:(?:error(?: \w+){0,4}|[a-z]*error|failed(?: \w+){0,4}|tool error)\s*:\s*)+",
    re.IGNORECASE,
)
# Keys whose value is the answer itself, and those that say nothing to a person.
_TEXTS: Final = (
    *("answer", "reply", "text", "description", "summary", "excerpt", "result"),
    *("message", "content", "value"),
)
_NAMES: Final = (
    "name",
    "display_name",
    "title",
    "label",
    "item",
    "fact",
    "snippet",
    "text",
    "id",
)
_SILENT: Final = re.compile(
    r"^(?:.*_)?(?:id|ids|uuid|url|uri|score|system|type|version|hash|ok|success|status"
    r"|token|schema|href|[a-z]+_at|session_id|timestamp|confidence)$"
)
_UNITS: Final = {
    *("km", "miles", "m", "minutes", "hours", "days", "seconds", "gold", "silver"),
    *(
        "copper",
        "kg",
        "percent",
        "celsius",
        "fahrenheit",
        "gp",
        "sp",
        "cp",
        "feet",
        "ft",
    ),
}
_LISTS: Final = ("results", "items", "entries", "matches", "data", "lines", "hits")
_STRANGE: Final = re.compile(r"[{\[][\"'{\[]|^\s*[{\[].*[}\]]\s*$", re.DOTALL)


def report(
    turn: Sequence[Message], said: ParsedUtterance, wording: Wording
) -> list[str]:
    """Return a sentence for each result of this turn that tells something.

    Empty if the tools were asked what they know of something, and know nothing.
    """
    calls = {call.id: call for one in turn for call in one.calls}
    told: list[str] = []
    searched = False
    for one in turn:
        if one.role != "tool":
            continue
        call = calls.get(one.call_id)
        name = call.name if call else one.name
        query = _query(call.arguments if call else "")
        sentence = sentence_of(name, one.content, wording, said, query)
        searched |= not sentence
        told.append(sentence)
    known = [x for x in dict.fromkeys(told) if x]
    return known if known or searched else [wording.answer("done", {})]


def sentence_of(
    name: str,
    content: str,
    wording: Wording,
    said: ParsedUtterance | None = None,
    query: str = "",
) -> str:
    """Return a sentence about a tool's result; empty if a search found nothing."""
    try:
        result = json.loads(content)
    except (ValueError, RecursionError):
        result = content
    status, message, data = "ok", "", result
    if isinstance(result, dict) and result.keys() & {
        "status",
        "message",
        "data",
        "error",
    }:
        failed = result.get("error")
        status = str(result.get("status") or ("tool_error" if failed else "ok"))
        message = _words(result.get("message") or failed)
        data = result.get("data")
    if status == "ok":
        return _good(message, data, wording, said, query)
    return _bad(status, message, name, wording)


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
    if message == NOTHING_KNOWN:
        return ""
    if query and message in _FIXED and not data:
        return ""
    if re.fullmatch(r"-?\d+(?:\.\d+)?", message):
        return closed(describe(float(message)))
    if message in _FIXED or _STRANGE.search(message):
        message = describe(data) or ("" if message in _FIXED else describe(message))
    if message:
        return closed(cut(message))
    if data is None or isinstance(data, bool) or (data and not _listing(data)):
        return wording.answer("done", {})
    return wording.answer("nothing", {})


_BAD: Final = {
    **dict.fromkeys(("timeout", "skipped", "pending"), "late"),
    **dict.fromkeys(("unavailable", "crashed"), "broken"),
    "cancelled": "stopped",
    "denied": "denied",
}


def _bad(status: str, message: str, name: str, wording: Wording) -> str:
    message = _PREFIX.sub("", message)
    why = "" if message in _FIXED or _TECHNICAL.search(message) else message
    if why and status not in _BAD:
        return closed(f"I cannot: {cut(why)}")
    tool = plain(name)
    values = {"tool": tool, "Tool": tool[:1].upper() + tool[1:]}
    return wording.answer(_BAD.get(status, "failed"), values)


def _listing(data: Any) -> bool:
    """Return True for data in which a list was asked for."""
    return isinstance(data, str | list) or any(
        isinstance(x, list) for x in data.values()
    )


def _query(arguments: str) -> str:
    """Return the words that a call searched for; empty if it was no search."""
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(values, dict):
        return ""
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
    text = _entry(entry, "")
    about = stems(query)
    words = stems(" ".join(str(x) for x in entry.values() if isinstance(x, str)))
    if about and len(about & words) * 2 < len(about) + (len(about) > 1):
        return False
    quoted = entry.get("snippet") or entry.get("text") or text
    if "speaker" not in entry:
        return True
    line = ParsedUtterance(str(quoted).strip("… "))
    asked = line.is_question or bool(line.asked)
    return not asked and (said is None or line.text not in said.text)


def _entry(entry: Any, me: str) -> str:
    """Return what one entry of a list says, in a sentence."""
    if not isinstance(entry, Mapping):
        return describe(entry)
    if speaker := entry.get("speaker"):
        who = "I" if speaker == me else str(speaker)
        when = next((x for x in (entry.get("when"), entry.get("day")) if x), "")
        text = entry.get("snippet") or entry.get("text") or ""
        return f"{who} said{f' {when}' if when else ''}: {_words(text)}"
    name = next((_words(entry[x]) for x in _NAMES if entry.get(x)), "")
    text = next((_words(entry[x]) for x in _TEXTS if entry.get(x)), "")
    if name and text and name != text:
        return cut(f"{name}: {text}")
    return cut(text or name or describe(entry))


def describe(value: Any) -> str:
    """Return data in words: the values that can be spoken, with their names."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"it comes to {_words(value)}"
        case str():
            inner = _json(value)
            return describe(inner) if inner is not None else cut(_words(value))
        case list():
            return cut(_listed(value))
        case Mapping():
            return cut(_object(value))
    return ""


def _json(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


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
    told: list[str] = []
    spoken = {k: v for k, v in value.items() if not _SILENT.match(str(k).lower())}
    for key, inner in (spoken or value).items():
        name = _key(key)
        if isinstance(inner, bool):
            if " " in name:
                told.append(f"{name}, {'yes' if inner else 'no'}")
            else:
                told.append(f"it is {'' if inner else 'not '}{name}")
        elif isinstance(inner, list | Mapping) and not inner:
            told.append(f"there are no {name}")
        elif isinstance(inner, list):
            verb = "is" if len(inner) == 1 else "are"
            listed = _listed(inner)
            told.append(
                f"the {name} {verb} {listed}"
                if listed
                else f"there {verb} {len(inner)} {name}"
            )
        elif isinstance(inner, Mapping):
            if text := _object(inner):
                told.append(f"of the {name}, {text}")
        elif inner is not None and (text := _words(inner)):
            unit = name.rpartition(" ")[2]
            if unit in _UNITS and unit != name and not isinstance(inner, str):
                told.append(f"the {name.removesuffix(f' {unit}')} is {text} {unit}")
            else:
                told.append(f"the {name} is {text}")
    return joined(told)


def _listed(values: Sequence[Any]) -> str:
    parts = [_part(x) for x in values]
    parts = [x for x in parts if x]
    more = len(parts) - _MOST_LISTED
    if more > 1:
        parts = [*parts[:_MOST_LISTED], f"{more} more"]
    return joined(parts)


def _part(value: Any) -> str:
    if not isinstance(value, Mapping):
        return (
            joined([_part(x) for x in value])
            if isinstance(value, list)
            else _words(value)
        )
    named = next((x for x in _NAMES if value.get(x)), "")
    if not named or (named == "id" and len(value) > 1):
        return _object(value)
    numbers = [
        f"{_key(key)} {_words(inner)}"
        for key, inner in value.items()
        if key != named
        and isinstance(inner, int | float)
        and not isinstance(inner, bool)
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


def plain(name: str) -> str:
    """Return the name of a tool as people say it."""
    return name.rpartition("__")[2].replace("_", " ").strip() or name or "that"
