"""``glyphoxa serve files``: text files in one folder."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from glyphoxa_trio.builtin import files
from glyphoxa_trio.builtin.guard import MOST_FILES, QUOTA
from glyphoxa_trio.servers.definition import ServerDefinition


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--base",
        metavar="DIR",
        type=Path,
        required=True,
        help="the folder that may be read and written, and nothing outside it; made "
        "if it is missing",
    )
    parser.add_argument(
        "--quota-mb",
        metavar="MB",
        type=int,
        default=QUOTA // 2**20,
        help="MiB that all files may have together (%(default)s)",
    )
    parser.add_argument(
        "--max-files",
        metavar="N",
        type=int,
        default=MOST_FILES,
        help="how many files and folders there may be (%(default)s)",
    )


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[ServerDefinition]:
    try:
        tools = tuple(
            files.tools(
                options.base,
                quota=options.quota_mb * 2**20,
                max_files=options.max_files,
                keys=("--quota-mb", "--max-files"),
            )
        )
    except OSError as error:
        raise ValueError(f"--base {options.base}: {error.strerror}") from None
    yield ServerDefinition(name="files", title="Files", tools=tools)
