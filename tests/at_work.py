"""Functions that `test_workers` runs in worker processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time


def echo(task: bytes) -> bytes:
    return task


def whose(_: bytes) -> bytes:
    return str(os.getpid()).encode()


def chatty(task: bytes) -> bytes:
    sys.stdout.write("a line that is no answer")
    sys.stdout.flush()
    os.write(1, b"nor is this")
    sys.stderr.write("x" * 200_000)
    subprocess.run(["cat"], check=True)  # its stdin is not ours
    return task


def seen(_: bytes) -> bytes:
    return "\n".join(sorted(os.environ)).encode()


def fall(how: bytes) -> bytes:
    match how:
        case b"raise":
            raise ValueError("no such thing")
        case b"mute":
            raise _Mute
        case b"leave":
            sys.exit(3)
        case b"exit":
            os._exit(3)
        case b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"memory":
            return bytes(2**40)
        case b"large":
            return bytes(2**21)
    return str(os.getpid()).encode()


class _Mute(Exception):  # it says nothing
    def __str__(self) -> str:
        raise RuntimeError


def await_end(task: bytes) -> bytes:
    """Say in a folder that it runs, and return when it says that it may end."""
    with open(f"{os.environ['FOLDER']}/runs", "w"):
        pass
    while not os.path.exists(f"{os.environ['FOLDER']}/ends"):
        time.sleep(0.01)
    return task


def hold(where: bytes) -> bytes:
    """Say who holds, and hold the interpreter in C, for ever."""
    with open(where, "w") as file:
        file.write(str(os.getpid()))
    re.fullmatch(r"(a|a)*b", "a" * 40)
    time.sleep(1000)
    return b""
