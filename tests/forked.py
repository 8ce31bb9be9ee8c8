"""The command without its start: forked from a process that has imported it already.

A start of the command takes 0.7 s of processor, and all but a tenth of it are imports
that never differ. Here one process imports them, and each run is a fork of it: a
process with its own arguments, environment, folder, terminal and end, as any other.
What differs: modules are there before they are asked for, hashes have one seed for all
runs, the collector's objects are frozen already, and nothing is taken apart at the end.
So ``make test-all`` starts the first run of each verb in each file of tests anew
(`GLYPHOXA_STARTS=first`): what a verb imports, and how it ends, is the same for all of
the file. ``GLYPHOXA_STARTS=fresh make test-all`` starts every run, which takes some
minutes more.

The parent of all forks is this file, run as a program. It is asked over a socket, and
each run has a keeper of its own that waits for its end and tells it through a pipe.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import itertools
import json
import os
import pkgutil
import random
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_MOST: Final = 1 << 18  # bytes of arguments and environment
# What a run imports, at its start or later, and what libraries import when first used.
_ROOMS: Final = (
    "glyphoxa_trio.cli",
    "glyphoxa_trio.config",
    "glyphoxa_trio.mcp",
    "glyphoxa_trio.builtin.dice",
    "glyphoxa_trio.builtin.files",
    "glyphoxa_trio.builtin.memory",
    "glyphoxa_trio.builtin.rules",
    "glyphoxa_trio.memory.in_memory",
    "glyphoxa_trio.memory.sqlite",
)
_LATE: Final = (
    "anyio._backends._trio",
    "apsw.aio",
    "cattrs.preconf.json",
    "encodings.utf_8_sig",
    "glyphoxa_trio.providers.foreign",
    "glyphoxa_trio.runtime.wiring",
    "importlib.readers",
    "jellyfish",
    "jsonschema_rs",
    "platformdirs",
    "rapidfuzz.distance",
    "rapidfuzz.fuzz",
    "rapidfuzz.process",
    "rich._emoji_codes",
    "ruamel.yaml",
    "typer._adapters",
    "typer._click.decorators",
)
_STD: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}


_PARENTS: list[Parent] = []
_STARTED: set[tuple[str, ...]] = set()  # files and verbs of runs that started anew


class Fork:
    """One run, with what the tests use of `subprocess.Popen`."""

    def __init__(self, told: int) -> None:
        self._told = told
        self.returncode: int | None = None
        self.pid = int(self._line(None))

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = int(self._line(timeout))
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _line(self, timeout: float | None) -> str:
        if not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("glyphoxa", timeout or 0.0)
        line = b""
        while not line.endswith(b"\n"):  # both lines are short, and written at once
            piece = os.read(self._told, 1)
            assert piece, "the process that keeps the run has died"
            line += piece
        return line.decode()


class Parent:
    """The process that has imported the command."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=dict(environment),
            )

    def start(
        self,
        command: Sequence[str | Path],
        std: Sequence[int],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        login: bool = False,
    ) -> Fork:
        """A run with these as its stdin, stdout and stderr.

        Args:
          login: in a session of its own, with its stdin as the terminal.
        """
        told, tells = os.pipe()
        asked = {
            "command": [str(word) for word in command],
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "login": login,
        }
        try:
            socket.send_fds(self._ours, [json.dumps(asked).encode()], [*std, tells])
        finally:
            os.close(tells)
        return Fork(told)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        lines: str,
        timeout: float,
        env: Mapping[str, str],
        cwd: Path | None,
    ) -> subprocess.CompletedProcess[str]:
        """One run to its end, as `subprocess.run` does it with pipes."""
        (stdin, given), (out, stdout), (err, stderr) = (os.pipe() for _ in range(3))
        try:
            fork = self.start(command, (stdin, stdout, stderr), env=env, cwd=cwd)
        finally:
            for theirs in (stdin, stdout, stderr):
                os.close(theirs)
        heard = {out: b"", err: b""}
        rest = lines.encode()
        os.set_blocking(given, False)
        try:
            reading = {out, err}
            while reading or given >= 0:
                if given >= 0 and not rest:
                    os.close(given)
                    given = -1
                    continue
                ready, writable, _ = select.select(
                    reading, [given] if given >= 0 else [], [], timeout
                )
                if not (ready or writable):
                    raise subprocess.TimeoutExpired([*map(str, command)], timeout)
                for end in ready:
                    piece = os.read(end, 1 << 16)
                    heard[end] += piece
                    if not piece:
                        reading.discard(end)
                if writable:
                    try:
                        rest = rest[os.write(given, rest) :]
                    except BrokenPipeError:
                        rest = b""
            status = fork.wait(timeout)
        except BaseException:
            fork.kill()
            raise
        finally:
            for ours in (out, err, *([given] if given >= 0 else [])):
                os.close(ours)
        said, complained = (heard[end].decode() for end in (out, err))
        return subprocess.CompletedProcess(
            [*map(str, command)], status, said, complained
        )

    def close(self) -> None:
        self._ours.close()
        self._process.wait()


def parent(
    environment: Mapping[str, str], words: Sequence[str | Path]
) -> Parent | None:
    """The one of this process, started when it is first needed. None for a run that is
    to be started anew (`GLYPHOXA_STARTS`), and where it is not safe to fork.

    Args:
      words: of the command line, after the command.
    """
    starts = os.environ.get("GLYPHOXA_STARTS")
    if starts == "fresh" or sys.platform != "linux":
        return None
    if starts == "first":
        file = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
        run = (file, *_verb(words))
        if run not in _STARTED:
            _STARTED.add(run)
            return None
    if not _PARENTS:
        _PARENTS.append(Parent(environment))
    return _PARENTS[0]


def _verb(words: Sequence[str | Path]) -> tuple[str, ...]:
    """The words before the first that is no verb, such as ``mcp`` and ``test``; two at
    most, so that the name of a tool may be taken for one, and costs a start more."""
    said = itertools.takewhile(re.compile(r"(?!-)[a-z-]+").fullmatch, map(str, words))
    return tuple(itertools.islice(said, 2))


def close() -> None:
    """End it, and wait for it: what its forks have used is counted then."""
    while _PARENTS:
        _PARENTS.pop().close()


# ------------------------------------------------------------------ the other side


def _import() -> None:
    for room in _ROOMS:
        package = import_module(room)
        for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
            if module.name != "__main__":
                import_module(f"{room}.{module.name}")
    for name in _LATE:
        with suppress(ImportError):  # how it is called there is not for us to say
            import_module(name)


def _serve(control: socket.socket) -> None:
    """Fork for each request; returns in the fork, which then is the command."""
    while True:
        message, fds, _, _ = socket.recv_fds(control, _MOST, 4)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            _leave()
        if not os.fork():
            control.close()
            _keep(fds.pop())
            _become(json.loads(message), fds)
            return
        for fd in fds:
            os.close(fd)


def _leave() -> None:
    """Wait for the keepers: what they have used is counted as ours."""
    with suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)


def _keep(tells: int) -> None:
    """Wait for the run in its place and tell; returns in the run."""
    pid = os.fork()
    if not pid:
        os.close(tells)
        return
    os.closerange(3, tells)  # its pipes end with it
    os.closerange(tells + 1, tells + 64)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are for the run
    os.write(tells, f"{pid}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        os.write(tells, f"{status}\n".encode())
    os._exit(0)


def _become(asked: dict[str, Any], std: Sequence[int]) -> None:
    if asked["login"]:
        os.setsid()
        fcntl.ioctl(std[0], termios.TIOCSCTTY, 0)
    for number, fd in enumerate(std):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv = asked["command"]
    for number, (name, mode) in enumerate(_STD.items()):
        was = getattr(sys, name)
        now: Any = open(  # noqa: SIM115
            number, mode, encoding=was.encoding, errors=was.errors
        )
        now.reconfigure(line_buffering=name == "stderr" or now.isatty())
        setattr(sys, name, now)
        setattr(sys, f"__{name}__", now)
    # The forks would all throw the same dice.
    random.seed()
    import_module("trio._core._run")._r.seed()


def _exit(status: int) -> None:
    """What the interpreter does at its end, but for taking everything apart: that would
    copy the whole memory of the parent."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(status)  # it says what failed, and has a status of its own
    os._exit(status)


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)  # as for the command itself
    from glyphoxa_trio import cli

    _import()
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        cli.main()
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _exit(end.code or 0)
    _exit(0)
