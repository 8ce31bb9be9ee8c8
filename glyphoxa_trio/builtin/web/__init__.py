"""The web: ``search`` and ``fetch_page`` (G14).

Of what comes from outside, each part is looked at where it can be looked at alone:

`urls`, `addresses`     what an address is, and whether it may be fetched from (pure)
`connecting`            connections to addresses that were checked
`sites`, `robots`       what sites ask of robots, and how many visit them
`fetching`, `answers`   redirects and limits; what a server has answered
`unpacking`, `content`, `charset`, `page`
                        a body as text (pure)
`extraction`, `worker`, `reading`
                        HTML, in a process that may be killed
`search`, `searxng`, `brave`, `found`
                        search engines: how they are asked, and what they found
"""

from .brave import BASE_URL as BRAVE_URL
from .brave import Brave
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
