"""Reading rules from JSON, in two layouts.

Our own layout is a list of entries, or an object that holds the list as ``entries``
beside a ``notice``:

    [{"id": "condition-blinded", "name": "Blinded", "category": "condition",
      "system": "dnd5e", "text": "You see nothing ...", "keywords": ["blind"]}]

``system`` (``dnd5e``) and ``keywords`` (none) may be left out. The other layout is
5e-database's: a list of objects with ``index``, ``name`` and ``desc``. There the
category comes from the file's name (``5e-SRD-Conditions.json`` makes
``condition-blinded``), or is ``spell`` for an object with a level and a school. An
object without a ``desc`` has nothing to look up and is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError

SYSTEM: Final = "dnd5e"
SHOWN_PROBLEMS: Final = 20

_REQUIRED: Final = ("id", "name", "category", "text")
_KNOWN: Final = {*_REQUIRED, "system", "keywords"}
_GENERAL: Final = ("rules", "rule-sections")  # 5e-database's names for our "general"


class DatasetError(GlyphoxaError):
    """A data set cannot be read; the message names the file and every place."""


@attrs.frozen(kw_only=True)
class Rule:
    """One entry to look up. ``id`` is unique over all data sets in use."""

    id: str
    name: str
    category: str
    system: str
    text: str
    keywords: tuple[str, ...] = ()


@cache
def shipped() -> tuple[Rule, ...]:
    """Return the entries of the SRD that come with the package. Read once."""
    folder = resources.files("glyphoxa_trio.builtin") / "data" / "rules"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        rule for file in files for rule in read(file.read_text("utf-8"), file.name)
    )


def load(path: Path) -> list[Rule]:
    """Return the entries of a file, in either layout.

    Raises:
      DatasetError: if the file cannot be read or is not a data set.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: {error}") from error
    return read(text, str(path))


def read(text: str, name: str) -> list[Rule]:
    """Return the entries in a file's text. ``name`` is the file's, also for errors.

    Raises:
      DatasetError: with all errors at once, each with its place.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise DatasetError(f"{name}: {place}: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a huge number, a deep nesting
        raise DatasetError(f"{name}: {error}") from error
    if isinstance(document, dict):
        document = document.get("entries")
    if not isinstance(document, list):
        raise DatasetError(f"{name}: expected a list of entries")
    category = _category(Path(name).stem)
    rules: dict[str, Rule] = {}
    problems: list[str] = []
    for number, entry in enumerate(document):
        wrong = list(_problems(entry))
        if not wrong:
            rule = _foreign(entry, category) if "index" in entry else _own(entry)
            if rule.id in rules:
                wrong = [f": {rule.id} occurs twice"]
            elif rule.text:
                rules[rule.id] = rule
        problems += [f"[{number}]{problem}" for problem in wrong]
    if not problems and not rules:
        problems = [": no entry with a text"]
    if problems:
        more = len(problems) - SHOWN_PROBLEMS
        shown = problems[:SHOWN_PROBLEMS] + ([f" and {more} more"] if more > 0 else [])
        raise DatasetError("\n".join(name + problem for problem in shown))
    return list(rules.values())


def _problems(entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f": expected an object, got {_cut(entry)}"
    elif "index" in entry:
        for key in ("index", "name"):
            yield from _no_text(entry, key)
        for key in ("desc", "higher_level"):
            value = entry.get(key, [])
            if not isinstance(value, str) and not _is_texts(value):
                yield f".{key}: expected a text or a list of texts, got {_cut(value)}"
    elif "id" in entry:
        for key in _REQUIRED:
            yield from _no_text(entry, key)
        if "system" in entry:
            yield from _no_text(entry, "system")
        if not _is_texts(entry.get("keywords", [])):
            yield f".keywords: expected a list of texts, got {_cut(entry['keywords'])}"
        for key in sorted(entry.keys() - _KNOWN):
            yield f".{key}: unknown key; there are {', '.join(sorted(_KNOWN))}"
    else:
        yield ": has neither 'id' (our layout) nor 'index' (5e-database's)"


def _no_text(entry: Mapping[str, Any], key: str) -> Iterator[str]:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        yield f".{key}: expected a text, got {_cut(value)}"


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _cut(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + " ..."


def _own(entry: Mapping[str, Any]) -> Rule:
    return Rule(
        id=entry["id"],
        name=entry["name"],
        category=entry["category"],
        system=entry.get("system", SYSTEM),
        text=entry["text"],
        keywords=tuple(entry.get("keywords", ())),
    )


def _foreign(entry: Mapping[str, Any], category: str) -> Rule:
    parts = [*_lines(entry.get("desc", ())), *_lines(entry.get("higher_level", ()))]
    if "level" in entry and "school" in entry:
        category = "spell"
        # For spells whose description does not repeat these facts, but only if there is
        # one.
        parts = [_spell_line(entry), *parts] if parts else []
    return Rule(
        id=f"{category}-{entry['index']}",
        name=entry["name"],
        category=category,
        system=SYSTEM,
        text="\n".join(parts),
    )


def _lines(value: str | list[str] | tuple[()]) -> list[str]:
    lines = [value] if isinstance(value, str) else value
    return [line.removeprefix("- ").strip() for line in lines if line.strip()]


def _spell_line(entry: Mapping[str, Any]) -> str:
    school = entry["school"]
    name = school.get("name", "") if isinstance(school, dict) else school
    facts = [
        f"{key.replace('_', ' ')} {entry[key]}"
        for key in ("casting_time", "range", "duration")
        if isinstance(entry.get(key), str)
    ]
    if entry.get("concentration") is True:
        facts.append("concentration")
    return "; ".join([f"Level {entry['level']} {name}", *facts]) + "."


def _category(stem: str) -> str:
    """Return the category for a file: ``magic-item`` for ``5e-SRD-Magic-Items``."""
    name = re.sub(r"^5e-srd-", "", stem.lower())
    if name in _GENERAL:
        return "general"
    for plural, singular in (("ies", "y"), ("sses", "ss"), ("ss", "ss"), ("s", "")):
        if name.endswith(plural):
            return name.removesuffix(plural) + singular
    return name
