"""The web: ``search`` and ``fetch_page`` (G14).

Of what comes from outside, each part is looked at where it can be looked at alone:

`urls`, `addresses`     what an address is, and whether it may be fetched from (pure)
`connecting`            connections to addresses that were checked
`sites`, `robots`       what sites ask of robots, and how many visit them
`fetching`, `answers`   redirects and limits; what a server has answered
`unpacking`, `content`, `charset`, `page`, `text`
                        a body as text (pure)
`extraction`, `worker`, `reading`
                        HTML, in a process that may be killed
`search`, `searxng`, `brave`, `found`
                        search engines: how they are asked, and what they found
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
    """Import what is asked for: the process that reads a page needs none of it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
