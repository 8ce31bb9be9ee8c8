"""A line that a person edits at a terminal: arrow keys, history, completion.

prompt_toolkit is built on asyncio, so each line is read in a thread with an event loop
of its own. trio stays in charge: a cancelled read ends the prompt and waits until the
terminal is as it was, and Ctrl-C is the terminal's signal, as it is without the prompt.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

import attrs
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output.vt100 import Vt100_Output

import trio

from .completing import Completable, completions

# In the list of a terminal's modes.
_LOCAL: Final = 3
_CHARACTERS: Final = 6


@attrs.define(eq=False)
class EditedLines:
    """Whole lines of the terminal, each edited until it is entered.

    Args:
      history: the lines before.
      vocabulary: the words that completion knows, asked for in trio's thread.
    """

    _history: History
    _vocabulary: Callable[[], Completable]
    _session: PromptSession[str] | None = attrs.field(default=None, init=False)
    _loop: asyncio.AbstractEventLoop | None = attrs.field(default=None, init=False)
    _ended: bool = attrs.field(default=False, init=False)  # the read was cancelled
    _beside: deque[Callable[[], None]] = attrs.field(factory=deque, init=False)

    async def next(self, npc: str) -> str | None:
        """Return the next line, to ``npc``, or None at the end of the input.

        Cancelled, it restores the terminal first; what was typed is dropped.
        """
        self._ended = False
        line: str | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_when_cancelled)
                line = await trio.to_thread.run_sync(self._read, npc)
                nursery.cancel_scope.cancel("a line was entered")
        finally:
            self._show_beside()  # what came too late for the prompt
        return line

    def beside(self, show: Callable[[], None]) -> None:
        """Have ``show`` write above the line that is being edited."""
        self._beside.append(show)
        self._in_loop(self._redraw)

    def drop_typed(self) -> None:
        """Forget what has been typed of the line."""
        self._in_loop(self._reset)

    # in the thread of the prompt

    def _read(self, npc: str) -> str | None:
        try:
            return asyncio.run(self._edit(npc))
        except (EOFError, OSError, termios.error):  # the terminal was closed
            return None
        finally:
            self._loop = None

    async def _edit(self, npc: str) -> str | None:
        if self._session is None:
            self._session = self._opened()
        self._loop = asyncio.get_running_loop()
        if self._ended:
            return None
        # An exception here has no terminal to be shown on: it ends the read instead.
        line = await self._session.prompt_async(
            [("bold", "you"), ("", f" to {npc}> ")],
            handle_sigint=False,
            set_exception_handler=False,
            pre_run=self._begin,
        )
        return line.strip()

    def _opened(self) -> PromptSession[str]:
        output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        # Terminals that do not say where their cursor is would cause a warning, and
        # an answer that comes late would be taken for typing.
        output.enable_cpr = False
        return PromptSession(
            input=_Keys(sys.stdin),
            output=output,
            history=self._history,
            completer=_Words(self._vocabulary),
            complete_while_typing=False,
            enable_suspend=True,
        )

    def _begin(self) -> None:
        if self._beside:  # it came before there was a prompt
            self._redraw()

    def _redraw(self) -> None:
        run_in_terminal(self._show_beside)

    def _reset(self) -> None:
        if self._session is not None:
            self._session.default_buffer.reset()

    def _show_beside(self) -> None:
        while self._beside:
            self._beside.popleft()()

    def _exit(self) -> None:
        read = None if self._session is None else self._session.app.future
        if self._session is not None and read is not None and not read.done():
            self._session.app.exit(exception=EOFError)

    # in trio's thread

    async def _end_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._ended = True
            self._in_loop(self._exit)

    def _in_loop(self, work: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed: the line has been entered
                loop.call_soon_threadsafe(work)


class _Keys(Vt100Input):
    """The keyboard. Every key is the prompt's, but Ctrl-C remains a signal.

    As a key it would be lost while a prompt begins or ends.
    """

    @contextmanager
    def _raw(self) -> Generator[None]:
        with super().raw_mode():
            modes = termios.tcgetattr(self.fileno())
            modes[_LOCAL] |= termios.ISIG
            for key in (termios.VSUSP, termios.VQUIT):
                modes[_CHARACTERS][key] = b"\0"  # none
            termios.tcsetattr(self.fileno(), termios.TCSANOW, modes)
            yield

    def raw_mode(self) -> AbstractContextManager[None]:
        """Return a context in which each key arrives as it is pressed."""
        return self._raw()


@attrs.frozen
class _Words(Completer):
    """Completion as prompt_toolkit asks for it: in the thread of the prompt."""

    _vocabulary: Callable[[], Completable]

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Return the completions of the line up to the cursor."""
        known: Completable = trio.from_thread.run_sync(self._vocabulary)
        return [
            Completion(
                found.text, start_position=-found.replaced, display_meta=found.note
            )
            for found in completions(document.text_before_cursor, known)
        ]
