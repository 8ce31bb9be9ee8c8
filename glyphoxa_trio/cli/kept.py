"""``--session FILE``: a conversation that goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Self

import attrs

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.runtime import Runtime, Session, SessionSnapshot, SnapshotRefused
from glyphoxa_trio.secret import Secret


class NotKept(GlyphoxaError):
    """The file cannot be read as one, or cannot be written."""


@attrs.define(eq=False)
class KeptSession:
    """A session, and the file that it is kept in; None is the default session, which is
    not kept."""

    path: Path | None
    _key: Secret | None
    _before: SessionSnapshot | None = None
    _session: Session = attrs.field(init=False)

    @classmethod
    async def read(cls, path: Path | None, config: Config) -> Self:
        """Return the conversation that was kept in the file, if there is one.

        Raises:
          NotKept: it cannot be read, is no such file, or one of another key.
        """
        key = config.sessions.key
        if path is None:
            return cls(None, key)
        try:
            data = await trio.to_thread.run_sync(_read, path)
        except OSError as error:
            raise NotKept(f"{path}: {error.strerror}") from error
        if data is None:
            return cls(path, key)
        try:
            return cls(path, key, SessionSnapshot.from_bytes(data, key))
        except SnapshotRefused as error:
            raise NotKept(f"{path}: {error}") from error

    def begin(self, runtime: Runtime) -> Session:
        """The session, which goes on where it was."""
        before = self._before
        if self.path is None:
            self._session = runtime.session()
        elif before is None:
            self._session = runtime.session(self.path.stem)
        else:
            self._session = runtime.session(
                before.id, tenant=before.tenant or None, restore=before
            )
        return self._session

    async def keep(self, complain: Callable[[str], None]) -> None:
        """Write it as it is now. The file is another one at once or not at all."""
        if self.path is None:
            return
        data = (await self._session.snapshot()).to_bytes(self._key)
        try:
            await trio.to_thread.run_sync(
                _write, self.path, data, abandon_on_cancel=True
            )
        except OSError as error:
            complain(f"the session is not kept: {self.path}: {error.strerror}")


def _read(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        return path.read_bytes()
    if not path.parent.is_dir():  # better now than after the conversation
        raise FileNotFoundError(None, "there is no such folder")
    return None


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{token_hex(8)}.tmp")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
