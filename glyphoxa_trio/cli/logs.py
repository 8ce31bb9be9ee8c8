"""``--log-json``: everything a runtime does, as lines in a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.runtime import Runtime


class LogFailed(GlyphoxaError):
    """The file cannot be written."""


@attrs.frozen
class Log:
    """The arguments of `open_runtime` that a log needs, and how it follows a
    runtime."""

    options: dict[str, Any]
    follow: Callable[[Runtime], None]


@asynccontextmanager
async def open_logs(
    path: Path | None, config: Config, warn: Callable[[ServerWarning], None]
) -> AsyncGenerator[Log]:
    """A log in ``path``, or none; ``warn`` is told of warnings all the same.

    Raises:
      LogFailed: if the file cannot be opened.
    """
    if path is None:
        yield Log({"on_warning": warn}, lambda _: None)
        return
    from glyphoxa_trio.observability import open_log_file

    async with AsyncExitStack() as stack:
        opening = open_log_file(path, config=config)
        try:
            log = await stack.enter_async_context(opening)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise LogFailed(f"cannot write {path}: {why}") from None

        def both(warning: ServerWarning) -> None:
            warn(warning)
            log.server_event(warning)

        options = {
            "on_warning": both,
            "on_server_event": log.server_event,
            "on_server_line": log.server_line,
        }
        yield Log(options, log.follow)
