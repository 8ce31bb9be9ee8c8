"""The parts of a runtime's surroundings that a simulation replaces.

`simulate`, `verify` and `replay` run the production code with another `Environment`:
other server sessions, other handlers, a seeded random generator. A recording only adds
hooks to the real one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import attrs

from glyphoxa_trio.mcp.opening import open_session
from glyphoxa_trio.mcp.transport import OpenSession
from glyphoxa_trio.tools.definition import Tool

from .hooks import NOBODY, Hooks


@attrs.frozen(kw_only=True)
class Environment:
    """The surroundings of a runtime; the defaults are the real ones.

    Args:
      open_session: opens a session with a server.
      stand_in: returns the tool to put into the catalogue in place of a tool, under the
        same key. Called whenever a tool is registered or published; None keeps the tool
        itself.
      rng: the random generator for the pauses between two starts of a server; None
        makes one.
      hooks: told of what happens in the run; see `Hooks`.
      run: the id of the run, 32 hexadecimal digits; None makes a new one.
    """

    open_session: OpenSession = open_session
    stand_in: Callable[[Tool], Tool] | None = None
    rng: random.Random | None = None
    hooks: Hooks = NOBODY
    run: str | None = None


REAL: Final = Environment()
