"""aimock: a model server by other people, which speaks many vendors' protocols."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from glyphoxa_trio.actors import lone_errors

from .support import MODULES, NODE

PROGRAM = MODULES / "@copilotkit" / "aimock" / "dist" / "cli.js"


@asynccontextmanager
async def open_aimock(
    folder: Path, fixtures: Sequence[dict[str, Any]]
) -> AsyncIterator[str]:
    """Serve ``fixtures``, which are written into ``folder``; yields the origin."""
    await trio.Path(folder).mkdir(exist_ok=True)
    file = trio.Path(folder) / "fixtures.json"
    await file.write_text(json.dumps({"fixtures": list(fixtures)}))
    command = [str(NODE), str(PROGRAM), "-p", "0", "-f", str(folder)]
    with lone_errors():
        async with trio.open_nursery() as nursery:
            serve = partial(
                trio.run_process,
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            process: trio.Process = await nursery.start(serve)
            assert process.stdout is not None
            said = b""
            while (found := re.search(rb"listening on (http://\S+)\s", said)) is None:
                data = await process.stdout.receive_some()
                assert data, f"aimock ended: {said!r}"
                said += data
            nursery.start_soon(_read, process.stdout)  # a full pipe would stop it
            yield found[1].decode()
            nursery.cancel_scope.cancel()


async def _read(stream: trio.abc.ReceiveStream) -> None:
    while await stream.receive_some():
        pass
