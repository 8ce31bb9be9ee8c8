"""What the tests of the command share: runs of it, a terminal, servers that tell.

Every run is a process of its own, forked from one that has imported the command
(tests/forked.py). Nothing here waits for a time to pass: it waits
for a text on the screen, a line of a server, an end; the limits only keep a
failure from taking for ever.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from ..forked import Fork, parent
from .emulation import Emulation

COMMAND = Path(sys.executable).with_name("glyphoxa")
SEER = Path(__file__).parent / "servers" / "seer.py"
LIMIT = 60.0  # seconds; no wait of a test that passes comes near it
ENDS = 2.0  # seconds from being asked to leave to the end …
RESISTS = 5.0  # … and with servers that resist

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
    """One run to its end, ``lines`` piped in."""
    if forks := parent(environment(), words):
        return forks.run(
            [COMMAND, *words],
            lines=lines,
            timeout=LIMIT,
            env=environment(**(env or {})),
            cwd=cwd,
        )
    return subprocess.run(
        [COMMAND, *words],
        input=lines,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(**(env or {})),
        cwd=cwd,
        check=False,
    )


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

    process: subprocess.Popen[bytes] | Fork
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

    def ends(self, *, within: float = LIMIT) -> int:
        """Wait for its end; the exit status."""
        status = self.process.wait(within)
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
) -> subprocess.Popen[bytes] | Fork:
    std = (screen, screen, screen)
    if forks := parent(environment(), command[1:]):
        return forks.start(command, std, env=env, login=True)
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


def is_dead(pid: int | str, *, within: float = 1.0) -> bool:
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
