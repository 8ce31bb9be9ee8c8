"""A file of words in the place of another one, whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from .problems import ConfigError

_PATIENCE: Final = 5.0  # seconds for another edit to end; it takes milliseconds
_PAUSE: Final = 0.05
_BOM: Final = "\ufeff"


def edit_file(path: Path, change: Callable[[str | None], str]) -> None:
    """Replace a text file by ``change`` of its text, which is None for no file.

    Whole or not at all: the old file or the new one is there whenever the machine
    goes down. Links stay links, permissions and owner stay. Blocks; waits 5 s for
    another edit in the same folder.

    Raises:
      ConfigError: if it cannot be done; the file is as it was.
    """
    try:
        target = path.resolve()  # a link stays one
        with _alone_in(target.parent, path.name):
            before = _text_of(target)
            if before is not None and not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            after = _changed(path.name, before, change)
            _replace(target, after, expected=before, name=path.name)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        why = getattr(error, "strerror", None) or "its links lead in a circle"
        raise ConfigError(f"cannot be written: {why} @ {path.name}") from error


def _changed(
    name: str, before: bytes | None, change: Callable[[str | None], str]
) -> bytes:
    try:
        text = None if before is None else before.decode()
        mark = _BOM if text is not None and text.startswith(_BOM) else ""
        after = change(None if text is None else text.removeprefix(mark))
        return (mark + after).encode()
    except RecursionError:
        raise ConfigError(f"is nested too deeply @ {name}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"is not UTF-8 text @ {name}") from None
    except UnicodeEncodeError:
        raise ConfigError(f"a word of the entry is not UTF-8 @ {name}") from None
    except ValueError:
        raise ConfigError(f"the entry holds a number JSON has not @ {name}") from None


def _text_of(target: Path) -> bytes | None:
    if not target.exists():
        return None
    # A device must not be replaced, and reading a pipe has no end.
    if not (target.is_file() or target.is_dir()):
        raise OSError(errno.EINVAL, "it is no file")
    return target.read_bytes()


@contextmanager
def _alone_in(folder: Path, name: str) -> Iterator[None]:
    """Keep other edits of this program out of a folder meanwhile.

    Raises:
      ConfigError: if another one goes on for longer than it can take.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(round(_PATIENCE / _PAUSE)):
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE)
            except OSError:
                break  # a file system without locks; what was read is compared yet
        else:
            raise ConfigError(f"another program is editing it @ {name}")
        yield
    finally:
        os.close(held)


def _replace(target: Path, data: bytes, *, expected: bytes | None, name: str) -> None:
    """Write beside the file, make sure it is on the disk, and put it in its place."""
    beside = target.with_name(f".{target.name}.{token_hex(8)}.tmp")
    mode = 0o666 if expected is None else 0o600  # for a new file the umask decides
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(file, "wb") as out:
            if expected is not None:
                _as_owned(out.fileno(), target)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        now = _text_of(target)
        if now != expected:
            raise ConfigError(f"has changed meanwhile, try again @ {name}")
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _as_owned(file: int, target: Path) -> None:
    """Give a new file the owner and the permissions of the old one."""
    old, new = target.stat(), os.fstat(file)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(PermissionError):  # only root may; then it is ours from now on
            os.fchown(file, old.st_uid, old.st_gid)
    os.fchmod(file, old.st_mode & 0o7777)
