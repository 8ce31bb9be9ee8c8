"""Servers that do not end, end too early, or leave a child process behind."""

from __future__ import annotations

import json
import os
import signal

from .family import behaviour, choices
from .wire import Message, answer, raw, reply, send, serve, sleep_for_ever, text


@behaviour
def ignores_goodbye() -> None:
    """Serves, and ignores the end of its stdin and SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    serve()
    sleep_for_ever()


@behaviour
@choices("when", "start", "call", "listed")
def stops_itself(*, when: str = "call") -> None:
    """Is stopped by SIGSTOP: before it answers anything, or in the middle of a call."""
    if when == "start":
        _signal(signal.SIGSTOP)
    if when == "listed":

        def stop_after(message: Message) -> None:
            reply(message)
            _signal(signal.SIGSTOP)

        serve({"tools/list": stop_after})
    else:
        serve(bad=lambda _: _signal(signal.SIGSTOP))


@behaviour
@choices("where", "group", "session", "orphan")
def leaves_a_child(*, where: str = "group") -> None:
    """With each call of ``bad`` it forks a child that outlives it, and answers its pid.

    The child is in the server's process group; in a session of its own; or there and
    without a parent, as daemons are. It holds the server's stdout and stderr open.
    """

    def fork(message: Message) -> None:
        pid = _daemon() if where == "orphan" else _child(escapes=where == "session")
        send({"id": message["id"], "result": text(str(pid))})

    serve(bad=fork)


def _child(*, escapes: bool) -> int:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        if escapes:
            os.setsid()
        _outlive(theirs)
    os.close(theirs)
    os.read(ours, 1)  # the child has reached its place
    os.close(ours)
    return pid


def _daemon() -> int:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
        os.write(theirs, json.dumps(os.getpid()).encode())
        _outlive(theirs)
    os.close(theirs)
    os.waitpid(pid, 0)
    grandchild = int(os.read(ours, 32))
    os.close(ours)
    return grandchild


def _outlive(ready: int) -> None:
    """Be a child that only SIGKILL ends."""
    os.close(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.write(ready, b"\n")
    os.close(ready)
    sleep_for_ever()


@behaviour
def exits_after(*, calls: int = 3, status: int = 0) -> None:
    """Exits after it has answered some calls."""
    left = calls

    def count(message: Message) -> None:
        nonlocal left
        reply(message)
        if message.get("method") == "tools/call":
            left -= 1
            if left <= 0:
                os._exit(status)

    serve(otherwise=count, bad=count)


@behaviour
@choices("by", "exit", "KILL", "SEGV")
def crashes(*, by: str = "KILL") -> None:
    """Dies of a call of ``bad``, without an answer."""

    def crash(_: Message) -> None:
        if by == "exit":
            raise RuntimeError("a bug in the server")
        _signal(signal.Signals[f"SIG{by}"])

    serve(bad=crash)


@behaviour
@choices("how", "exits", "closes", "waits")
def stops_mid_message(*, how: str = "exits") -> None:
    """Writes half an answer to ``bad``, and exits, closes stdout, or waits."""

    def half(message: Message) -> None:
        line = json.dumps({"jsonrpc": "2.0", **(answer(message) or {})}).encode()
        raw(line[: len(line) // 2])
        if how == "exits":
            os._exit(0)
        if how == "closes":
            os.close(1)
        sleep_for_ever()

    serve(bad=half)


def _signal(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
