"""aimock: a model server by other people, which speaks many vendors' protocols."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from .support import AIMOCK, NODE


@asynccontextmanager
async def open_aimock(
    folder: Path, fixtures: Sequence[dict[str, Any]], *, key: str
) -> AsyncIterator[str]:
    """The server at a free port of this machine, until the block is left.

    Args:
      folder: where ``fixtures`` are written; what none of them fits is refused.
      key: the only one that it takes.
    """
    path = folder / "fixtures.json"
    path.write_text(json.dumps({"fixtures": list(fixtures)}))
    command = [str(NODE), str(AIMOCK), "--port", "0", "--fixtures", str(path)]
    more = ["--strict", "--validate-on-load", "--chunk-size", "7"]
    process = await trio.lowlevel.open_process(
        [*command, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "AIMOCK_API_KEYS": key},
    )
    assert process.stdout is not None
    said = ""
    try:
        while (found := re.search(r"http://127\.0\.0\.1:\d+", said)) is None:
            piece = await process.stdout.receive_some()
            assert piece, said
            said += piece.decode()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_on, process.stdout)
            yield found[0]
            nursery.cancel_scope.cancel()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        await process.stdout.aclose()


async def _read_on(output: trio.abc.ReceiveStream) -> None:
    async for _ in output:
        pass
