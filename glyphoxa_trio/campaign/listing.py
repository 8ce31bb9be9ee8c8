"""Pages of what there is: by number of records and by size, never cut silently."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from . import cursors
from .errors import InvalidArgument
from .model import Campaign, CampaignRecord
from .rules import find
from .store import Records

# A page of a tool, and of a resource: records, and bytes of JSON.
DEFAULT_LIMIT: Final = 50
MOST_LIMIT: Final = 500
MOST_PAGE: Final = 128 * 1024
MOST_DOCUMENT: Final = 1024 * 1024
_CHUNK: Final = 200


@attrs.frozen
class RecordPage:
    """Some records as JSON, and where the next ones begin; None at the end."""

    records: list[dict[str, Any]]
    next_cursor: str | None = None

    def as_json(self, word: str) -> dict[str, Any]:
        """As an answer, the records under ``word``."""
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
    """The records behind a cursor, in the order of their making.

    Args:
      campaign_id: whose they are; None for campaigns themselves.
      limit: at most so many, if there is such a bound.
      size: about so many bytes, and never less than one record.

    Raises:
      NotFound: if there is no such campaign.
      InvalidArgument: for a cursor of another list, or a limit that is none.
    """
    if limit is not None and not 1 <= limit <= MOST_LIMIT:
        raise InvalidArgument(f"limit must be from 1 to {MOST_LIMIT}")
    if campaign_id is not None:
        find(records, Campaign, campaign_id)
    place = kind.WORD if campaign_id is None else f"{kind.WORD} {campaign_id}"
    after = cursors.read(place, cursor)
    found: list[dict[str, Any]] = []
    # One more says whether there are more.
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
