"""``glyphoxa run``: the runtime as a service, until it is told to stop."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.mcp_json import home_of_mcp_json
from glyphoxa_trio.control import ControlError, open_control
from glyphoxa_trio.control.status import plain
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.runtime import open_runtime
from glyphoxa_trio.service import ServiceOptions, open_service

from .common import Model, memory_of, run
from .consent import load_again
from .leaving import two_signals
from .logs import open_logs
from .serving import note, serve_until_told
from .status import changes


def serve_runtime(
    path: Path,
    model: Model,
    options: ServiceOptions,
    *,
    log: Path | None = None,
    watch: bool = False,
) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit status.

    The first signal lets running turns finish; a second one ends them.
    """
    files = [path.absolute(), home_of_mcp_json(path.absolute().parent)]

    async def main(config: Config) -> int:
        given = [config]

        def source() -> Config:
            # What was loaded first; from then on the file as it is, in a thread.
            if given:
                return given.pop()
            return model.applied_to(load_again(path, warn=tell))

        def tell(text: str) -> None:
            trio.from_thread.run_sync(note, f"warning: {text}")

        async with (
            two_signals() as leaving,
            open_logs(log, config, _warn) as logs,
            open_runtime(
                source,
                watch=files if watch else False,
                on_reload=lambda done: note(changes(plain(done))),
                collector="settle",
                memory=memory_of(config, path),
                **logs.options,
            ) as runtime,
            open_service(runtime, options, config=path) as service,
            AsyncExitStack() as stack,
        ):
            logs.follow(runtime)
            try:
                await stack.enter_async_context(open_control(runtime))
            except ControlError as error:
                note(str(error))  # and no `glyphoxa status`
            if config.telemetry.enabled:
                from glyphoxa_trio.observability import open_telemetry

                telling = open_telemetry(runtime, warn=_warn)
                await stack.enter_async_context(telling)
            npcs = len(config.npcs)
            what = f"{npcs} NPC{'s'[: npcs != 1]}"
            await serve_until_told(service, leaving, what)
        return leaving.status

    return run(main, path, model, traced=True)


def _warn(warning: ServerWarning) -> None:
    note(f"warning: {warning.server}: {warning.text}")
