"""``glyphoxa demo`` and ``glyphoxa init``: the files that come with the package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from .common import BAD_INPUT

_TAVERN: Final = ("tavern.yaml", "servers/ledger.py", "servers/oracle.py")
_OWN: Final = ("npcs.yaml", "my_tools.py", "test_my_tools.py")


def shipped() -> Path:
    """The folder of configurations: of the package, or of the clone that is run."""
    packaged = Path(__file__).parents[1] / "shipped"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "config"


def tavern() -> Path:
    """The configuration of the demo, in a folder of the user's that it may write to.

    Raises:
      OSError: if that cannot be written.
    """
    import platformdirs

    folder = platformdirs.user_data_path("glyphoxa") / "demo"
    for name in _TAVERN:
        text, path = (shipped() / name).read_text(), folder / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder / "tavern.yaml"


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
        for name in _OWN:
            (folder / name).write_text((shipped() / "starter" / name).read_text())
    except OSError as error:
        return _refuse(f"the files cannot be written: {error.strerror} @ {folder}")
    inside = "" if folder == Path() else f"cd {folder}\n"
    sys.stdout.write(
        f"written: {', '.join(_OWN)}\n\n"
        f"{inside}"
        "glyphoxa check npcs.yaml     # what is wrong, and what she can use\n"
        "glyphoxa play npcs.yaml      # talk to her\n"
        "pytest                       # the test of the tool\n"
    )
    return 0


def _refuse(why: str) -> int:
    sys.stderr.write(f"glyphoxa: {why}\n")
    return BAD_INPUT
