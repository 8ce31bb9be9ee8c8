"""``glyphoxa serve music``: background music for a mood."""

from __future__ import annotations

import argparse
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from glyphoxa_trio.builtin.music import open_music
from glyphoxa_trio.servers.definition import ServerDefinition

_log = logging.getLogger(__name__)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--library",
        metavar="DIR",
        type=Path,
        required=True,
        help="the folder of tracks; folders in it are moods, and so are tags",
    )
    parser.add_argument(
        "--moods",
        metavar="FILE",
        type=Path,
        help="a YAML file with moods and their tracks; default: moods.yaml in DIR",
    )
    parser.add_argument(
        "--player",
        choices=("auto", "mpv", "events"),
        default="auto",
        help="who plays: mpv, or the reader of the answers (events); default: auto, "
        "mpv where it is installed",
    )
    parser.add_argument(
        "--volume", type=_percent, default=60.0, help="0 to 100; default: 60"
    )
    parser.add_argument(
        "--crossfade-ms",
        type=_milliseconds,
        default=2000.0,
        help="how long one track fades into the next; default: 2000",
    )


def _percent(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError("must be from 0 to 100")
    return value


def _milliseconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 60_000:
        raise argparse.ArgumentTypeError("must be from 0 to 60000")
    return value


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[ServerDefinition]:
    if not options.library.is_dir():
        raise ValueError(f"--library {options.library}: there is no such folder")
    async with open_music(
        options.library,
        moods=options.moods,
        player=options.player,
        volume=options.volume,
        crossfade=options.crossfade_ms / 1000,
        warn=_log.warning,
    ) as music:
        if music.by_events and options.player == "auto":
            _log.warning(
                "mpv is not installed (apt install mpv, brew install mpv): no music "
                "is played here, and answers name the track to play"
            )
        music.prepare()
        yield ServerDefinition(name="music", title="Music", tools=music.tools)
