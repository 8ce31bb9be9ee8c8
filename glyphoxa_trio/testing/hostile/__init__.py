"""Small misbehaving MCP servers, for trying out your own set-up.

    from glyphoxa_trio.testing import hostile

    spec = hostile.server("stops_reading", timeout=0.5)
    async with open_runtime(Config(mcp=McpConfig(servers=(spec,)))) as runtime:
        ...

In a configuration file the command is ``python -m glyphoxa_trio.testing.hostile
stops_reading``; without a name it lists all of them. Each is a real process that starts
in some 40 ms, offers the tools ``echo``, ``write`` and ``bad``, and misbehaves in one
way. ``docs/hostile-servers.md`` says what a user sees of each.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

import trio

from glyphoxa_trio.config import ServerSpec

from .behaviours import BEHAVIOURS
from .family import Behaviour, words
from .web import PACKINGS

__all__ = ["BEHAVIOURS", "PACKINGS", "Behaviour", "command", "open_web", "server"]

_RUN = Path(__file__).with_name("run.py")
_FIELDS = frozenset(field.name for field in attrs.fields(ServerSpec))


def command(behaviour: str, **options: object) -> tuple[str, ...]:
    """Return the command that starts a server of the family.

    Args:
      options: the behaviour's own options (see `BEHAVIOURS`). Every behaviour also has
        ``journal``, a file in which the tool ``write`` notes its argument ``id``;
        ``writes=1``, which lists ``bad`` as a tool with side effects; and ``http``, one
        of `PACKINGS`: then it serves HTTP on loopback, and prints its port on stdout.

    Raises:
      ValueError: for an unknown name or option; the message lists the known ones.
    """
    return (sys.executable, "-I", "-S", str(_RUN), *words(behaviour, options))


def server(behaviour: str, **options: Any) -> ServerSpec:
    """Return a server of the family, as a configuration would have it.

    Args:
      options: those of `command`, and any field of `ServerSpec` but its command; the
        two have no name in common. The server has the name of its behaviour unless
        ``name`` is given.

    Raises:
      ValueError: for an unknown name or option; the message lists the known ones.
      ConfigError: as `ServerSpec` raises it.
    """
    spec = {key: options.pop(key) for key in list(options) if key in _FIELDS}
    spec.setdefault("name", behaviour)
    return ServerSpec(command=command(behaviour, **options), **spec)


@asynccontextmanager
async def open_web(
    behaviour: str, *, http: str = "plain", **options: Any
) -> AsyncGenerator[ServerSpec]:
    """Run a server of the family on HTTP until the block is left.

    Args:
      http: how the answers of its tool ``bad`` are packed, one of `PACKINGS`.
      options: as for `server`.

    Raises:
      ValueError: for an unknown name or option; the message lists the known ones.
    """
    spec = {key: options.pop(key) for key in list(options) if key in _FIELDS}
    spec.setdefault("name", behaviour)
    line = command(behaviour, http=http, **options)
    process = await trio.lowlevel.open_process(line, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = bytearray()
        while not port.endswith(b"\n"):
            port += await process.stdout.receive_some(16)
        yield ServerSpec(url=f"http://127.0.0.1:{int(port)}/mcp", **spec)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
