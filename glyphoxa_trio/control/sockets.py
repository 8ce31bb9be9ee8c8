"""Control sockets of runtimes: find them, open one, ask a question."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from glyphoxa_trio.errors import GlyphoxaError

PATIENCE: Final = 10.0  # seconds for an answer
BACKLOG: Final = 8

_SOCKETS_PER_PROCESS: Final = 16


class ControlError(GlyphoxaError):
    """The socket cannot be opened, or no runtime answers; the text says why."""


def control_folders() -> tuple[Path, ...]:
    """Return the folders where sockets of this user's runtimes may be, the best first.

    A service and a login may have different variables, so a search for a runtime
    looks into all of them.
    """
    folders: list[Path] = []
    if given := os.environ.get("XDG_RUNTIME_DIR"):
        folders.append(Path(given, "glyphoxa"))
    with suppress(FileNotFoundError):  # no temporary folder can be written
        folders.append(Path(tempfile.gettempdir(), f"glyphoxa-{os.geteuid()}"))
    return tuple(folders)


async def open_socket(folders: Sequence[Path]) -> tuple[Path, trio.SocketListener]:
    """A socket of this process in the first folder that can be used.

    Raises:
      ControlError: if none can.
    """
    why = "no temporary folder can be written; set TMPDIR"
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_ours(folder):
                why = f"{folder} is not this user's alone"
                continue
            _sweep(folder)
            return await _bind_in(folder)
        except OSError as error:  # read-only, full, or too long a path
            why = f"{folder}: {error.strerror or error}"
    raise ControlError(f"no control socket: {why}")


async def _bind_in(folder: Path) -> tuple[Path, trio.SocketListener]:
    door = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        for number in range(_SOCKETS_PER_PROCESS):
            address = folder / f"{os.getpid()}-{number}.sock"
            try:
                await door.bind(str(address))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            address.chmod(0o600)
            door.listen(BACKLOG)
            return address, trio.SocketListener(door)
    except BaseException:
        door.close()
        raise
    door.close()
    raise OSError("too many runtimes in this process")


def is_ours(folder: Path) -> bool:
    """Return true if no other user can put anything into a folder, or take it out.

    In a temporary directory another user could have made it first.
    """
    try:
        found = folder.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return ours and not found.st_mode & 0o077


def running(folders: tuple[Path, ...] | None = None) -> dict[Path, int]:
    """The sockets of this user's runtimes, with their processes, oldest first."""
    found: dict[Path, int] = {}
    for folder in control_folders() if folders is None else folders:
        if is_ours(folder):
            _sweep(folder)
            found |= _sockets(folder)
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def _sockets(folder: Path) -> dict[Path, int]:
    return {
        path: int(pid)
        for path in folder.glob("*.sock")
        if (pid := path.stem.partition("-")[0]).isdecimal()
    }


def _sweep(folder: Path) -> None:
    """Remove the sockets that were left behind.

    One whose process is gone and that refuses. Either alone may be a live one: of
    another pid namespace, or between being bound and being listened at.
    """
    for path, pid in _sockets(folder).items():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            with socket.socket(socket.AF_UNIX) as knock, suppress(OSError):
                knock.setblocking(False)
                try:
                    knock.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink()
        except OSError:
            continue  # another user's process has that number now


async def ask(
    address: Path, request: Mapping[str, Any], *, within: float = PATIENCE
) -> dict[str, Any]:
    """Put one request to the runtime behind a socket; its answer, without errors.

    Raises:
      ControlError: if it refuses, or there is no answer within so many seconds.
    """
    answer: Any = None
    try:
        with trio.move_on_after(within) as patience:
            async with await trio.open_unix_socket(address) as stream:
                await stream.send_all(json.dumps(request).encode() + b"\n")
                answer = json.loads(await _everything_up_to_a_newline(stream))
    except (OSError, trio.BrokenResourceError, ValueError) as error:
        raise ControlError(f"no answer at {address}: {error}") from error
    if patience.cancelled_caught:
        raise ControlError(f"no answer at {address} within {within:g} s")
    if not isinstance(answer, dict) or "error" in answer:
        said = answer.get("error") if isinstance(answer, dict) else "no object"
        raise ControlError(str(said))
    return answer


async def _everything_up_to_a_newline(stream: trio.abc.ReceiveStream) -> bytes:
    answer = bytearray()
    while not answer.endswith(b"\n"):
        piece = await stream.receive_some(65536)
        if not piece:
            raise ValueError("it ended in the middle of its answer")
        answer += piece
    return bytes(answer)
