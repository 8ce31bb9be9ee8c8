"""SearXNG's JSON API. Pure.

An instance answers in JSON only if ``json`` is among the formats in its settings:
status 403 nearly always means that it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from glyphoxa_trio.secret import Secret

from .found import MAX_ANSWER, SearchResults, first_text, hits_of, plain
from .refusals import SiteFails

_NAMES: Final = {
    "title": "title",
    "url": "url",
    "snippet": "content",
    "engine": "engine",
}


class SearXNG:
    """A SearXNG server, which asks many engines; each result names its engine."""

    name = "SearXNG"
    path = "/search"

    def parameters(self, query: str, limit: int) -> Mapping[str, str]:
        return {"q": query, "format": "json"}

    def headers(self, key: Secret | None) -> Mapping[str, str]:
        """Return the headers.

        SearXNG has no keys, but a proxy in front of it may require one.
        """
        head = {"Accept": "application/json"}
        return (
            head if key is None else head | {"Authorization": f"Bearer {key.reveal()}"}
        )

    def found(
        self, query: str, payload: Mapping[str, Any], limit: int
    ) -> SearchResults:
        if not isinstance(payload.get("results"), list):
            raise SiteFails("The search engine does not answer as SearXNG does.")
        hits = hits_of(payload["results"], _NAMES, limit, self.name)
        answers = payload.get("answers")
        answer = first_text(
            answers if isinstance(answers, list) else (), "answer", MAX_ANSWER
        )
        silent = payload.get("unresponsive_engines")
        if not hits and not answer and isinstance(silent, list) and silent:
            raise SiteFails(f"No search engine has answered: {_reasons(silent)}.")
        return SearchResults(query=query, hits=hits, answer=answer)

    def refusal(self, status: int, payload: object) -> str | None:
        if status == 403:
            return "it does not answer in JSON; its settings must allow that"
        return "the key is wrong" if status == 401 else None


def _reasons(silent: list[Any]) -> str:
    """Return which engines did not answer, and why."""
    reasons = [
        ": ".join(plain(part, 60) for part in entry[:2])
        for entry in silent[:3]
        if isinstance(entry, list)
    ]
    return ", ".join(reasons) or "no reason is given"
