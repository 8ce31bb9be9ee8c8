"""Brave's web search API. Pure.

A wrong key gives status 422 there; a code in the body tells it apart from a wrong
question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from glyphoxa_trio.secret import Secret

from .found import SearchResults, hits_of
from .refusals import SiteFails

BRAVE_URL: Final = "https://api.search.brave.com"
MOST_CHARACTERS: Final = 400  # of a question, which has at most so many words, too
MOST_WORDS: Final = 50

_NAMES: Final = {
    "title": "title",
    "url": "url",
    "snippet": "description",
    "engine": "",
}


class Brave:
    """Brave's index, which needs a key."""

    name = "Brave"
    path = "/res/v1/web/search"

    def parameters(self, query: str, limit: int) -> Mapping[str, str]:
        words = query[:MOST_CHARACTERS].split()[:MOST_WORDS]
        return {
            "q": " ".join(words),
            "count": str(limit),
            "text_decorations": "false",
            "result_filter": "web",
        }

    def headers(self, key: Secret | None) -> Mapping[str, str]:
        head = {"Accept": "application/json"}
        return head if key is None else head | {"X-Subscription-Token": key.reveal()}

    def found(
        self, query: str, payload: Mapping[str, Any], limit: int
    ) -> SearchResults:
        if payload.get("type") != "search":
            raise SiteFails("The search engine does not answer as Brave does.")
        web = payload.get("web")  # absent if nothing was found
        entries = web.get("results") if isinstance(web, Mapping) else None
        return SearchResults(
            query=query, hits=hits_of(entries, _NAMES, limit, self.name)
        )

    def refusal(self, status: int, payload: object) -> str | None:
        error = payload.get("error") if isinstance(payload, Mapping) else None
        code = error.get("code") if isinstance(error, Mapping) else None
        if status in (401, 403) or str(code).startswith("SUBSCRIPTION_TOKEN"):
            return "the key is missing or wrong"
        return None
