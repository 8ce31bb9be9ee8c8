"""What servers offer, asked before a rehearsal; a disk that hangs holds nobody up."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import trio

from glyphoxa_trio.config import Config, McpConfig, ServerSpec
from glyphoxa_trio.mcp.tool_cache import ToolCache
from glyphoxa_trio.simulation.survey import survey

LIMIT = 30.0  # seconds; only a hang comes near it


async def test_whoever_leaves_does_not_wait_for_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, released = trio.Event(), threading.Event()
    read = list[bool]()

    def hangs(_: ToolCache, __: ServerSpec) -> None:
        trio.from_thread.run_sync(reading.set)
        read.append(released.wait(LIMIT / 2))

    monkeypatch.setattr(ToolCache, "load", hangs)
    far = ServerSpec(name="far", command=("nobody-starts-this",))
    config = Config(mcp=McpConfig(servers=(far,), state_dir=tmp_path))
    try:
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    await survey(config, online=False)

                nursery.start_soon(ask)
                await reading.wait()
                nursery.cancel_scope.cancel()
            assert read == []  # it is left to itself
    finally:
        released.set()
