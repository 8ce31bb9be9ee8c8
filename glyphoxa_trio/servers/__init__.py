"""Our own servers (``glyphoxa serve``), and what is of use to who writes others.

`serve` makes a server of a list of tools. `budget` puts to use what a runtime tells
any server.
"""

from .budget import budget, remaining_seconds
from .program.own import serve

__all__ = ["budget", "remaining_seconds", "serve"]
