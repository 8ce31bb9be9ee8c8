"""Servers that misuse their pipes: silent, deaf, or never quiet."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from .family import behaviour, choices
from .wire import (
    STDERR,
    Message,
    answer,
    meanwhile,
    raw,
    reply,
    say,
    serve,
    serve_between,
    sleep_for_ever,
)

GARBAGE = b'warming up ...\n{"neither": "fish"}\n\n[1, 2]\nnull\n\x1b[2J{]\n'
# Not UTF-8, with zeros, and a line end in the middle.
BINARY = bytes(range(256)) * 16 + b"\n\x00\xff\xfe\n"
_BLOCK = 2**20
_WHERE = ("before", "between", "instead")


@behaviour
def never_reads() -> None:
    """Starts, and never reads a byte."""
    sleep_for_ever()


@behaviour
def stops_reading() -> None:
    """Serves until its tools are listed, and then never reads again."""

    def last(message: Message) -> None:
        reply(message)
        sleep_for_ever()

    serve({"tools/list": last})


@behaviour
@choices("where", *_WHERE)
def prints_garbage(*, where: str = "between") -> None:
    """Prints lines that are no messages on stdout."""
    _noisy(lambda: raw(GARBAGE), where)


@behaviour
@choices("where", *_WHERE)
def prints_binary(*, where: str = "between") -> None:
    """Prints bytes that are no text on stdout."""
    _noisy(lambda: raw(BINARY), where)


@behaviour
@choices("where", *_WHERE)
def prints_a_long_line(*, where: str = "instead", mb: int = 50) -> None:
    """Prints a line of many megabytes on stdout."""

    def print_it() -> None:
        for _ in range(mb):
            raw(b"x" * _BLOCK)
        raw(b"\n")

    _noisy(print_it, where)


@behaviour
def never_ends_a_line() -> None:
    """Prints one line on stdout that goes on for ever."""
    while True:
        raw(b"x" * _BLOCK)


@behaviour
@choices("what", "lines", "empty", "messages")
def floods_stdout(*, what: str = "lines") -> None:
    """Serves, and prints on stdout as fast as it can, without end."""
    notice = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
    notice["params"] = {"level": "info", "data": "still here"}
    line = {
        "lines": b"still here, still here, still here\n",
        "empty": b"\n",
        "messages": json.dumps(notice).encode() + b"\n",
    }[what]
    block = line * (2**16 // len(line))

    serve_between(lambda: raw(block))


@behaviour
def floods_stderr() -> None:
    """Serves, and prints on stderr as fast as it can, without end."""
    block = b"all is well, all is well, all is well\n" * 1700

    def flood() -> None:
        while True:
            raw(block, to=STDERR)

    meanwhile(flood)
    serve()


@behaviour
def drips(*, ms: int = 2) -> None:
    """Answers byte by byte, with a pause after each."""

    def drip(message: Message) -> None:
        for byte in json.dumps({"jsonrpc": "2.0", **(answer(message) or {})}) + "\n":
            raw(byte.encode())
            time.sleep(ms / 1000)

    serve(bad=drip)


@behaviour
def closes_its_stdin() -> None:
    """Closes its stdin at its first call of ``bad``, which it still answers."""

    def deafen(message: Message) -> None:
        os.close(0)
        say("deaf")
        reply(message)
        sleep_for_ever()

    serve(bad=deafen)


@behaviour
def closes_its_stdout() -> None:
    """Reads everything, and closes its stdout when ``bad`` is called."""

    def fall_silent(_: Message) -> None:
        os.close(1)
        sleep_for_ever()

    serve(bad=fall_silent)


def _noisy(noise: Callable[[], None], where: str) -> None:
    if where == "before":
        noise()
        serve()
    elif where == "between":

        def after_noise(message: Message) -> None:
            noise()
            reply(message)

        serve(otherwise=after_noise)
    else:
        serve(bad=lambda _: noise())
