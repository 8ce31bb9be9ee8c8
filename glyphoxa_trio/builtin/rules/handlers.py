"""The tools ``search_rules`` and ``get_rule``."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final

from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool, ToolError

from .datasets import Rule, load, shipped
from .index import RuleIndex, excerpt, terms

MAX_RESULTS: Final = 20
MAX_QUERY: Final = 1000  # characters
_LONGEST_ID: Final = 100  # of an unknown id that is compared with the known ones


def tools(datasets: Sequence[Path] = ()) -> list[Tool]:
    """Return ``search_rules`` and ``get_rule`` over the shipped rules and ``datasets``.

    Args:
      datasets: files in our own or in 5e-database's layout, see `datasets`. An entry
        replaces an earlier one with the same id.

    Raises:
      DatasetError: if a file cannot be read.
    """
    index = _index(*(rule for path in datasets for rule in load(path)))
    categories = sorted({rule.category for rule in index.rules.values()})
    systems = ", ".join(sorted(index.systems))

    # Coroutines, though they never wait: a thread would take longer than the search.
    @tool(
        group="rules",
        category="rules",
        title="Search the rules",
        description="Search the rules by words: conditions, combat, spells, and so "
        "on. Returns ids and excerpts, best first; get_rule has the whole text. "
        f"Categories: {', '.join(categories)}.",
        parameters={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "A few words, for example: grapple escape",
                },
                "system": {
                    "type": "string",
                    "description": f"Only this game system; there are: {systems}.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_RESULTS,
                    "default": 5,
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        estimated_duration_ms=30,
        max_duration_ms=100,
        read_only=True,
        idempotent=True,
        cacheable_seconds=3600,
        examples=({"query": "how do I escape a grapple"},),
        speech_template="{results.0.name}: {results.0.excerpt}",
    )
    async def search_rules(
        query: str, system: str | None = None, limit: int = 5
    ) -> dict[str, Any]:
        if not query.strip():
            raise ToolError("the query is empty; give a few words, such as a spell")
        if len(query) > MAX_QUERY:
            raise ToolError(f"the query has more than {MAX_QUERY} characters")
        if system and system.lower() not in index.systems:
            raise ToolError(f"no rules for system {system!r}; there are: {systems}")
        if not 1 <= limit <= MAX_RESULTS:
            raise ToolError(f"limit must be from 1 to {MAX_RESULTS}, got {limit}")
        matches = index.search(query, system or None)
        return {
            "results": [
                {
                    "id": match.rule.id,
                    "name": match.rule.name,
                    "category": match.rule.category,
                    "system": match.rule.system,
                    "score": round(match.score, 3),
                    "excerpt": excerpt(match.rule.text, query),
                }
                # JSON Schema accepts 5.0 as an integer; a slice does not.
                for match in matches[: int(limit)]
            ],
            "total": len(matches),
        }

    @tool(
        group="rules",
        category="rules",
        title="Read a rule",
        estimated_duration_ms=5,
        max_duration_ms=20,
        read_only=True,
        idempotent=True,
        cacheable_seconds=3600,
        examples=({"id": "condition-blinded"},),
        speech_field="text",
    )
    async def get_rule(
        id: Annotated[  # noqa: A002  the seed's name of the argument
            str, "For example condition-blinded or spell-fireball; see search_rules."
        ],
    ) -> dict[str, Any]:
        """Get the whole text of one rule by its id."""
        rule = index.rules.get(id) or index.rules.get(id.strip().lower())
        if rule is None:
            near = ", ".join(_nearest(index, id[:_LONGEST_ID]))
            hint = f"did you mean {near}?" if near else "search_rules finds ids"
            raise ToolError(f"no rule {id[:_LONGEST_ID]!r}; {hint}")
        return {
            "id": rule.id,
            "name": rule.name,
            "category": rule.category,
            "system": rule.system,
            "text": rule.text,
            "keywords": list(rule.keywords),
        }

    return [search_rules, get_rule]


# Building one takes a fiftieth of a second, and most reloads change no rule.
@lru_cache(maxsize=4)
def _index(*more: Rule) -> RuleIndex:
    """Return the index of the shipped rules and ``more``."""
    return RuleIndex.build([*shipped(), *more])


def _nearest(index: RuleIndex, unknown: str) -> list[str]:
    """Return up to three similar ids: by a word of the name, then by spelling."""
    head, dash, tail = unknown.partition("-")
    category = any(head == rule.category for rule in index.rules.values())
    words = tail if dash and category else unknown
    named = [
        match.rule.id
        for match in index.search(words)
        if not set(terms(words)).isdisjoint(terms(match.rule.name))
    ]
    alike = difflib.get_close_matches(unknown.lower(), index.rules, n=3, cutoff=0.7)
    return list(dict.fromkeys([*named[:2], *alike]))[:3]
