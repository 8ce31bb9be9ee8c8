"""The tools of memory: what was said in a campaign before, and what is known in it.

`tools` makes two groups. ``memory`` has ``search_sessions``, ``query_entities``,
``get_summary``, ``search_facts`` and ``remember``. ``sessions`` has ``search_history``
and ``get_summary``, which models see as ``get_session_summary``.

`handlers`, `entities`, `facts` and `sessions` make them. `view` is one NPC's view of a
campaign, which all of them read; `dates` says when something was said.
"""

from .facts import Embed
from .handlers import tools

__all__ = ["Embed", "tools"]
