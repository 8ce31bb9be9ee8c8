"""The command ``python -m glyphoxa_trio.testing.hostile [NAME [OPTION=VALUE ...]]``."""

from __future__ import annotations

import os
import sys

from . import BEHAVIOURS, command
from .wire import raw


def main() -> None:
    """Become the named server; without a name, print the family."""
    name, *options = sys.argv[1:] or [""]
    if not name:
        width = max(map(len, BEHAVIOURS))
        for known in BEHAVIOURS.values():
            has = ", ".join(f"{key}={value}" for key, value in known.options.items())
            raw(f"{known.name:{width}}  {known.says} {has}".rstrip().encode() + b"\n")
        return
    try:
        words = command(name, **dict(word.partition("=")[::2] for word in options))
    except ValueError as error:
        sys.exit(str(error))
    # The same process, without the half second of imports that it holds now.
    os.execv(words[0], words)


main()
