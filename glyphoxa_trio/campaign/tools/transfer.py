"""A campaign as a document and back, and copies of the whole store."""

from __future__ import annotations

import re
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import trio

from glyphoxa_trio.storage.errors import StorageError, StorageFull
from glyphoxa_trio.tools.definition import CallContext, Tool

from ..errors import ResourceExhausted, Unavailable
from ..lanes import FileStore
from ..stamps import Stamps
from ..transfer import FORMAT, exported, imported
from .client_state import (
    CAMPAIGN,
    LONG,
    Answer,
    Arguments,
    ClientState,
    made,
    optional,
    text,
)

# So that clients cannot fill the disk; the operator has to remove older ones.
MOST_BACKUPS: Final = 100
_NAME: Final = re.compile(r"campaigns-\d{8}T\d{6}Z-[0-9a-f]{6}\.db")


def tools(desk: ClientState) -> list[Tool]:
    async def export(arguments: Arguments, call: CallContext) -> Answer:
        return await desk.campaigns.read(
            exported, desk.campaign_id(arguments, call), arguments.get("cursor")
        )

    async def take(arguments: Arguments, call: CallContext) -> Answer:
        return await desk.campaigns.write(imported, arguments["document"])

    return [
        made(
            "campaign_export",
            "Export a campaign",
            "A campaign with all its participants, actors and sessions as one"
            " document. With next_cursor it is too long for one: call again with that"
            " as cursor for the next document.",
            export,
            {
                "campaign_id": CAMPAIGN,
                "cursor": optional(text("next_cursor of the document before.", 400)),
            },
            limits=LONG,
            read_only=True,
        ),
        made(
            "campaign_import",
            "Import a campaign",
            "Take in a document of campaign_export, all of it or nothing, under the"
            " same ids. Records that exist already stay. Several documents of one"
            " campaign are imported in their order.",
            take,
            {
                "document": {
                    "type": "object",
                    "description": "The document, as campaign_export gave it.",
                    "properties": {"format": {"type": "string", "const": FORMAT}},
                    "required": ["format", "campaign_id"],
                }
            },
            required=("document",),
            limits=LONG,
            says="The campaign is back.",
        ),
    ]


def backup(store: FileStore, folder: Path, stamps: Stamps) -> Tool:
    """Return ``campaign_backup``, which writes into this folder.

    The names of the files are our own.
    """

    def count() -> int:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return sum(bool(_NAME.fullmatch(path.name)) for path in folder.iterdir())

    async def work(arguments: Arguments, call: CallContext) -> dict[str, Any]:
        at = stamps.moment().text
        name = f"campaigns-{re.sub('[-:]', '', at)}-{token_hex(3)}.db"
        try:
            if await trio.to_thread.run_sync(count) >= MOST_BACKUPS:
                raise ResourceExhausted(f"there are {MOST_BACKUPS} backups already")
            await store.backup(folder / name)
            size = (await trio.Path(folder / name).stat()).st_size
        except StorageFull as error:
            raise ResourceExhausted("there is no room for a backup") from error
        except (StorageError, OSError) as error:
            raise Unavailable("the backup could not be made") from error
        return {"file": name, "bytes": size, "created_at": at}

    return made(
        "campaign_backup",
        "Back up all campaigns",
        "Save a copy of all campaigns of this server, as of now, in the folder that"
        " its operator has chosen. The answer names the file.",
        work,
        {},
        limits=LONG,
        says="Everything is written down twice now.",
    )
