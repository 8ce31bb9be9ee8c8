"""``glyphoxa serve``: one of our servers, over stdio or HTTP.

Apart from the other commands, since a client waits for it: what a server does
not need is not imported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import trio

from .dispatch import Dispatch
from .offer import Offer
from .shelf import SHELF


class Served(Protocol):
    """What can be served: a module of the shelf, or somebody's own tools."""

    def add_options(self, parser: argparse.ArgumentParser) -> None: ...

    def open_offer(
        self, options: argparse.Namespace
    ) -> AbstractAsyncContextManager[Offer]:
        """Raises ValueError, also when it is entered, for options that are none."""
        ...


def main(arguments: Sequence[str]) -> int:
    """Serve until the client leaves, or Ctrl-C. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="glyphoxa serve",
        usage="glyphoxa serve [-h] NAME [options]",
        description="Serve tools over MCP. NAME is one of these, or the path of a "
        "Python file with tools of your own, such as my_tools.py:",
        epilog="\n".join(f"  {name:<10} {what}" for name, what in SHELF.items())
        + "\n\nglyphoxa serve NAME --help shows the options of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("server", metavar="NAME", type=_name, help=argparse.SUPPRESS)
    name: str = parser.parse_known_args(arguments[:1])[0].server
    served: Served
    if name in SHELF:
        served, what = _shelved(name), SHELF[name]
    else:
        from .own import ToolsOfFile

        served, what = ToolsOfFile(Path(name)), f"the tools of {name}"
    return run(served, arguments[1:], prog=f"glyphoxa serve {name}", what=what)


def run(served: Served, arguments: Sequence[str], *, prog: str, what: str) -> int:
    """Serve what these arguments say, to the end. Returns the exit status."""
    options = _parser(served, prog, what).parse_args(arguments)
    status = 0
    try:
        trio.run(_serve, served, options)
    except* ValueError as errors:
        for error in errors.exceptions:
            sys.stderr.write(f"{prog}: {error}\n")
        status = 2
    except* KeyboardInterrupt:
        status = 130
    return status


def _name(word: str) -> str:
    if word in SHELF or word.endswith(".py"):
        return word
    raise argparse.ArgumentTypeError(
        f"no server {word!r}; there are {', '.join(SHELF)}, and files that end in .py"
    )


def _shelved(name: str) -> Served:
    module: Any = import_module(f".shelf.{name}", __package__)
    served: Served = module
    return served


def _parser(served: Served, prog: str, what: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=what)
    parser.add_argument(
        "--transport", choices=("stdio", "http"), default="stdio", help="default: stdio"
    )
    parser.add_argument(
        "--http-addr",
        metavar="HOST:PORT",
        default="localhost:8081",
        help="where to listen, with --transport http; default: localhost:8081",
    )
    served.add_options(parser)
    return parser


async def _serve(served: Served, options: argparse.Namespace) -> None:
    async with served.open_offer(options) as offer:
        dispatch = Dispatch(offer)
        if options.transport == "stdio":
            from .stdio import serve_stdio

            await serve_stdio(dispatch, _version())
        else:
            raise ValueError("--transport http: not yet")


def _version() -> str:
    from importlib.metadata import version

    return version("glyphoxa-trio")
