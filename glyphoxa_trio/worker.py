"""The process behind `workers`: bytes in, one function, bytes out, until it is idle.

Run as a program; its arguments are the function as ``module:name``, how many bytes
of memory it may have, and after how many idle seconds it ends. A task on stdin is
its length in eight bytes and itself; an answer on stdout the same, behind a byte
that says whether the function returned. It imports nothing before it is limited.
"""

from __future__ import annotations

import fcntl
import importlib
import logging
import os
import resource
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

RETURNED: Final = b"r"
RAISED: Final = b"e"
LENGTH: Final = 8  # bytes

_LONGEST: Final = 300  # characters of what an exception says
_CHUNK: Final = 2**20


def main() -> None:
    target, memory, idle = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What the function prints goes nowhere, and what it starts reads no tasks of ours.
    tasks, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    function: Callable[[bytes], bytes] | None = None
    while _comes(tasks, idle):
        task = _read(tasks, int.from_bytes(_read(tasks, LENGTH)))
        kind = RETURNED
        try:
            with _orphans_end(tasks):
                function = function or _found(target)
                answer = bytes(function(task))
        except BaseException as error:
            kind, answer = RAISED, _said(error).encode(errors="replace")
        del task
        _write(answers, kind + len(answer).to_bytes(LENGTH))
        _write(answers, answer)
        del answer


def _found(target: str) -> Callable[[bytes], bytes]:
    logging.disable()  # nobody reads it
    module, _, name = target.partition(":")
    found: Callable[[bytes], bytes] = getattr(importlib.import_module(module), name)
    return found


def _said(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        return f"{kind}: {str(error)[:_LONGEST]}"
    except BaseException:  # an exception of foreign code need not have a text
        return kind


@contextmanager
def _orphans_end(tasks: int) -> Iterator[None]:
    """While in this block, the end of whoever started us is the end of this process,
    whatever it does: the kernel says so by a signal that nobody here handles."""
    flags = fcntl.fcntl(tasks, fcntl.F_GETFL)
    fcntl.fcntl(tasks, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(tasks, fcntl.F_SETFL, flags | os.O_ASYNC)
    try:
        if _comes(tasks, 0):  # nothing is due but the end
            os._exit(0)
        yield
    finally:
        fcntl.fcntl(tasks, fcntl.F_SETFL, flags)


def _comes(tasks: int, seconds: float) -> bool:
    """Whether a task, or the end of all tasks, comes within so many seconds."""
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
