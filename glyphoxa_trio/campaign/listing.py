"""Pages of records, limited by number and by size, and never cut silently."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from . import cursors
from .errors import InvalidArgument
from .model import Campaign, CampaignRecord
from .rules import find
from .store import Records

# Limits of a page, in records and bytes of JSON: of a tool, and of a resource.
DEFAULT_LIMIT: Final = 50
MOST_LIMIT: Final = 500
MOST_PAGE: Final = 128 * 1024
MOST_DOCUMENT: Final = 1024 * 1024
_CHUNK: Final = 200


@attrs.frozen
class RecordPage:
    """Some records as JSON, and the cursor of the next ones; None at the end."""

    records: list[dict[str, Any]]
    next_cursor: str | None = None

    def as_json(self, word: str) -> dict[str, Any]:
        """Return the page as an answer, with the records under ``word``."""
        if self.next_cursor is None:
            return {word: self.records}
        return {word: self.records, "next_cursor": self.next_cursor}


def listed(
    records: Records,
    kind: type[CampaignRecord],
    campaign_id: str | None = None,
    *,
    cursor: str | None = None,
    limit: int | None = None,
    size: int,
) -> RecordPage:
    """Return the records after a cursor, in the order in which they were made.

    Args:
      campaign_id: the campaign of the records; None for campaigns themselves.
      limit: at most this many records; None means no such limit.
      size: about this many bytes of JSON, but at least one record.

    Raises:
      NotFound: if there is no such campaign.
      InvalidArgument: for a cursor of another list, or a limit out of range.
    """
    if limit is not None and not 1 <= limit <= MOST_LIMIT:
        raise InvalidArgument(f"limit must be from 1 to {MOST_LIMIT}")
    if campaign_id is not None:
        find(records, Campaign, campaign_id)
    place = kind.WORD if campaign_id is None else f"{kind.WORD} {campaign_id}"
    after = cursors.read(place, cursor)
    found: list[dict[str, Any]] = []
    # One more than asked for shows whether there are more.
    most = _CHUNK if limit is None else min(_CHUNK, limit + 1)
    while True:
        chunk = records.page(kind, campaign_id, after, most)
        for number, record in chunk:
            written = record.as_json()
            size -= len(json.dumps(written, ensure_ascii=False).encode()) + 2
            if found and (size < 0 or len(found) == limit):
                return RecordPage(found, cursors.written(place, after))
            found.append(written)
            after = number
        if len(chunk) < most:
            return RecordPage(found)
