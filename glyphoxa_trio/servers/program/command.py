"""``glyphoxa serve``: one of the package's servers, over stdio or HTTP.

This module is apart from the other commands because a client waits while it starts: it
imports only what the chosen server needs.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

import trio

from glyphoxa_trio.actors import SharedTasks, lone_errors
from glyphoxa_trio.actors.interrupts import interrupts
from glyphoxa_trio.errors import GlyphoxaError

from ..builtin import SHELF
from ..definition import CannotServe, ServerDefinition
from ..dispatch import Dispatch
from ..http.options import add_options, http_options, refuse_options
from ..log import Stderr

USAGE: Final = 2  # the exit status for what cannot be served as it was asked for
# Seconds, for what does not let itself be cancelled; and where there is a runtime,
# whose own servers may take two seconds to end, and its memory two more.
_END_AFTER: Final = 2.0
_END_RUNTIME_AFTER: Final = 6.0
_PROCESSES: Final = "glyphoxa_trio.mcp.process"


class Served(Protocol):
    """A server to start: a module of `servers.builtin`, or a file of tools."""

    def add_options(self, parser: argparse.ArgumentParser) -> None: ...

    def open_offer(
        self, options: argparse.Namespace
    ) -> AbstractAsyncContextManager[ServerDefinition]:
        """Raise ValueError for bad options, at the call or on entering the block."""
        ...


def main(arguments: Sequence[str]) -> int:
    """Serve until the client leaves or a signal arrives.

    Returns the exit status: 2 if the server cannot be started, 128 and its number for a
    signal.
    """
    parser = _Parser(
        prog="glyphoxa serve",
        usage="glyphoxa serve [-h] NAME [options]",
        description="Serve tools over MCP. NAME is one of these, or the path of a\n"
        "Python file with tools of your own, such as my_tools.py:",
        epilog="\n".join(f"  {name:<10} {what}" for name, what in SHELF.items())
        + "\n\nglyphoxa serve NAME --help shows the options of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("server", metavar="NAME", type=_name, help=argparse.SUPPRESS)
    if not arguments:
        parser.error(f"which server? There are {_SERVERS}")
    name: str = parser.read(arguments[:1]).server
    served: Served
    if name in SHELF:
        served, what = _shelved(name), SHELF[name]
    else:
        from ..tools_file import ToolsOfFile

        served, what = ToolsOfFile(Path(name)), f"the tools of {name}"
    return run(served, arguments[1:], prog=f"glyphoxa serve {name}", what=what)


def run(served: Served, arguments: Sequence[str], *, prog: str, what: str) -> int:
    """Serve what these arguments say, to the end. Returns the exit status."""
    options = _parser(served, prog, what).read(arguments)
    log = Stderr(prog, sys.stderr)
    logging.getLogger().addHandler(log)
    try:
        return trio.run(_serve, served, options)
    except CannotServe as error:
        sys.stderr.write(f"{prog}: {error}\n")
        return USAGE
    except KeyboardInterrupt:  # before there was a loop to handle it
        return 130
    finally:
        logging.getLogger().removeHandler(log)
        log.close()


class _Parser(argparse.ArgumentParser):
    """A parser that takes ``-option`` for ``--option``; its errors are one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        options, unknown = self.parse_known_args([_with_two_dashes(x) for x in words])
        if unknown:
            from glyphoxa_trio.tools.naming import nearest

            named = [word for word in unknown if word.startswith("--")] or unknown
            word = named[0].partition("=")[0]
            near = nearest(word, self._option_string_actions, n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {word}{hint}")
        return options

    def print_help(self, file: Any = None) -> None:
        """Print the help as the other commands of the program do."""
        from rich.box import ROUNDED
        from rich.console import Console
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        console = Console(file=file, highlight=False)
        words = [str(x.metavar) for x in self._actions if not x.option_strings]
        usage = " ".join([self.prog, *words, "[OPTIONS]"])
        console.print(f"\n Usage: {usage}\n", markup=False)
        if self.description:
            console.print(f" {self.description}\n", markup=False)
        for group in self._action_groups:
            table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
            table.add_column(no_wrap=True, style="cyan")
            table.add_column(no_wrap=True, style="yellow")
            table.add_column()
            for option in group._group_actions:
                if option.help is not argparse.SUPPRESS:
                    kind = "" if option.nargs == 0 else self._kind(option)
                    told = (option.help or "") % vars(option)
                    names = option.option_strings or [kind]
                    kind = kind if option.option_strings else ""
                    table.add_row(*map(Text, (names[-1], kind, told)))
            if table.row_count:
                title = (group.title or "").capitalize()
                panel = Panel(table, title=title, title_align="left", box=ROUNDED)
                console.print(panel)
        if self.epilog:
            console.print(f"\n{self.epilog}", markup=False)

    def _kind(self, option: argparse.Action) -> str:
        """Return what follows an option."""
        if isinstance(option.metavar, str):
            return option.metavar
        return "|".join(option.choices) if option.choices else option.dest.upper()

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


# Programs in Go write -option for --option, and read both. -5 is a number, no option.
_ONE_DASH: Final = re.compile(r"-[A-Za-z][\w-]+(=.*)?", re.DOTALL)


def _with_two_dashes(word: str) -> str:
    return f"-{word}" if _ONE_DASH.fullmatch(word) else word


_SERVERS: Final = f"{', '.join(SHELF)}, and files that end in .py"


def _name(word: str) -> str:
    if word in SHELF or word.endswith(".py"):
        return word
    raise argparse.ArgumentTypeError(f"no server {word!r}; there are {_SERVERS}")


def _shelved(name: str) -> Served:
    module: Any = import_module(f"glyphoxa_trio.servers.builtin.{name}")
    served: Served = module
    return served


def _parser(served: Served, prog: str, what: str) -> _Parser:
    parser = _Parser(prog=prog, description=what)
    parser.add_argument(
        "--transport", choices=("stdio", "http"), default="stdio", help="default: stdio"
    )
    add_options(parser)
    served.add_options(parser)
    return parser


async def _serve(served: Served, options: argparse.Namespace) -> int:
    """Returns the exit status."""
    if options.transport == "http":
        return await _on_http(served, options)
    with _usage():
        refuse_options(options)
    status = 0
    with trio.CancelScope() as scope:

        def leave(number: int) -> None:
            nonlocal status
            status = 128 + number
            scope.cancel("a signal")
            _end_for_sure(status)

        async with interrupts(leave):
            with lone_errors():
                await _on_stdio(served, options)
    return status


async def _on_http(served: Served, options: argparse.Namespace) -> int:
    with _usage():
        asked = http_options(options)
    from ..http.serving import serve_http

    opening = _opened(served, options)
    return await serve_http(opening, asked, _version(), ending=_end_for_sure)


async def _on_stdio(served: Served, options: argparse.Namespace) -> None:
    from ..stdio import own_stdio, serve_stdio

    # First of all: whatever opens the offer may print.
    async with own_stdio() as (incoming, outgoing):
        async with _opened(served, options) as dispatch:
            await serve_stdio(dispatch, _version(), incoming, outgoing)
            _end_for_sure(0)


@asynccontextmanager
async def _opened(
    served: Served, options: argparse.Namespace
) -> AsyncGenerator[Dispatch]:
    """Open a `Dispatch` with a nursery for its handlers, which end with the block.

    Raises:
      CannotServe: if the server's definition cannot be opened.
    """
    opened = False
    try:
        with lone_errors():
            async with served.open_offer(options) as offer:
                opened = True
                async with trio.open_nursery() as nursery:
                    yield Dispatch(offer, SharedTasks(nursery))
                    nursery.cancel_scope.cancel(
                        "the client waits for no answer any more"
                    )
    except (GlyphoxaError, ValueError, OSError) as error:
        if opened or isinstance(error, CannotServe):
            raise
        raise CannotServe(str(error)) from error


@contextmanager
def _usage() -> Generator[None]:
    """Raise `CannotServe` for the `ValueError` of a bad option."""
    try:
        yield
    except ValueError as error:
        raise CannotServe(str(error)) from None


def _end_for_sure(status: int) -> None:
    """End the process in some seconds, even if a handler resists: trio cannot end one
    that shields itself, and the client has left."""
    after = _END_RUNTIME_AFTER if _PROCESSES in sys.modules else _END_AFTER
    timer = threading.Timer(after, _end_now, (status,))
    timer.daemon = True
    timer.start()


def _end_now(status: int) -> None:
    if (processes := sys.modules.get(_PROCESSES)) is not None:
        processes.kill_all()  # not all of them end with their stdin
    os._exit(status)


def _version() -> str:
    from importlib.metadata import version

    return version("glyphoxa-trio")
