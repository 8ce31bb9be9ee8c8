"""The surroundings of the process: its three streams and its working directory.

A container or a service manager may start a program with streams that are closed, and
a disk may be full. Then a command ends with a line instead of a traceback.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

CANNOT_WRITE: Final = 1
# As a shell says of a program that SIGPIPE has ended: whoever read has left.
READER_LEFT: Final = 128 + 13
_OF_STREAMS: Final = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF, errno.EDQUOT)


def open_streams() -> None:
    """Open closed streams as the null device, so that no file gets their numbers.

    Where the locale cannot encode all characters, "?" is written in place of the rest.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.encoding.lower() != "utf-8":
        out.reconfigure(errors="replace")


def flush_output() -> OSError | None:
    """Flush stdout, and return why that cannot be done; None if it is done.

    What cannot be written is dropped, so that the interpreter does not try it again
    when it ends.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
        return error
    return None


def cause_outside(error: BaseException) -> OSError | None:
    """Return the failure of a stream or of the working directory that has ended a
    command; None if the error is of another kind."""
    for leaf in _leaves(error):
        if not isinstance(leaf, OSError) or leaf.filename is not None:
            continue
        if leaf.errno in _OF_STREAMS or _is_left(leaf):
            return leaf
    return None


def end_with(failure: OSError) -> int:
    """Say why the command ended, in one line; return the exit status."""
    if failure.errno == errno.EPIPE:
        return READER_LEFT
    if _is_left(failure):
        text = "the working directory does not exist any more: change to another one"
    else:
        why = failure.strerror or type(failure).__name__
        text = f"the output cannot be written: {why}: free some space, or redirect it"
    with suppress(OSError):
        print(f"glyphoxa: {text}", file=sys.stderr)  # noqa: T201 a command speaks
    return CANNOT_WRITE


def _is_left(failure: OSError) -> bool:
    """Return true if the working directory was deleted, and that is the failure."""
    if failure.errno != errno.ENOENT:
        return False
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
