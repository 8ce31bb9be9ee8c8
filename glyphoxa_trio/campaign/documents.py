"""The resources at the URIs of campaigns, as text."""

from __future__ import annotations

import json

from . import uris
from .listing import MOST_DOCUMENT, listed
from .model import LISTS, Campaign
from .rules import find
from .store import Records


def document(records: Records, uri: str) -> str:
    """Return the JSON at a URI.

    A long list is cut to what fits, with a ``next_cursor`` with which a tool returns
    the rest.

    Raises:
      NotFound: if there is nothing at the URI.
      InvalidArgument: if it is no URI of ours; see `uris.parsed`.
    """
    wanted = uris.parsed(uri)
    if wanted is None:
        found = listed(records, Campaign, size=MOST_DOCUMENT)
        return _text(found.as_json("campaigns"))
    if wanted.kind is None:
        campaign = find(records, Campaign, wanted.campaign_id)
        return _text({"campaign": campaign.as_json()})
    word = next(word for word, kind in LISTS.items() if kind is wanted.kind)
    found = listed(records, wanted.kind, wanted.campaign_id, size=MOST_DOCUMENT)
    return _text(found.as_json(word))


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
