"""``glyphoxa serve``: one of our servers, over stdio or HTTP.

Apart from the other commands, since a client waits for it: what a server does
not need is not imported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import trio

from .dispatch import Dispatch
from .shelf import SHELF


def main(arguments: Sequence[str]) -> int:
    """Serve until the client leaves, or Ctrl-C. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="glyphoxa serve", description=__doc__)
    parser.add_argument("server", choices=list(SHELF), help="which one")
    name = parser.parse_known_args(arguments[:1])[0].server
    module: Any = import_module(f".shelf.{name}", __package__)
    options = _parser(name, module).parse_args(arguments[1:])
    status = 0
    try:
        trio.run(_serve, module, options)
    except* ValueError as errors:
        for error in errors.exceptions:
            sys.stderr.write(f"glyphoxa serve {name}: {error}\n")
        status = 2
    except* KeyboardInterrupt:
        status = 130
    return status


def _parser(name: str, module: Any) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"glyphoxa serve {name}", description=SHELF[name]
    )
    parser.add_argument(
        "--transport", choices=("stdio", "http"), default="stdio", help="default: stdio"
    )
    parser.add_argument(
        "--http-addr",
        metavar="HOST:PORT",
        default="localhost:8081",
        help="where to listen, with --transport http; default: localhost:8081",
    )
    module.add_options(parser)
    return parser


async def _serve(module: Any, options: argparse.Namespace) -> None:
    async with module.open_offer(options) as offer:
        dispatch = Dispatch(offer)
        if options.transport == "stdio":
            from .stdio import serve_stdio

            await serve_stdio(dispatch, _version())
        else:
            raise ValueError("--transport http: not yet")


def _version() -> str:
    from importlib.metadata import version

    return version("glyphoxa-trio")
