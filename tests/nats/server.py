"""A real nats-server for tests: Debian's, on a free port of this machine.

With ``GLYPHOXA_NATS=required``, as in CI, tests fail if it is not installed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

VARIABLE = "GLYPHOXA_NATS"
PROGRAM = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
MISSING = "nats-server is not installed (apt install nats-server)"
_PATIENCE = 30.0
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@attrs.define(eq=False)
class RealServer:
    """A server with these options, which keeps its port when it is started again."""

    options: Sequence[str] = ()
    port: int = attrs.field(factory=lambda: free_port())
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            [PROGRAM, "-a", "127.0.0.1", "-p", str(self.port), *self.options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
        )
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                with socket.create_connection(
                    ("127.0.0.1", self.port), _PATIENCE
                ) as one:
                    if one.recv(4) == b"INFO":
                        return
            except OSError:
                pass
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("nats-server does not start")
            time.sleep(0.01)

    def signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(which)

    def freeze(self) -> None:
        """Stop it, as a cut network would, and wait until it stands still."""
        self.signal(signal.SIGSTOP)
        assert self._process is not None
        threads = Path(f"/proc/{self._process.pid}/task")
        while any(
            (thread / "stat").read_text().rpartition(") ")[2][0] != "T"
            for thread in threads.iterdir()
        ):
            time.sleep(0.001)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _end_with_parent() -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


@contextmanager
def a_server(*options: str, config: Path | None = None) -> Generator[RealServer]:
    """Run a server, or skip the test without the program."""
    if PROGRAM is None:
        if os.environ.get(VARIABLE) == "required":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    server = RealServer((*options, *(("-c", str(config)) if config else ())))
    server.start()
    try:
        yield server
    finally:
        server.kill()
