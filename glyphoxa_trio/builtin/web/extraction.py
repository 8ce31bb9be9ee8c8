"""Extracting the text of a page, in a process that can be killed.

The HTML comes from strangers, the parser is written in C, and a page can be made so
that parsing it takes a minute. So each page gets a process of its own, with little
memory and little time and without secrets. It is killed when the page has been read or
the call is cancelled: nothing of one page is left for the next.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.process import end, start
from glyphoxa_trio.tools.definition import ToolUnavailable

from .page import WebPage
from .refusals import Unreadable
from .urls import PageUrl

MAX_WORKERS: Final = 4  # at once; others wait
# Seconds of real time, for a process that hangs. A busy one is ended by its own CPU
# limit, and a call by its deadline.
PATIENCE: Final = 10.0
MAX_MEMORY: Final = 512 * 1024 * 1024  # bytes of address space; it needs 100 MB
_MOST: Final = 4 * 1024 * 1024  # bytes of its answer
_CHUNK: Final = 64 * 1024
_WORKER: Final = "glyphoxa_trio.builtin.web.worker"


@attrs.frozen(kw_only=True)
class Read:
    """The content of a page, and the addresses to which it sends its readers."""

    title: str = ""
    text: str = ""
    truncated: bool = False
    language: str | None = None
    forward: str | None = None
    forward_after: float = 0.0
    frames: Sequence[str] = ()
    scripted: bool = False

    def page(self, url: PageUrl, *, cut: bool, language: str | None) -> WebPage:
        """Return the page.

        Raises:
          Unreadable: if it has no text; the message says why.
        """
        if not self.text:
            raise Unreadable(self._why(url))
        return WebPage(
            url=str(url),
            title=self.title or url.host.name,
            text=self.text,
            truncated=cut or self.truncated,
            language=self.language or language,
        )

    def _why(self, url: PageUrl) -> str:
        if self.frames:
            places: list[str] = []
            for frame in self.frames:
                with suppress(Unreadable, ValueError):
                    places.append(str(url.joined(frame)))
            return f"The page has no text but frames: {', '.join(places)}"
        if self.forward is not None:
            return "The page only forwards to others, more than once."
        if self.scripted:
            return "The page shows nothing without JavaScript, which is not run."
        return "The page has no text."


@attrs.define(eq=False)
class Extractor:
    """A reader of pages, with a process for each.

    Args:
      patience: seconds for one page.
      memory: bytes of address space for one process.
    """

    patience: float = PATIENCE
    memory: int = MAX_MEMORY
    _limit: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(MAX_WORKERS), init=False
    )

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[PageReader]:
        """Start a process that gets ready while the page arrives. Leaving kills it.

        Raises:
          ToolUnavailable: if no process can be started.
        """
        # Importable as here, also in a checkout that is not installed.
        path = {"PYTHONPATH": os.pathsep.join(x for x in sys.path if x)}
        command = [sys.executable, "-P", "-m", _WORKER]
        async with self._limit:
            try:
                process = await start([*command, str(self.memory)], env=path)
            except OSError as error:
                raise ToolUnavailable(f"Pages cannot be read now: {error}.") from error
            try:
                yield PageReader(process, self.patience)
            finally:
                await end(process)


@attrs.define(eq=False)
class PageReader:
    """A process that reads one page."""

    process: trio.Process
    _patience: float

    async def read(self, data: bytes, charset: str | None, *, most_text: int) -> Read:
        """Return the content of a page.

        Raises:
          Unreadable: if that takes too much time or memory.
        """
        task = {"charset": charset, "most_text": most_text}
        with trio.move_on_after(self._patience):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, json.dumps(task).encode(), data)
                answer = await self._answer()
            if isinstance(answer, dict):
                return Read(**answer)
        raise Unreadable("The page is too complex to be read.")

    async def _send(self, task: bytes, data: bytes) -> None:
        assert self.process.stdin is not None
        # the process died, which its answer shows
        with suppress(trio.BrokenResourceError):
            await self.process.stdin.send_all(task + b"\n" + data)
            await self.process.stdin.aclose()

    async def _answer(self) -> Any:
        assert self.process.stdout is not None
        answer = bytearray()
        while data := await self.process.stdout.receive_some(_CHUNK):
            answer += data
            if len(answer) > _MOST:
                return None
        try:
            return json.loads(answer)
        except ValueError:  # killed, or out of memory
            return None
