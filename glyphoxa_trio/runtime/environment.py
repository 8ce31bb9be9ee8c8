"""What a runtime meets and does not decide: servers, handlers, chance.

A rehearsal (`simulate`, `verify`, `replay`) runs the production code in another
world, and a recording listens in on the real one.
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
    """The real one, unless it says otherwise.

    Args:
      open_session: opens a session with a server; never asks who it is for.
      stand_in: what is put in the catalogue in place of a tool, under the same
        key. Called whenever a tool is registered or published; None is
        the tool itself.
      rng: of the pauses between two starts of a server; None is anybody's.
      hooks: hears what the run meets.
      run: the id of the run, 32 hexadecimal digits; None is a new one.
    """

    open_session: OpenSession = open_session
    stand_in: Callable[[Tool], Tool] | None = None
    rng: random.Random | None = None
    hooks: Hooks = NOBODY
    run: str | None = None


REAL: Final = Environment()
