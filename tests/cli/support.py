"""What the tests of the command share: runs of it, a terminal, servers that tell.

`run` runs the command in this process, `terminal` in another one. Nothing here waits
for a time to pass: it waits for a text on the screen, a line of a server, an end; the
limits only keep a failure from taking for ever.
"""

from __future__ import annotations

import fcntl
import gc
import json
import logging
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Generator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import attrs
import outcome
import structlog

import trio

from glyphoxa_trio import cli

from .emulation import Emulation

COMMAND = Path(sys.executable).with_name("glyphoxa")
SEER = Path(__file__).parent / "servers" / "seer.py"
T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LIMIT = 60.0  # seconds; no wait of a test that passes comes near it

# So long that no ceiling ends what a test wants to end itself.
PATIENT: dict[str, Any] = {
    tier: {"ceiling_ms": 25_000} for tier in ("fast", "standard", "deep")
}


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would change which model speaks or how wide a line is."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GLYPHOXA_", "OPENAI_", "ANTHROPIC_"))
        and name not in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR")
    }
    return ours | {"TERM": "xterm", **more}


def run(
    *words: str | Path,
    lines: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, with ``lines`` piped in.

    Its three streams are files, not only objects of Python: what it starts has them,
    too. What it changes of this process is put back. In a thread, beside a server of
    the test, the command is a process: only the main thread hears of signals.
    """
    command = [str(COMMAND), *map(str, words)]
    if threading.current_thread() is not threading.main_thread():
        return subprocess.run(
            command,
            input=lines,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=environment(**(env or {})),
            cwd=cwd,
            check=False,
        )
    with ExitStack() as stack:
        ins, out, err = (
            stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)
        )
        ins.write(lines.encode())
        ins.seek(0)
        stack.enter_context(_as_a_process(command, environment(**(env or {})), cwd))
        stack.enter_context(_streams(ins.fileno(), out.fileno(), err.fileno()))
        try:
            _main(command[1:])
        except SystemExit as end:
            code = end.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        if isinstance(code, str):
            os.write(2, f"{code}\n".encode())
        status = 1 if isinstance(code, str) else code or 0
        said = [
            os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()
            for file in (out, err)
        ]
    return subprocess.CompletedProcess(command, int(status), *said)


def _main(words: list[str]) -> NoReturn:
    sys.exit(cli._run(words))


@contextmanager
def _as_a_process(
    command: list[str], env: Mapping[str, str], cwd: Path | None
) -> Generator[None]:
    """Give this process the arguments, the environment and the folder of another."""
    before = (sys.argv, dict(os.environ), Path.cwd(), gc.get_threshold())
    temporary = tempfile.tempdir
    signals = {number: signal.getsignal(number) for number in _SIGNALS}
    handlers = list(logging.root.handlers)
    sys.argv = command
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd or before[2])
    tempfile.tempdir = None  # the environment says where it is
    try:
        yield
    finally:
        sys.argv = before[0]
        os.environ.clear()
        os.environ.update(before[1])
        os.chdir(before[2])
        tempfile.tempdir = temporary
        gc.set_threshold(*before[3])
        for number, handler in signals.items():
            signal.signal(number, handler)
        logging.root.handlers[:] = handlers
        structlog.reset_defaults()


@contextmanager
def _streams(*files: int) -> Generator[None]:
    """Make these files the standard input, output and error."""
    names = ("stdin", "stdout", "stderr")
    kept = [os.dup(number) for number in range(3)]
    objects = [(getattr(sys, name), getattr(sys, f"__{name}__")) for name in names]
    for stream, _ in objects[1:]:
        stream.flush()
    try:
        for number, (name, file) in enumerate(zip(names, files, strict=True)):
            os.dup2(file, number)
            made = open(  # noqa: SIM115
                number,
                "w" if number else "r",
                encoding="utf-8",
                errors="backslashreplace" if number == 2 else "strict",
                closefd=False,
            )
            made.reconfigure(line_buffering=number == 2)
            setattr(sys, name, made)
            setattr(sys, f"__{name}__", made)
        yield
    finally:
        for number, old in enumerate(kept):
            os.dup2(old, number)
            os.close(old)
        for name, (stream, original) in zip(names, objects, strict=True):
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", original)


def written(folder: Path, **config: Any) -> Path:
    """A configuration as a file; one NPC, Bo, with dice, unless it says who."""
    config.setdefault("npcs", [{"name": "Bo", "tools": ["dice"]}])
    path = folder / "table.json"
    path.write_text(json.dumps(config))
    return path


def seer(fifo: Path | str = "-", *habits: str, **more: Any) -> dict[str, Any]:
    """The entry of a server ``servers/seer.py``; its name is its first habit."""
    return {
        "name": habits[0] if habits else "seer",
        "command": ["python", str(SEER), str(fifo), *habits],
        "restart": {"backoff_ms": 10, "max_restarts": 1},
        **more,
    }


@contextmanager
def beside(opening: AbstractAsyncContextManager[T]) -> Generator[T]:
    """Open a server in a thread, so that `run` can use it in this one."""
    begun: queue.SimpleQueue[outcome.Outcome[T]] = queue.SimpleQueue()
    end = threading.Event()

    async def serve() -> None:
        async with opening as opened:
            begun.put(outcome.Value(opened))
            await trio.to_thread.run_sync(end.wait)

    def work() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            begun.put(outcome.Error(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield begun.get(timeout=LIMIT).unwrap()
    finally:
        end.set()
        thread.join(LIMIT)
    if not begun.empty():  # it failed later
        begun.get().unwrap()


@attrs.define(eq=False)
class Reports:
    """What servers tell, line by line, through a named pipe."""

    path: Path
    _pipe: int
    _rest: str = attrs.field(default="", init=False)

    def next(self) -> str:
        """The next line."""
        while "\n" not in self._rest:
            self._rest += _read(self._pipe, "a line of a server")
        line, _, self._rest = self._rest.partition("\n")
        return line

    def expect(self, beginning: str) -> str:
        """Read up to a line that begins so; the rest of that line."""
        while not (line := self.next()).startswith(beginning):
            pass
        return line.removeprefix(beginning).strip()

    def silent(self) -> bool:
        """Whether nobody has told anything that was not read yet."""
        return not self._rest and not select.select([self._pipe], [], [], 0)[0]


@contextmanager
def reports(folder: Path) -> Generator[Reports]:
    path = folder / "told"
    os.mkfifo(path)
    # Open for both, so that neither side waits for the other or sees an end.
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield Reports(path, pipe)
    finally:
        os.close(pipe)


@attrs.define(eq=False)
class Terminal:
    """The command on a terminal: keys in, a screen out."""

    process: subprocess.Popen[bytes]
    _keys: int
    raw: str = attrs.field(default="", init=False)  # with all that steers
    _shown: Emulation = attrs.field(factory=Emulation, init=False)
    _seen: tuple[int, int] = attrs.field(default=(0, 0), init=False)

    @property
    def screen(self) -> str:
        """All that is on the screen, and what has scrolled away."""
        return self._shown.text

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    def is_edited(self) -> bool:
        """Whether the terminal leaves each key to the program."""
        return not termios.tcgetattr(self._keys)[3] & termios.ICANON

    def press_ctrl_c(self) -> None:
        self.type("\x03")

    def expect(self, text: str) -> None:
        """Read the screen until ``text`` is on it, behind what was expected before.

        A prompt that is erased and drawn again is new: it can be expected again.
        """
        while (at := self.screen.find(text, self._shown.offset(self._seen))) < 0:
            more = self._more(f"{text!r} on the screen: {self.screen}")
            assert more, f"it ended without {text!r}: {self.screen}"
        self._seen = self._shown.place(at + len(text))

    def ends(self) -> int:
        """Read the screen up to the end of the process; the exit status."""
        ended = os.pidfd_open(self.process.pid)
        try:
            # It waits for whoever reads its screen, if it writes more than fits in.
            while self._keys >= 0:
                ready, _, _ = select.select([ended, self._keys], [], [], LIMIT)
                assert ready, f"waited in vain for its end: {self.screen}"
                if ended in ready or not self._more("the end"):
                    break
        finally:
            os.close(ended)
        status = self.process.wait(LIMIT)
        while self._keys >= 0 and self._more("the end of the screen"):
            pass
        return status

    def hang_up(self) -> None:
        """Close the terminal, as its window does."""
        os.close(self._keys)
        self._keys = -1

    def _more(self, what: str) -> bool:
        piece = _read(self._keys, what)
        self.raw += piece
        self._shown.changed = None
        self._shown.feed(piece)
        if self._shown.changed is not None:  # what was seen there is there no more
            self._seen = min(self._seen, self._shown.changed)
        return bool(piece)


# Makes its stdin the terminal that sends the signals, then becomes the command.
_LOGIN = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def _logged_in(
    command: list[str | Path], screen: int, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _LOGIN, *command],
        stdin=screen,
        stdout=screen,
        stderr=screen,
        start_new_session=True,
        env=env,
    )


@contextmanager
def terminal(
    *words: str | Path, env: Mapping[str, str] | None = None
) -> Generator[Terminal]:
    keys, screen = os.openpty()
    termios.tcsetwinsize(screen, (50, 200))
    fcntl.fcntl(keys, fcntl.F_SETFL, os.O_NONBLOCK)
    process = _logged_in([COMMAND, *words], screen, environment(**(env or {})))
    os.close(screen)
    opened = Terminal(process, keys)
    try:
        yield opened
    finally:
        if process.poll() is None:  # a test has failed: leave nothing behind
            process.send_signal(signal.SIGKILL)
            process.wait()
        if opened._keys >= 0:
            os.close(opened._keys)


def is_dead(pid: int | str, *, within: float = 10.0) -> bool:
    """Whether a process has ended, buried or not; a killed one may take a moment."""
    try:
        handle = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within)[0])
    finally:
        os.close(handle)


def _read(source: int, what: str) -> str:
    ready, _, _ = select.select([source], [], [], LIMIT)
    assert ready, f"waited in vain for {what}"
    try:
        return os.read(source, 65536).decode(errors="replace")
    except OSError:  # a terminal that nobody writes to any more
        return ""
