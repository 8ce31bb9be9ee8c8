"""``glyphoxa serve images``: drawing images."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from glyphoxa_trio.builtin import images
from glyphoxa_trio.extras import missing
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.servers.definition import ServerDefinition

# Not an option, since other users of the machine can read a process's options.
KEY: Final = "GLYPHOXA_IMAGE_KEY"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="a server with the OpenAI-compatible /images/generations, up to and "
        f"without that; its key is the environment variable {KEY}. Default: none, and "
        "parchment cards are drawn here",
    )
    parser.add_argument("--model", metavar="NAME", help="the name of its image model")
    parser.add_argument(
        "--size",
        metavar="WxH",
        default="1024x1024",
        help="width and height, or auto; default: 1024x1024",
    )
    parser.add_argument(
        "--folder",
        metavar="DIR",
        type=Path,
        help="where images are kept; default: glyphoxa/images of your user's data",
    )


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[ServerDefinition]:
    if not images.installed():
        raise ValueError(missing("drawing images", "tools"))
    painter: images.Painter = images.Card(images.size_of(options.size))
    if options.base_url is not None:
        from glyphoxa_trio.builtin.images.server import ImageServer

        key = os.environ.get(KEY)
        painter = ImageServer(
            base_url=options.base_url,
            key=Secret(key) if key else None,
            model=options.model,
            size=options.size,
        )
    album = images.Album(options.folder or images.own_folder())
    yield ServerDefinition(
        name="images", title="Images", tools=tuple(images.tools(painter, album))
    )
