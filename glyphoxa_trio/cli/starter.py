"""``glyphoxa demo`` and ``glyphoxa init``: the files that come with the package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.user_folders import NO_HOME, user_data_folder

from .common import BAD_INPUT

_TAVERN: Final = ("tavern.yaml", "servers/ledger.py", "servers/oracle.py")
_SCHEMA: Final = "glyphoxa.schema.json"
_COPIED: Final = ("npcs.yaml", "my_tools.py", "test_my_tools.py")
_OWN: Final = (*_COPIED, _SCHEMA)
# Editors that have the YAML language server complete and check the keys by this.
_MODELINE: Final = f"# yaml-language-server: $schema=./{_SCHEMA}\n"


def shipped() -> Path:
    """The folder of configurations: of the package, or of the clone that is run."""
    packaged = Path(__file__).parents[1] / "shipped"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "config"


def tavern() -> Path:
    """The configuration of the demo, in a folder of the user's that it may write to.

    Raises:
      ConfigError: if that cannot be written, or the user has no home.
    """
    data = user_data_folder()
    if data is None:
        raise ConfigError(f"the demo has no folder: {NO_HOME} or XDG_DATA_HOME")
    folder = data / "demo"
    try:
        for name in _TAVERN:
            text, path = (shipped() / name).read_text(), folder / name
            if not path.exists() or path.read_text() != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    except OSError as error:
        raise ConfigError(
            f"the demo's files cannot be written: {error.strerror}: set HOME or"
            f" XDG_DATA_HOME to a folder that can @ {folder}"
        ) from None
    return folder / "tavern.yaml"


def schema_text() -> str:
    """Return the JSON Schema of a configuration, as text."""
    from glyphoxa_trio.config.schema import schema_of_config

    reference = (shipped() / "reference.yaml").read_text()
    return json.dumps(schema_of_config(reference), indent=1) + "\n"


def init(folder: Path, *, reference: bool) -> int:
    """Write the files of a new project, all or none; returns the exit status."""
    if reference:
        sys.stdout.write((shipped() / "reference.yaml").read_text())
        return 0
    there = [name for name in _OWN if (folder / name).exists()]
    if there:
        return _refuse(
            f"nothing was written, because the folder has {', '.join(there)} already:"
            f" name another one @ {folder}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _COPIED:
            text = (shipped() / "starter" / name).read_text()
            head = _MODELINE if name.endswith(".yaml") else ""
            (folder / name).write_text(head + text)
        (folder / _SCHEMA).write_text(schema_text())
    except OSError as error:
        return _refuse(f"the files cannot be written: {error.strerror} @ {folder}")
    inside = "" if folder == Path() else f"cd {folder}\n"
    sys.stdout.write(
        f"written: {', '.join(_OWN)}\n\n"
        f"{inside}"
        "glyphoxa check npcs.yaml     # problems, and the tools she can use\n"
        "glyphoxa play npcs.yaml      # talk to her\n"
        "pytest                       # the test of the tool\n"
    )
    return 0


def _refuse(why: str) -> int:
    sys.stderr.write(f"glyphoxa: {why}\n")
    return BAD_INPUT
