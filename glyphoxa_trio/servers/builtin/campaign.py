"""``glyphoxa serve campaign``: campaigns, in an SQLite file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Topic, lone_errors
from glyphoxa_trio.builtin import duality
from glyphoxa_trio.campaign import uris
from glyphoxa_trio.campaign.campaigns import Campaigns
from glyphoxa_trio.campaign.context import Contexts
from glyphoxa_trio.campaign.documents import document
from glyphoxa_trio.campaign.errors import CampaignError
from glyphoxa_trio.campaign.lanes import FileStore, open_store
from glyphoxa_trio.campaign.listing import MOST_PAGE, listed
from glyphoxa_trio.campaign.model import Campaign
from glyphoxa_trio.campaign.stamps import Stamps
from glyphoxa_trio.campaign.tools import backup, tools
from glyphoxa_trio.servers.definition import (
    Changed,
    Content,
    Resource,
    ResourceError,
    ResourcePage,
    ResourceTemplate,
    ServerDefinition,
)
from glyphoxa_trio.storage.errors import StorageError, UnusableFile
from glyphoxa_trio.user_folders import NO_HOME, user_data_folder

INSTRUCTIONS: Final = (
    "Campaigns of a tabletop game: their participants, actors (characters) and"
    " sessions. Choose one with set_context, and leave out campaign_id from then on;"
    " or give campaign_id each time. Lists come in pages: next_cursor says that there"
    " is more. Errors say in `code` what kind they are."
)
IN_MEMORY: Final = ":memory:"
# Seconds that a client waits for a resource at most, and resources on a page of a list.
READING: Final = 5.0
PER_PAGE: Final = 100

_FIXED: Final = (
    Resource(
        uri=uris.CAMPAIGNS,
        name="campaigns",
        title="All campaigns",
        description="Every campaign there is, the oldest first.",
    ),
    Resource(
        uri=uris.CONTEXT,
        name="context",
        title="The chosen campaign",
        description="What set_context has chosen for this connection.",
    ),
)
_TEMPLATES: Final = (
    ResourceTemplate(
        uri=uris.campaign("{campaign_id}"),
        name="campaign",
        title="A campaign",
        description="One campaign, with how many participants and actors it has.",
    ),
    *(
        ResourceTemplate(
            uri=f"{uris.campaign('{campaign_id}')}/{word}",
            name=f"campaign-{word}",
            title=f"{word.capitalize()} of a campaign",
            description=f"The {word} of one campaign, the oldest first.",
        )
        for word in ("participants", "actors", "sessions")
    ),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--db",
        metavar="PATH",
        help="the file of campaigns, made if it is not there, or :memory:; default:"
        " campaigns.db among the user's data",
    )
    parser.add_argument(
        "--backups",
        metavar="FOLDER",
        type=Path,
        help="where the tool campaign_backup puts its copies; without, there is no"
        " such tool",
    )
    parser.add_argument(
        "--addr",
        metavar="HOST:PORT",
        help="of a separate service of campaigns; there is none, this server has its"
        " store itself, so it connects to nothing there and says so",
    )


@asynccontextmanager
async def open_offer(
    options: argparse.Namespace, stamps: Stamps | None = None
) -> AsyncGenerator[ServerDefinition]:
    """Open the campaign server.

    Args:
      stamps: the source of times and ids; tests pass one whose values they know.

    Raises:
      StorageError: if the file cannot be used.
      ValueError: for a path that cannot be one.
    """
    stamped = stamps or Stamps()
    path = _path(options.db)
    if options.addr is not None:
        # The option is accepted, since existing configurations have it, but never
        # silently.
        sys.stderr.write(
            f"glyphoxa serve campaign: --addr {options.addr}: ignored, since campaigns"
            f" are kept here, in {path or 'memory'} (see --db)\n"
        )
    contexts = Contexts()
    with lone_errors():
        async with _opened(path) as store, trio.open_nursery() as nursery:
            campaigns = Campaigns(store, stamped)
            offered = [*tools(campaigns, contexts), *duality.tools()]
            if options.backups is not None:
                offered.append(backup(store, options.backups, stamped))
            resources = CampaignResources(campaigns, contexts)
            nursery.start_soon(campaigns.watch)
            with campaigns.changes.tap(resources.tell):
                yield ServerDefinition(
                    name="campaign",
                    title="Campaigns",
                    instructions=INSTRUCTIONS,
                    tools=tuple(offered),
                    resources=resources,
                    ended=contexts.forget,
                )
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _opened(path: Path | None) -> AsyncGenerator[FileStore]:
    async with AsyncExitStack() as stack:
        try:
            store = await stack.enter_async_context(open_store(path))
        except UnusableFile:
            raise
        except StorageError as error:
            raise StorageError(f"{error}; give another file with --db") from error
        yield store


@attrs.define(eq=False)
class CampaignResources:
    """The readable resources, as `servers.offer` requires them."""

    _campaigns: Campaigns
    _contexts: Contexts
    changes: Topic[Changed] = attrs.field(factory=Topic, init=False)
    templates: Sequence[ResourceTemplate] = attrs.field(default=_TEMPLATES, init=False)

    def tell(self, uri: str | None) -> None:
        self.changes.publish(Changed(uri))

    async def page(self, after: str | None) -> ResourcePage:
        with _limited():
            found = await self._campaigns.read(
                listed, Campaign, cursor=after, limit=PER_PAGE, size=MOST_PAGE
            )
        campaigns = [_resource(record) for record in found.records]
        first = _FIXED if after is None else ()
        return ResourcePage([*first, *campaigns], found.next_cursor)

    async def read(self, uri: str, session: str) -> Sequence[Content]:
        with _limited():
            if uri == uris.CONTEXT:
                text = json.dumps(self._contexts.as_json(session))
            else:
                text = await self._campaigns.read(document, uri)
        return [Content(uri=uri, data=text)]


def _path(given: str | None) -> Path | None:
    """Return the path of the file; None means in memory.

    Raises:
      ValueError: if the path is empty, or not given and the user has no home.
    """
    if given == IN_MEMORY:
        return None
    if given is not None:
        if not given.strip():
            raise ValueError("--db: it must not be empty")
        return Path(given)
    folder = user_data_folder()
    if folder is None:
        raise ValueError(
            f"campaigns have no place: {NO_HOME} or XDG_DATA_HOME, or give --db FILE"
        )
    return folder / "campaigns.db"


@contextmanager
def _limited() -> Iterator[None]:
    """Turn errors into those of `offer`, and bound the time of the block."""
    try:
        with trio.fail_after(READING):
            yield
    except CampaignError as error:
        raise ResourceError(error.code, str(error)) from None
    except trio.TooSlowError:
        raise ResourceError("Unavailable", "reading it took too long") from None


def _resource(record: Mapping[str, Any]) -> Resource:
    return Resource(
        uri=uris.campaign(record["id"]),
        name=record["id"],
        title=record["name"],
        description=f"The campaign {record['name']}.",
    )
