"""``glyphoxa serve atis``: the weather of an aerodrome."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.extras import missing
from glyphoxa_trio.servers.atis.config_file import ConfigFile
from glyphoxa_trio.servers.atis.feed import METNO, HttpFeed, check_agent, check_url
from glyphoxa_trio.servers.atis.groups import installed
from glyphoxa_trio.servers.atis.keeper import open_keeper
from glyphoxa_trio.servers.atis.resources import AtisResources
from glyphoxa_trio.servers.atis.tools import Atis, tools
from glyphoxa_trio.servers.definition import ServerDefinition

_log = logging.getLogger(__name__)

TTL: Final = 300.0  # seconds
LONGEST_TTL: Final = 3600.0
_INSTRUCTIONS: Final = (
    "Weather and operational information of aerodromes, as a tower would say it."
    " Ask get_atis by ICAO code and speak its atis_text as it is."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="names, runways, frequencies and advisories by aerodrome; read again"
        " when it changes",
    )
    parser.add_argument(
        "--feed-url",
        metavar="URL",
        help="where METAR reports come from, with {icao} in it; default: ATIS_FEED_URL,"
        " or met.no, which wants METNO_USER_AGENT to be set",
    )


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[ServerDefinition]:
    if not installed():
        raise ValueError(missing("reading the weather", "tools"))
    url = check_url(options.feed_url or os.environ.get("ATIS_FEED_URL") or METNO)
    agent, ttl = _agent(url), _ttl()
    settings = ConfigFile(options.config, _log.warning)
    try:
        settings.open()
    except ConfigError as error:
        raise ValueError(f"--config: {error}") from None
    feed = HttpFeed(url=url, agent=agent, now=_now)
    try:
        async with open_keeper(feed, ttl=ttl) as keeper:
            atis = Atis(settings=settings, keeper=keeper, now=_now)
            example = next(iter(settings.config.aerodromes), None)
            resources = AtisResources(atis)
            with keeper.news.tap(resources.tell):
                yield ServerDefinition(
                    name="atis",
                    title="Aviation ATIS",
                    instructions=_INSTRUCTIONS,
                    tools=tools(atis, example),
                    resources=resources,
                )
    finally:
        await feed.aclose()


def _agent(url: str) -> str:
    """Return the User-Agent for requests to the feed.

    met.no blocks clients whose operator it cannot write to. So a name of ours would not
    help: only the user who runs this server can be contacted.
    """
    agent = os.environ.get("METNO_USER_AGENT", "")
    if agent.strip():
        return check_agent(agent)
    if url == METNO:
        raise ValueError(
            "METNO_USER_AGENT is not set: met.no wants to know who asks. Set it to a"
            ' name and where you can be reached, such as "tower/1.0 you@example.org",'
            " or name another feed with --feed-url"
        )
    return "glyphoxa-trio"


def _ttl() -> float:
    written = os.environ.get("METNO_CACHE_TTL_SECONDS", "").strip()
    if not written:
        return TTL
    try:
        ttl = float(written)
    except ValueError:
        ttl = 0.0
    if not 1 <= ttl <= LONGEST_TTL:
        raise ValueError(
            "METNO_CACHE_TTL_SECONDS: expected a number of seconds from 1 to"
            f" {LONGEST_TTL:.0f}, got {written[:20]!r}"
        )
    return ttl


def _now() -> datetime:
    return datetime.now(UTC)
