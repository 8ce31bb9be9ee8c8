"""Ask the user before a ``.mcp.json`` starts anything here for the first time.

The file may have come with a repository. So each entry is shown once, and again when
it changes, before its command runs; what the user agrees to is kept (`Seen`). ``--yes``
agrees beforehand, where there is no terminal to ask at. Without either, entries are
left out. The ``--yes`` of ``calibrate`` and ``mcp approve`` is another one: it agrees
to tools only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Final

import typer

from glyphoxa_trio.config import Config, SharedServer, admitted, load_config
from glyphoxa_trio.config.seen import Seen
from glyphoxa_trio.tools.characters import harmless, visible

from .choosing import choose, numbered, somebody_is_there

REMEDY: Final = "look at it with glyphoxa mcp trust"

_said_yes: ContextVar[bool] = ContextVar("said_yes", default=False)


def keep_yes(value: bool) -> bool:
    """Note ``--yes`` for `said_yes`."""
    _said_yes.set(value)
    return value


Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        callback=keep_yes,
        help="Start the servers of the project's .mcp.json without asking.",
    ),
]
"""The option of verbs that start servers; `said_yes` knows of it."""


def said_yes() -> bool:
    """Return true if ``--yes`` is on the command line."""
    return _said_yes.get()


async def load(
    path: Path, *, warn: Callable[[str], None], starts: bool = True
) -> Config:
    """A configuration with the servers of its ``.mcp.json`` that may be started.

    Asks a person about those that were not started here before.

    Args:
      starts: False for verbs that start nothing, and so need not ask.

    Raises:
      ConfigError: as `load_config`.
    """
    config = load_config(path, warn=warn)
    if not starts:
        return admitted(config, True, remedy=REMEDY)[0]
    agreed = {x.name for x in await agreed_to(config.mcp.shared, warn=warn)}
    return _with(config, lambda x: x.name in agreed, warn)


def load_again(path: Path, *, warn: Callable[[str], None]) -> Config:
    """As `load`, while a program runs: starts only what was agreed to, and asks
    nothing.

    Raises:
      ConfigError: as `load_config`.
    """
    config, seen = load_config(path, warn=warn), Seen()
    if said_yes():
        _remember(seen, config.mcp.shared, warn)
    return _with(config, lambda x: said_yes() or x in seen, warn)


def _with(
    config: Config, approve: Callable[[SharedServer], bool], warn: Callable[[str], None]
) -> Config:
    config, left_out = admitted(config, approve, remedy=REMEDY)
    for text in left_out:
        warn(text)
    return config


async def agreed_to(
    servers: Iterable[SharedServer], *, warn: Callable[[str], None]
) -> list[SharedServer]:
    """The servers that may be started, after asking about those that are new here."""
    seen = Seen()
    known: list[SharedServer] = []
    fresh: list[SharedServer] = []
    for server in servers:
        (known if server in seen else fresh).append(server)
    if not fresh:
        return known
    if not said_yes():
        fresh = await _asked(fresh, seen) if somebody_is_there() else []
    _remember(seen, fresh, warn)
    return [*known, *fresh]


def _remember(
    seen: Seen, servers: Iterable[SharedServer], warn: Callable[[str], None]
) -> None:
    new = [x for x in servers if x not in seen]
    try:
        seen.add(new)
    except OSError as error:
        warn(f"your agreement to start it could not be kept: {error}")


async def _asked(servers: Sequence[SharedServer], seen: Seen) -> list[SharedServer]:
    places = ", ".join(dict.fromkeys(str(x.source) for x in servers))
    _tell(f"{places} names servers that were not started here before:\n")
    for line in described(servers, seen):
        _tell(line + "\n")
    picked = await choose("start them?", len(servers), tell=_tell)
    return [server for at, server in enumerate(servers) if at in picked]


def described(servers: Iterable[SharedServer], seen: Seen) -> list[str]:
    """List the servers, numbered, each with what it starts or reaches; no secrets."""
    return numbered(
        [
            "\n".join(
                visible(line)
                for line in (
                    f"{x.name}{' (changed)' if x.name in seen.of(x.source) else ''}:"
                    f" {x.target}"
                ).splitlines()
            )
            for x in servers
        ]
    )


def _tell(text: str) -> None:
    sys.stderr.write(harmless(text))
    sys.stderr.flush()
