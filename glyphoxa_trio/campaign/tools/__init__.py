"""The tools of the campaign server.

They are those of the original design, with its answers, and those that clients need
besides, since many clients never read a resource.
"""

from __future__ import annotations

from pathlib import Path

from glyphoxa_trio.tools.definition import Tool

from ..campaigns import Campaigns
from ..context import Contexts
from ..lanes import FileStore
from ..stamps import Stamps
from . import campaign, context, create, members, sessions, transfer
from .client_state import ClientState


def tools(campaigns: Campaigns, contexts: Contexts) -> list[Tool]:
    """Return all tools but the backup, which needs a folder: see `transfer.backup`."""
    desk = ClientState(campaigns, contexts)
    return [
        *context.tools(desk),
        *campaign.tools(desk),
        *create.tools(desk),
        *sessions.tools(desk),
        *members.tools(desk),
        *transfer.tools(desk),
    ]


def backup(store: FileStore, folder: Path, stamps: Stamps) -> Tool:
    """Return ``campaign_backup``, which writes into one folder."""
    return transfer.backup(store, folder, stamps)


__all__ = ["backup", "tools"]
