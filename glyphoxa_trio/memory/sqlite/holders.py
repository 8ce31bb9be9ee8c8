"""The processes that have a memory file open, each known by a lock on a file.

A holder's file is `<id>` in the folder `<memory file>.holders`. The operating system
gives the lock up when the process ends, in whatever way, so a holder whose file is not
locked, or not there, is dead. Everything here blocks on the disk for a moment.
"""

from __future__ import annotations

import fcntl
import os
import platform
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

import attrs

from glyphoxa_trio.memory.entries import Holder
from glyphoxa_trio.storage.errors import StorageError

_SUFFIX: Final = ".holders"


@attrs.frozen(eq=False)
class HolderLock:
    """The proof that a holder is alive."""

    holder: Holder
    _file: Path
    _descriptor: int

    def release(self) -> None:
        """End being a holder."""
        with suppress(OSError):
            self._file.unlink()
        os.close(self._descriptor)
        with suppress(OSError):  # others have it open
            self._file.parent.rmdir()


def hold(path: Path) -> HolderLock:
    """Become a holder of a memory file, and remove the files of dead ones.

    Raises:
      StorageError: the file of the lock cannot be made.
    """
    where = f"process {os.getpid()} on {platform.node() or 'this machine'}"
    holder = Holder(id=token_hex(8), where=where)
    file = _file_of(path, holder.id)
    try:
        descriptor = _locked(file)
        for other in file.parent.iterdir():
            _is_dead(other)
    except OSError as error:
        raise StorageError(f"{file}: {error.strerror or error}") from None
    return HolderLock(holder, file, descriptor)


def is_alive(path: Path, holder: str) -> bool:
    """Return True if a holder of the memory file lives."""
    return not _is_dead(_file_of(path, holder))


def _file_of(path: Path, holder: str) -> Path:
    # Whoever comes to the file by a link has to find the same holders.
    whole = path.resolve()
    return whole.with_name(whole.name + _SUFFIX) / holder


def _locked(file: Path) -> int:
    while True:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(file, flags, 0o600)
        except FileNotFoundError:
            continue  # the last other holder has just removed the folder
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another holder may have taken it for dead, and removed it, before that.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), file.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_dead(file: Path) -> bool:
    """Return True if the file's holder is dead; its file is removed then."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # the file of another user
    try:
        # Shared, so that two processes which look at once do not take each other for
        # the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        file.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
