"""Become another program that is killed when its parent ends, however that does.

A program by itself, which is run by its path with the process id of the parent and the
command. Only Linux can do it; elsewhere the command is run without.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG, which outlives what follows


def main() -> None:
    """Run the command in place of this program."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != int(parent):  # it ended before that
            sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
