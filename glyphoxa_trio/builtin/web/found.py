"""The results of a search, in plain text and within bounds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from .text import bounded, tidy

MAX_HITS: Final = 10
MAX_TITLE: Final = 150  # characters
MAX_SNIPPET: Final = 400
MAX_URL: Final = 500
MAX_ANSWER: Final = 600
_MARKUP: Final = 4000  # characters of an entry that are read


@attrs.frozen(kw_only=True)
class Hit:
    """One page that was found. ``engine`` is the engine that found it."""

    title: str
    url: str
    snippet: str = ""
    engine: str = ""

    def data(self) -> dict[str, str]:
        return attrs.asdict(self)


@attrs.frozen(kw_only=True)
class SearchResults:
    """The answer of an engine; ``answer`` is one of its own, without a page."""

    query: str
    hits: tuple[Hit, ...] = ()
    answer: str = ""

    def data(self) -> dict[str, Any]:
        said: dict[str, Any] = {"query": self.query, "spoken": self.spoken}
        if self.answer:
            said["answer"] = self.answer
        return said | {"results": [hit.data() for hit in self.hits]}

    @property
    def spoken(self) -> str:
        """The best result, in words that can be spoken."""
        if self.answer:
            return self.answer
        if not self.hits:
            return f"I found nothing about {self.query}."
        first = self.hits[0]
        if not first.snippet:
            return f"I found a page called {first.title}."
        return f"{first.title}: {first.snippet}"


def hits_of(
    entries: object, names: Mapping[str, str], limit: int, engine: str
) -> tuple[Hit, ...]:
    """Return the first entries of a list that are pages, each address once.

    Args:
      names: the engine's names for title, url, snippet and engine.
      engine: the name for entries that have none.
    """
    hits: dict[str, Hit] = {}
    for entry in entries if isinstance(entries, list) else ():
        if len(hits) >= min(limit, MAX_HITS):
            break
        if not isinstance(entry, Mapping):
            continue
        url = entry.get(names["url"])
        if not isinstance(url, str) or not _is_page(url):
            continue
        hits.setdefault(
            url,
            Hit(
                title=plain(entry.get(names["title"]), MAX_TITLE) or url,
                url=url,
                snippet=plain(entry.get(names["snippet"]), MAX_SNIPPET),
                engine=plain(entry.get(names["engine"]), 40) or engine,
            ),
        )
    return tuple(hits.values())


def plain(value: object, most: int) -> str:
    """Return an engine's text as plain text on one line; "" if it is no text."""
    if not isinstance(value, str):
        return ""
    words = _MarkedText()
    words.feed(value[:_MARKUP])
    words.close()
    text = "".join(words.said).encode("utf-16", "surrogatepass")
    return bounded(" ".join(tidy(text.decode("utf-16", "replace")).split()), most)[0]


def first_text(values: Iterable[object], name: str, most: int) -> str:
    """Return the first value that is text, or an object with text under ``name``."""
    for value in values:
        if isinstance(value, Mapping):
            value = value.get(name)
        if text := plain(value, most):
            return text
    return ""


def _is_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.netloc)
        and len(url) <= MAX_URL
        and url.isprintable()
        and " " not in url
    )


class _MarkedText(HTMLParser):
    """A parser that keeps the text between tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.said: list[str] = []

    def handle_data(self, data: str) -> None:
        self.said.append(data)
