"""The tools ``write_file`` and ``read_file``: text files in one directory only.

A path is walked name by name; each is opened relative to the directory before it and
never through a link. So no link, not even one made between two steps, leads out of the
sandbox; ``..`` and absolute paths are refused before that. Writing goes to a temporary
file that replaces the old one in one step: a reader sees the old text or the new one,
after a power failure too.

The handlers block: the host runs them in worker threads. An error that the caller can
correct is a `ToolError`, and so is a full folder or disk; if the base directory is
gone, that stays an `OSError`. Files that programs read as code or settings are neither
read nor written (`guard`). POSIX only.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool, ToolError

from .guard import MOST_FILES, QUOTA, Quota, ToolResourceExhausted, protected

MAX_BYTES: Final = 1024 * 1024  # of a file, in UTF-8
MAX_PATH: Final = 1024  # bytes of a path

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, since opening a FIFO would otherwise wait for its writer.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_REFUSALS: Final = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "a part of it is a file or a link, not a directory",
    errno.ELOOP: "it is a link, and links are not followed",
    errno.EISDIR: "it is a directory",
    errno.ENXIO: "it is not a regular file",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENAMETOOLONG: "a name in it is too long",
}

_Path = Annotated[str, "Relative to the sandbox, for example notes/tavern.txt"]


def tools(
    base: Path,
    *,
    quota: int = QUOTA,
    max_files: int = MOST_FILES,
    keys: tuple[str, str] = ("files.quota_mb", "files.max_files"),
) -> list[Tool]:
    """Return ``write_file`` and ``read_file`` for the directory ``base``.

    ``base`` is created if it is missing; it may be a link, which is resolved here,
    once.

    Args:
      quota: bytes that all files may have together.
      max_files: the number of files and folders that there may be.
      keys: the settings for these two, named in the refusals so that the user can
        raise them.

    Raises:
      OSError: if ``base`` cannot be made or is no directory.
    """
    base.mkdir(parents=True, exist_ok=True)
    root = base.resolve(strict=True)
    room = Quota(root, quota, max_files, keys)

    # The tool is idempotent, so the calibrator may probe it, with made-up arguments if
    # it has no examples, and a user's file "a" would be overwritten. This example is
    # refused before the disk is touched, so the tool keeps its declared latency.
    @tool(
        group="files",
        category="files",
        title="Write a file",
        estimated_duration_ms=20,
        max_duration_ms=100,
        destructive=True,
        idempotent=True,
        examples=({"path": "", "content": ""},),
        speech_template="It is written to {path}.",
    )
    def write_file(
        path: _Path, content: Annotated[str, "The whole text of the file"]
    ) -> dict[str, Any]:
        """Write a text file in the sandbox, in place of what it held before.

        Directories on the way are created.
        """
        parts = _parts(path)
        data = _encoded(content)
        with room.writing:
            room.check(parts, len(data))
            try:
                write_whole(root, parts, data)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                raise ToolResourceExhausted(
                    "ResourceExhausted: there is no room on the disk"
                ) from error
        return {"path": "/".join(parts), "bytes": len(data)}

    @tool(
        group="files",
        category="files",
        title="Read a file",
        estimated_duration_ms=20,
        max_duration_ms=100,
        read_only=True,
        idempotent=True,
        speech_field="content",
    )
    def read_file(path: _Path) -> dict[str, Any]:
        """Read a text file of at most 1 MiB from the sandbox."""
        parts = _parts(path)
        data = _read(root, parts)
        name = "/".join(parts)
        try:
            content = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ToolError(f"{name!r} is not UTF-8 text") from error
        return {"path": name, "content": content, "bytes": len(data)}

    return [write_file, read_file]


def _parts(path: str) -> list[str]:
    """Return the names that make up ``path``; the last one is the file's."""
    if not path:
        raise ToolError("the path is empty")
    try:
        length = len(path.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ToolError("the path is not valid Unicode") from error
    if length > MAX_PATH:
        raise ToolError(f"the path is longer than {MAX_PATH} bytes")
    names = path.split("/")
    if "\0" in path:
        raise ToolError(f"{path!r}: a path holds no NUL")
    if not names[0]:
        raise ToolError(f"{path!r}: give a path relative to the sandbox")
    if ".." in names:
        raise ToolError(f"{path!r}: '..' is not allowed")
    if names[-1] in ("", "."):
        raise ToolError(f"{path!r} names a directory, not a file")
    parts = [name for name in names if name not in ("", ".")]
    if (why := protected(parts)) is not None:
        raise ToolError(f"{path!r}: {why}")
    return parts


def _encoded(content: str) -> bytes:
    try:
        # Each character takes at least one byte, so this is enough to see that it is
        # too long.
        data = content[: MAX_BYTES + 1].encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError("the content is not valid Unicode") from error
    if len(data) > MAX_BYTES:
        raise ToolError(f"the content has more than {MAX_BYTES} bytes of UTF-8")
    return data


@contextmanager
def _directory(root: Path, names: list[str], *, create: bool) -> Iterator[int]:
    """Open the directory that ``names`` lead to; refusals are ToolErrors."""
    here = os.open(root, _DIRECTORY)
    try:
        with _refusing(names):
            for name in names[:-1]:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=here)
                below = os.open(name, _DIRECTORY, dir_fd=here)
                os.close(here)
                here = below
            yield here
    finally:
        os.close(here)


@contextmanager
def _refusing(names: list[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = _REFUSALS.get(error.errno or 0)
        if reason is None:
            raise
        raise ToolError(f"{'/'.join(names)!r}: {reason}") from error


def _read(root: Path, names: list[str]) -> bytes:
    with _directory(root, names, create=False) as here:
        descriptor = os.open(names[-1], _READ, dir_fd=here)
        try:
            found = os.fstat(descriptor)
            _check_regular(found.st_mode)
            if found.st_nlink > 1:  # the file's other names are not known here
                raise OSError(errno.ELOOP, "a hard link")
            with open(descriptor, "rb", closefd=False) as file:
                # By reading, not by the file's size: it may grow meanwhile.
                data = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise ToolError(f"{'/'.join(names)!r} has more than {MAX_BYTES} bytes")
    return data


def write_whole(root: Path, names: list[str], data: bytes) -> None:
    """Write the file that ``names`` lead to, below ``root``: whole, or not at all.

    Raises:
      ToolError: for links on the way, and for a path that is no regular file.
      OSError: for errors of the disk.
    """
    with _directory(root, names, create=True) as here:
        mode = _replaceable(names[-1], here)
        # Not derived from the file's name, which may already have the maximal length.
        temporary = f".glyphoxa-{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, _CREATE, 0o666, dir_fd=here)
        try:
            with open(descriptor, "wb") as file:
                if mode is not None:
                    os.fchmod(descriptor, mode)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, names[-1], src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=here)
            raise


def _replaceable(name: str, here: int) -> int | None:
    """Return the permissions of the regular file that is there already, if any."""
    try:
        there = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    _check_regular(there)
    return there & 0o777


def _check_regular(mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "a link")
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "a directory")
    if not stat.S_ISREG(mode):
        raise OSError(errno.ENXIO, "not a regular file")
