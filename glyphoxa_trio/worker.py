"""The program behind `workers`: it reads tasks, calls one function, writes answers.

Its arguments are the function as ``module:name``, its memory limit in bytes, the idle
seconds after which it ends, and the number of a pipe whose other end its parent holds
and never writes to. A task on stdin is its length in eight bytes, then its
bytes. An answer on stdout is the same, after one byte that says whether the function
returned or raised. It imports nothing before the limit is set.
"""

from __future__ import annotations

import fcntl
import importlib
import logging
import os
import resource
import select
import sys
from collections.abc import Callable
from typing import Final

RETURNED: Final = b"r"
RAISED: Final = b"e"
LENGTH: Final = 8  # bytes

_LONGEST: Final = 300  # characters of an exception's text
_CHUNK: Final = 2**20


def main() -> None:
    """Set the limits, then answer tasks until the input ends or is idle."""
    target, memory, idle = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The function's output is discarded, and programs it starts cannot read tasks.
    tasks, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _end_with_the_holder_of(int(sys.argv[4]))
    function: Callable[[bytes], bytes] | None = None
    while _comes(tasks, idle):
        task = _read(tasks, int.from_bytes(_read(tasks, LENGTH)))
        kind = RETURNED
        try:
            function = function or _found(target)
            answer = bytes(function(task))
        except BaseException as error:
            kind, answer = RAISED, _said(error).encode(errors="replace")
        del task
        _write(answers, kind + len(answer).to_bytes(LENGTH))
        _write(answers, answer)
        del answer


def _found(target: str) -> Callable[[bytes], bytes]:
    logging.disable()  # the output is discarded
    module, _, name = target.partition(":")
    found: Callable[[bytes], bytes] = getattr(importlib.import_module(module), name)
    return found


def _said(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        return f"{kind}: {str(error)[:_LONGEST]}"
    except BaseException:  # an exception of foreign code need not have a text
        return kind


def _end_with_the_holder_of(pipe: int) -> None:
    """End this process when the other end of this pipe is closed, whatever the function
    does: the kernel sends a signal then, for which there is no handler.

    The pipe of the tasks cannot be used for that. What is written to it sends the same
    signal, and the kernel may send it so late that the task has already been read.
    """
    os.set_inheritable(pipe, False)
    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_ASYNC)
    if _comes(pipe, 0):  # it was closed before
        os._exit(0)


def _comes(tasks: int, seconds: float) -> bool:
    """Return True if a task, or the end of input, comes within so many seconds."""
    return bool(select.select([tasks], [], [], seconds)[0])


def _read(tasks: int, length: int) -> bytes:
    task = bytearray()
    while len(task) < length:
        piece = os.read(tasks, min(length - len(task), _CHUNK))
        if not piece:
            sys.exit()
        task += piece
    return bytes(task)


def _write(answers: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(answers, rest) :]


if __name__ == "__main__":
    main()
