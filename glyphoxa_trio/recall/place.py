"""The place of a configuration's memory."""

from __future__ import annotations

import re
from hashlib import sha256
from os.path import abspath
from pathlib import Path, PurePath
from typing import Final

from glyphoxa_trio.config import Config, ConfigError
from glyphoxa_trio.config.memory import OFF
from glyphoxa_trio.config.state import NO_STATE, state_folder
from glyphoxa_trio.memory.opening import POSTGRES, not_a_place

_DIGITS: Final = 8  # of the hash
_NAME: Final = re.compile(r"[\w-][\w .-]{0,99}")


def place_of(config: Config, source: Path | None) -> str | None:
    """Return where the memory of a configuration is: a file, or a database's address.

    That is ``memory.store``, relative to the configuration's folder. Unset, it is a
    file in the state folder: under ``memory.name``, or else under the name of the
    configuration's file and a hash of its path, so that two projects stay apart.

    Args:
      source: the configuration's file; None if it was made in the program.

    Returns None if memory is off, or if there is nothing to name a file after.

    Raises:
      ConfigError: for a name that is no name of a file, an address of a database in
        another form, or a user without a home and no place elsewhere.
    """
    memory = config.memory
    if memory.off:
        return None
    if memory.store is not None:
        if memory.store.startswith(POSTGRES):
            return memory.store
        if memory.store.startswith("~"):
            raise ConfigError("'~' is not expanded; write ${HOME} @ memory.store")
        if why := not_a_place(memory.store):
            raise ConfigError(f"{why} @ memory.store")
        return str(PurePath("" if source is None else source.parent, memory.store))
    if memory.name is not None:
        name = memory.name.strip()
        if _NAME.fullmatch(name) is None:
            raise ConfigError(
                "must be a plain name of a file, of letters, digits, blanks, '.', '_'"
                " and '-' @ memory.name"
            )
    elif source is None:
        return None
    else:
        digest = sha256(abspath(source).encode(errors="surrogatepass")).hexdigest()
        name = f"{source.stem}-{digest[:_DIGITS]}"
    folder = state_folder(config)
    if folder is None:
        raise ConfigError(
            f"memory has no place: {NO_STATE}; with 'off' it needs none @ memory.store"
        )
    return str(folder / "memory" / f"{name}.db")


def memory_of(config: Config, path: Path, session: Path | None = None) -> str:
    """Return the ``memory`` of a runtime that a command opens to talk to NPCs.

    That is a file in the state folder, unless the configuration says otherwise, the
    conversation is kept in a file of its own (``session``), or nothing is to be
    remembered between runs.
    """
    kept_elsewhere = session is not None or not config.mcp.remember
    if config.memory.store is None and kept_elsewhere:
        return OFF
    return place_of(config, path) or OFF
