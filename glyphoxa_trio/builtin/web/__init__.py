"""The tools ``search`` and ``fetch_page``.

Input from outside is checked in small parts, each on its own:

`urls`, `addresses`     parsing addresses, and whether they may be fetched from (pure)
`connecting`            connections to addresses that were checked
`sites`, `robots`       the wishes of sites to robots, and the number of visits at once
`fetching`, `answers`   redirects and limits; the answers of servers
`unpacking`, `content`, `charset`, `page`, `text`
                        a body as text (pure)
`extraction`, `worker`, `reading`
                        HTML, in a process that can be killed
`search`, `searxng`, `brave`, `found`
                        search engines: their requests and their results
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .brave import BRAVE_URL, Brave
    from .search import Search
    from .searxng import SearXNG
    from .settings import FetchSettings
    from .tools import fetch_tool, installed, search_tool

__all__ = [
    "BRAVE_URL",
    "Brave",
    "FetchSettings",
    "SearXNG",
    "Search",
    "fetch_tool",
    "installed",
    "search_tool",
]

_HOME: Final = {
    "BRAVE_URL": "brave",
    "Brave": "brave",
    "FetchSettings": "settings",
    "SearXNG": "searxng",
    "Search": "search",
    "fetch_tool": "tools",
    "installed": "tools",
    "search_tool": "tools",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use; the process that reads a page needs none."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
