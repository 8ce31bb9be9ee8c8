"""The tools ``search`` and ``fetch_page``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final

import trio

from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool

from .found import MAX_HITS
from .refusals import BadAddress
from .search import Search
from .settings import DEEP, DEFAULTS, FetchSettings

if TYPE_CHECKING:
    from .fetching import Fetcher

MAX_QUERY: Final = 400  # characters
_HITS: Final = 5


def installed() -> bool:
    """Return whether HTML pages can be read (with the extra ``tools``)."""
    return all(find_spec(name) for name in ("trafilatura", "lxml_html_clean"))


def search_tool(search: Search, *, most_seconds: float = DEEP) -> Tool:
    """Return ``search``, with one engine."""

    # The example is refused before the engine is asked: a probe would cost one of the
    # questions that are paid for. The declared latency holds until there are real
    # calls.
    @tool(
        group="web",
        category="web",
        name="search",
        title="Search the web",
        estimated_duration_ms=2000,
        max_duration_ms=most_seconds * 1000,
        read_only=True,
        idempotent=True,
        open_world=True,
        cacheable_seconds=60,
        examples=({"query": ""},),
        speech_field="spoken",
    )
    async def find(
        query: Annotated[str, "What to look for, in a few words"],
        limit: Annotated[int, f"How many results, 1 to {MAX_HITS}"] = _HITS,
    ) -> dict[str, Any]:
        """Search the web. Results have a title, an address and a few words of text."""
        words = " ".join(query.split())
        if not words:
            raise BadAddress("There is nothing to search for.")
        if len(words) > MAX_QUERY:
            raise BadAddress(f"A search has at most {MAX_QUERY} characters.")
        found = await search.find(words, max(1, min(limit, MAX_HITS)))
        return found.data()

    return find


def fetch_tool(settings: FetchSettings = DEFAULTS) -> Tool:
    """Return ``fetch_page``."""
    fetcher: Fetcher | None = None

    @tool(
        group="web",
        category="web",
        title="Read a web page",
        estimated_duration_ms=2500,
        max_duration_ms=settings.timeout * 1000,
        read_only=True,
        idempotent=True,
        open_world=True,
        cacheable_seconds=300,
        examples=({"url": ""},),
        speech_template="{title}: {text}",
        speech_field="text",
    )
    async def fetch_page(
        url: Annotated[str, "The whole address, with http:// or https://"],
    ) -> dict[str, Any]:
        """Read the text of a web page. Not of PDFs, and not of pages behind a login."""
        nonlocal fetcher
        if fetcher is None:
            # Loading its libraries takes a while, so it must not block NPCs.
            made = await trio.to_thread.run_sync(_fetcher, settings)
            fetcher = fetcher or made
        return (await fetcher.page(url)).data()

    return fetch_page


def _fetcher(settings: FetchSettings) -> Fetcher:
    from .fetching import Fetcher

    return Fetcher(settings)
