"""Our servers as processes, and a runtime that is their client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs

import trio

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import (
    NO_GROUPS,
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    ServerSpec,
)

COMMAND = Path(sys.executable).with_name("glyphoxa")
LIMIT = 60.0  # seconds; no test that passes comes near it


@asynccontextmanager
async def client_of(specs: Iterable[ServerSpec]) -> AsyncGenerator[Runtime]:
    """A runtime without tools of its own, and without measurements of any."""
    # They start in two seconds, and on a busy machine in many.
    servers = tuple(attrs.evolve(spec, start_timeout=LIMIT) for spec in specs)
    granted = tuple(f"{spec.name}.*" for spec in servers)
    config = Config(
        npcs=(NpcConfig(name="Bo", tools=granted),),
        mcp=McpConfig(servers=servers, remember=False),
        builtin=NO_GROUPS,
        calibration=CalibrationConfig(at_start=False),
    )
    with trio.fail_after(LIMIT):
        async with open_runtime(config, wait_for_servers=LIMIT) as runtime:
            # Bo is granted them by globs, which approve none; that is said, and right.
            assert {x.server for x in runtime.warnings} <= {"configuration"}
            yield runtime


@asynccontextmanager
async def over_http(*words: str, **environment: str) -> AsyncGenerator[str]:
    """``glyphoxa serve`` over HTTP on a free port; yields its URL."""
    async with program_over_http(str(COMMAND), "serve", *words, **environment) as url:
        yield url


@asynccontextmanager
async def program_over_http(*words: str, **environment: str) -> AsyncGenerator[str]:
    """Whatever takes the options of ``glyphoxa serve``, likewise."""
    command = [*words, "--transport", "http", "--http-addr", "localhost:0"]
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                command,
                env=os.environ | environment,
                stderr=subprocess.PIPE,
                check=False,
            )
        )
        said = b""
        assert process.stderr is not None
        while not (found := re.search(rb"http://\S+:\d+/mcp", said)):
            chunk = await process.stderr.receive_some()
            assert chunk, said
            said += chunk
        yield found[0].decode()
        process.terminate()
