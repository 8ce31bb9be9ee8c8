"""What the tests of a newcomer share: a home of their own, the command as a process,
and the contents of folders before and after.

Nothing here switches calibration off, writes a latency down, or calls a tool as the
operator: that is for other tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

import trio

LONG: Final = os.environ.get("GLYPHOXA_NEWCOMER") == "long"
COMMAND: Final = Path(sys.executable).with_name("glyphoxa")
PATIENCE: Final = 120.0  # seconds: it only ends what hangs


def environment(home: Path, **more: str) -> dict[str, str]:
    """Ours, with a home that is nobody's, and nothing that chooses a model."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GLYPHOXA_", "OPENAI_", "ANTHROPIC_", "XDG_", "MAKE"))
        and name not in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "ORACLE_DELAY")
    }
    run, temporary = home / "run", home / "tmp"
    for folder in (run, temporary):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return ours | {
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_RUNTIME_DIR": str(run),
        "TMPDIR": str(temporary),  # running programs are looked for there, too
        **more,
    }


def contents(folder: Path) -> dict[str, str]:
    """What is in a folder, by path: the hash of a file, what else it is."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"a link to {path.readlink()}"
        elif path.is_dir():
            found[name] = "a folder"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@attrs.frozen
class Ran:
    """One run of the command, to its end."""

    status: int
    out: str
    err: str


async def run(
    *words: str | Path,
    env: Mapping[str, str],
    cwd: Path,
    lines: Sequence[str] = (),
    idle: float = 0.0,
    command: str | Path = COMMAND,
) -> Ran:
    """Run the command, type ``lines``, and then the end.

    Args:
      idle: seconds in which nobody types, from the moment in which its servers are
        ready.
    """
    out, err = bytearray(), bytearray()
    with trio.fail_after(PATIENCE):
        process = await trio.lowlevel.open_process(
            [command, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read, process.stdout, out)
                nursery.start_soon(_read, process.stderr, err)
                nursery.start_soon(_type, process, lines, idle, out)
                status = await process.wait()
        finally:
            if process.poll() is None:
                process.kill()
    return Ran(status, out.decode(), err.decode())


async def _read(stream: Any, into: bytearray) -> None:
    async for piece in stream:
        into += piece


async def _type(
    process: trio.Process, lines: Sequence[str], idle: float, out: bytearray
) -> None:
    if idle:
        await until(lambda: b"[ready]" in out or process.poll() is not None)
        await trio.sleep(idle)
    assert process.stdin is not None
    async with process.stdin:
        with suppress(trio.BrokenResourceError):  # it has ended; its status says why
            await process.stdin.send_all("".join(f"{x}\n" for x in lines).encode())


def write_config(path: Path, config: Mapping[str, Any]) -> Path:
    """A configuration as a file; what is JSON is YAML, too."""
    path.write_text(json.dumps(config, indent=2))
    return path


async def until(true: Callable[[], bool], *, within: float = PATIENCE) -> None:
    """Look again and again, since no event tells of what other processes do."""
    with trio.fail_after(within):
        while not true():  # noqa: ASYNC110
            await trio.sleep(0.05)
